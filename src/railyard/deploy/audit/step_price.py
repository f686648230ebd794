"""What a fault costs the job of a scenario: its step on the cluster as built, by the engine of the scenario."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.bill import bill_of
from railyard.cluster.withdrawal import lost, neighbours
from railyard.economics.assumptions import HOURS_PER_MONTH
from railyard.economics.hourly import hourly
from railyard.economics.parts import parts_of_rows
from railyard.engine import get as engine_named
from railyard.fault import DegradeLink
from railyard.graph import Job
from railyard.measure.decompose import decompose
from railyard.study.deaths import cut_off
from railyard.study.training.hash_seeds import redrawn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.fault import Fault
    from railyard.graph import Record
    from railyard.study.training.prepare import Prepared


MOST_PAIRS = 40_000
"""Pairs of switches whose paths are looked at: all of up to 200 switches, of more evenly spread ones."""


def as_built(cluster: Cluster, dead: NDArray[np.int64]) -> Cluster:
    """A cluster some of whose links carry nothing, around which routes lead.

    Args:
        cluster: As planned.
        dead: Ids of links.
    """
    if not len(dead):
        return cluster
    rate = cluster.links.rate_bps.copy()
    rate[dead] = 0.0
    links = replace(cluster.links, rate_bps=cluster.links.with_bundles(rate))
    return replace(cluster.without(dead), links=links)


def parted(cluster: Cluster, dead: NDArray[np.int64]) -> bool:
    """Whether two ports in use do not reach each other any more, so that a job hangs.

    Args:
        cluster: As planned.
        dead: Ids of links.
    """
    network = cluster.back_end
    wiring = network.wiring
    if wiring.detour is not None:
        return severed(as_built(cluster, dead), dead)
    used = np.zeros(wiring.ports, np.bool_)
    used[wiring.used] = True
    own = dead[(dead >= network.link_offset) & (dead < network.link_offset + wiring.links)] - network.link_offset
    gone = lost(wiring, own, neighbours(wiring))
    return any(
        used[lo:hi].any() for node, ranges in gone.items() if node < wiring.ports and used[node] for lo, hi in ranges
    )


def severed(cluster: Cluster, dead: NDArray[np.int64]) -> bool:
    """The same where traffic takes detours: whether two leaves are joined by nothing but dead links.

    Args:
        cluster: As built: its routes keep off dead links wherever there are others.
        dead: Ids of links.
    """
    network = cluster.back_end
    access = network.wiring.source[0::2] < network.ports
    leaf, at = np.unique(network.wiring.target[0::2][access], return_index=True)
    port = network.wiring.source[0::2][access][at]
    if len(leaf) < 2 or not len(dead):
        return False
    pairs = np.arange(len(leaf) ** 2)[:: max(len(leaf) ** 2 // MOST_PAIRS, 1)]
    source, target = port[pairs // len(leaf)], port[pairs % len(leaf)]
    reached = network.reachable(source, target) & (source != target)
    usage = network.spread(source[reached], target[reached], physical=True)
    ends = np.isin(usage.link, dead)
    between = np.isin(cluster.links.source[usage.link], port + network.node_offset) | np.isin(
        cluster.links.target[usage.link], port + network.node_offset
    )
    return bool((ends & ~between).any())


@dataclass(frozen=True)
class Cost:
    """What a state of the network costs.

    Attributes:
        step_s: Step of the job; of what is left of it where servers are cut off; None where it hangs.
        loss: Share of the accelerators' time, against the plan.
        usd_per_month: The same in dollars.
    """

    step_s: float | None
    loss: float
    usd_per_month: float


class StepPricing:
    """Steps of one scenario on its network with faults; each state is simulated once."""

    def __init__(self, job: Prepared) -> None:
        seed = job.seeds[0]
        self.job, self.seed = replace(job, cluster=redrawn(job.cluster, seed)), seed
        self.graph = job.graphs.of(job.training, job.cluster)
        record = self._run(self.job.cluster)
        self.step_s = record.makespan_ps * 1e-12
        self.usd_per_month = self._usd_per_hour(record) * HOURS_PER_MONTH
        self._known: dict[tuple[tuple[int, ...], tuple[tuple[int, float], ...]], Cost] = {}

    def cost(self, dead: NDArray[np.int64], slow: Mapping[int, float]) -> Cost:
        """Of links that carry nothing, and of slow ones."""
        key = tuple(dead.tolist()), tuple(sorted(slow.items()))
        if key not in self._known:
            self._known[key] = self._cost(dead, slow)
        return self._known[key]

    def _cost(self, dead: NDArray[np.int64], slow: Mapping[int, float]) -> Cost:
        cluster = self.job.cluster
        idle = np.array(sorted(cut_off(dead, cluster)), np.int64) if len(dead) else np.empty(0, np.int64)
        servers = len(np.unique(idle // cluster.ranks_per_server))
        lost = servers * cluster.ranks_per_server / cluster.ranks
        if servers:
            dead, slow = _others(cluster, dead, slow, idle)
        step_s = self.step_s
        if len(dead) or slow:
            if len(dead) and parted(cluster, dead):
                return Cost(None, 1.0, self.usd_per_month)
            built = as_built(cluster, dead)
            faults = [DegradeLink(factor=share, link=link) for link, share in slow.items()]
            step_s = self._run(built, faults).makespan_ps * 1e-12
        loss = max(1.0 - (1.0 - lost) * self.step_s / step_s, 0.0)
        return Cost(step_s, loss, loss * self.usd_per_month)

    def _run(self, cluster: Cluster, faults: Sequence[Fault] = ()) -> Record:
        engine = engine_named("flow") if self.job.engine.name == "packet" else self.job.engine
        return engine.simulate([Job(self.graph)], cluster, seed=self.seed, faults=faults, policy=self.job.policy)

    def _usd_per_hour(self, record: Record) -> float:
        cluster = self.job.cluster
        rows = bill_of(cluster)
        parts = parts_of_rows(rows)
        cost = hourly(decompose(record), cluster.accelerator, parts, self.job.assumptions)
        return cost.section().usd_per_h.typical


def _others(
    cluster: Cluster, dead: NDArray[np.int64], slow: Mapping[int, float], idle: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Mapping[int, float]]:
    """Faulty links that are not the own ones of ranks that are cut off: these do not run at all."""
    network = cluster.back_end
    nodes = np.unique(network.port_of_rank[idle]) + network.node_offset
    mine = np.isin(cluster.links.source, nodes) | np.isin(cluster.links.target, nodes)
    return dead[~mine[dead]], {link: share for link, share in slow.items() if not mine[link]}
