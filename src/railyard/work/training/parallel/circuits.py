"""Exchanges of experts over circuits between servers: what each pair of servers sends, and circuits that follow it.

A step's graph has exchanges that are alike for all pairs. Where pairs differ, or circuits change between exchanges, an
exchange gets as many bytes as such a one moves in the time that its own takes, the dark before it included.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import chain, combinations, islice, pairwise
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.circuits import Followed, Phase, ServerPorts, circuits_for, follow_demand, sending_s
from railyard.kit.errors import InputError
from railyard.kit.quantities import about_time
from railyard.measure.numbers import percent
from railyard.model.architecture import tokens_between
from railyard.work.training.compute import StageCosts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.work.training.parallel.parts import StageParts, StageTraffic
    from railyard.work.training.slots import Lattice
    from railyard.work.training.spec import Training

    Layers = list[tuple[NDArray[np.float64], NDArray[np.int64]]]
    """Demand of each layer of a stage, and circuits for it."""

PASSES = ("forward", "recompute", "backward")
_LAYERS = 64
"""Layers of experts over which the passes are averaged, each with its own draw of what ranks send."""


def over_circuits(parts: StageParts, training: Training, cluster: Cluster, lattice: Lattice) -> StageParts:
    """The parts, whose exchanges of experts take as long as circuits between servers let them.

    Raises:
        InputError: Circuits follow demand, and a region is not the servers of a group of experts.
    """
    circuits = cluster.back_end.wiring.circuits
    if circuits is None or circuits.servers is None or training.layout.ep == 1:
        return parts
    if circuits.dead_ps is None and not training.routing_own:
        return parts
    factor = _exchanges(training, cluster, lattice).factors()
    return replace(parts, traffic=tuple(_scaled(one, factor.get(one.phase, 1.0)) for one in parts.traffic))


def circuit_notes(training: Training, cluster: Cluster, lattice: Lattice) -> Iterator[str]:
    """What circuits that follow demand do in a step; nothing where circuits stay for the job."""
    circuits = cluster.back_end.wiring.circuits
    if circuits is None or circuits.dead_ps is None:
        return
    if training.layout.ep == 1:
        yield "circuits stay as they are: they follow what groups of experts send, and there is none (`parallelism.ep`)"
        return
    changed, dead = _exchanges(training, cluster, lattice).changed, about_time(circuits.dead_ps)
    if not changed:
        yield f"circuits stay as they are: no exchange of experts gains the {dead} of a change"
    else:
        yield f"circuits change before {percent(changed)} of the exchanges of experts, dark for {dead} each time"


def _exchanges(training: Training, cluster: Cluster, lattice: Lattice) -> _Exchanges:
    circuits = cluster.back_end.wiring.circuits
    assert circuits is not None  # else the callers have returned
    assert circuits.servers is not None
    region = len(circuits.servers.joined)
    servers = _servers(cluster, lattice)
    if any(len(set(row)) != region for row in (servers % region).tolist()) or np.ptp(servers // region, axis=1).any():
        raise InputError(
            "circuits that follow demand join the servers of a group of experts",
            key="parallelism.ep",
            found=f"groups of {training.layout.ep} over {len(set(servers[0].tolist()))} servers",
            allowed=f"groups over the {region} servers of a region: see `back_end.topology.region`",
        )
    return _Exchanges(training, cluster, servers[servers[:, 0] < region])


def _servers(cluster: Cluster, lattice: Lattice) -> NDArray[np.int64]:
    """int64[groups, ranks of a group], the servers of every group of experts."""
    circuits = cluster.back_end.wiring.circuits
    assert circuits is not None  # else the caller has returned
    assert circuits.servers is not None
    return circuits.servers.server_of(cluster.back_end.port_of_rank[lattice.communicators("ep"), 0])


def _scaled(traffic: StageTraffic, factor: float) -> StageTraffic:
    if traffic.group != "ep":
        return traffic
    open_, hidden = (np.rint(size * factor).astype(np.int64) for size in (traffic.open_bytes, traffic.hidden_bytes))
    return replace(traffic, open_bytes=open_, hidden_bytes=hidden)


class _Exchanges:
    """The exchanges of a stage's micro-batches, one after another, between the servers of a region.

    Args:
        training: The job.
        cluster: On which it runs.
        groups: int64[groups, ranks of a group], servers of the groups of the first region.
    """

    def __init__(self, training: Training, cluster: Cluster, groups: NDArray[np.int64]) -> None:
        plan = cluster.plans["back_end"]
        circuits = plan.wiring.circuits
        assert circuits is not None  # else the caller has returned
        assert circuits.servers is not None
        self.training, self.groups = training, groups
        self.even = circuits.servers.joined
        self.dead_s = None if circuits.dead_ps is None else circuits.dead_ps * 1e-12
        rate = plan.link_bps * float(plan.usable.min()) / 8
        self.ports = ServerPorts(plan.nics - circuits.servers.packet_nics, circuits.servers.packet_nics, rate)
        self.costs = StageCosts.of(training, cluster.accelerator)
        self.busiest = float(self.costs.columns.job.imbalance[0])
        sizes = (float(one.size_bytes[0]) for one in self.costs.exchanges if one.group == "ep")
        self.bytes = next(sizes) / self.busiest

    def factors(self) -> dict[str, float]:
        """By pass, seconds of an exchange over those of one that is as long as its busiest rank would make it.

        Circuits follow demand in those passes in which that makes a step's exchanges shortest, and are even in others.
        """
        passes, found = self._best
        best = np.array([one.seconds for one in found])
        alike = np.full((self.training.layout.ep,) * 2, 1.0 / self.training.layout.ep)
        usual = sending_s(self._demand(alike), self.even, self.ports) * self.busiest
        return {name: float(best[passes == name].mean()) / usual for name in np.unique(passes).tolist()}

    @property
    def changed(self) -> float:
        """Share of the exchanges before which circuits change."""
        _, found = self._best
        before = [self.even, *(one.circuits for one in found)]
        return float(np.mean([one is not other for one, other in pairwise(before)]))

    @cached_property
    def _best(self) -> tuple[NDArray[np.str_], list[Followed]]:
        """The pass of each exchange, and what it does where circuits follow in the best passes."""
        draws = list(self._layers())
        passes = np.array([name for name, _ in self._phases(draws, ())])
        follow_in = [()] if self.dead_s is None else chain(*(combinations(PASSES, count) for count in range(4)))
        tried = [self._followed(self._phases(draws, some)) for some in follow_in]
        return passes, min(tried, key=lambda found: np.sum([one.seconds for one in found]))

    def _followed(self, phases: Iterable[tuple[str, Phase]]) -> list[Followed]:
        return list(follow_demand((phase for _, phase in phases), self.even, self.ports, self.dead_s or 0.0))

    def _layers(self) -> Iterator[Layers]:
        """Demand and its circuits for the layers of a stage, for one micro-batch after another."""
        model, layout = self.training.model, self.training.layout
        layers = max(1, model.moe_layers // (layout.pp * layout.vp))
        tables = tokens_between(model.experts, layout.ep, self.training.routing_skew, self.training.routing_own)
        for _ in range(max(_LAYERS // layers, 1)):
            demands = [self._demand(table) for table in islice(tables, layers)]
            yield [(demand, circuits_for(demand, self.ports)) for demand in demands]

    def _phases(self, draws: list[Layers], following: Collection[str]) -> Iterator[tuple[str, Phase]]:
        """Forward and backward in turn, each layer with two exchanges a pass: to the experts, and back.

        The gate decides in front of the first; from then on the layer's demand is known. Circuits idle in attention and
        in experts.
        """
        times, again = self.costs.passes, self.training.layout.recompute == "full"
        around, inside = times.attention, times.experts
        ahead, experts = float(around.forward[0]), float(inside.forward[0])
        before, under = (float((one.backward_input + one.backward_weight)[0]) for one in (around, inside))
        forward = (("forward", ahead, 0.0), ("forward", experts, np.inf))
        repeated = (("recompute", before + ahead, np.inf), ("recompute", experts, np.inf)) if again else ()
        backward = (*repeated, ("backward", 0.0 if again else before, np.inf), ("backward", under, np.inf))
        for layers in draws:
            for every, exchanges in ((layers, forward), (layers[::-1], backward)):
                for demand, own in every:
                    for name, idle_s, known_s in exchanges:
                        yield name, Phase(demand, own if name in following else None, idle_s, known_s)

    def _demand(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bytes between the servers of the region, from shares between ranks of a group."""
        demand = np.zeros(self.even.shape)
        for servers in self.groups:
            np.add.at(demand, (servers[:, None], servers[None, :]), table * self.bytes)
        np.fill_diagonal(demand, 0.0)
        return demand
