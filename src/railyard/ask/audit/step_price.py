"""What a fault costs the job of a scenario: its step on the cluster as built, by the engine of the scenario."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.bill import bill_of
from railyard.cluster.fault import DegradeLink
from railyard.cluster.steering import lost, neighbours
from railyard.engine import get as engine_named
from railyard.graph import Job
from railyard.measure.cost.assumptions import HOURS_PER_MONTH
from railyard.measure.cost.capital import parts_of_rows
from railyard.measure.cost.cost import hourly
from railyard.measure.decompose import decompose
from railyard.work.study.deaths import cut_off
from railyard.work.training.graphs import redrawn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.graph import Record
    from railyard.measure.cost.cost import Hourly
    from railyard.work.training.prepare import Prepared


MOST_PAIRS = 40_000
"""Pairs of switches whose paths are looked at: all of up to 200 switches, of more evenly spread ones."""


@dataclass(frozen=True, eq=False)
class Wrong:
    """What of a network is otherwise than planned.

    Attributes:
        dead: int64[], sorted ids of links that carry nothing.
        slow: Share of its rate that each slow link has.
        ports: Port of the back-end that is used in place of each port of a cable of a host that is elsewhere.
    """

    dead: NDArray[np.int64]
    slow: Mapping[int, float]
    ports: Mapping[int, int]

    @property
    def key(self) -> tuple[object, ...]:
        """What it is known by."""
        return tuple(self.dead.tolist()), tuple(sorted(self.slow.items())), tuple(sorted(self.ports.items()))

    def __bool__(self) -> bool:
        return bool(len(self.dead) or self.slow or self.ports)


def recabled(cluster: Cluster, ports: Mapping[int, int]) -> Cluster:
    """A cluster some of whose ranks have other ports of the back-end, and so other leafs, than planned.

    Args:
        cluster: As planned.
        ports: The port in place of each.
    """
    if not ports:
        return cluster
    back_end = cluster.back_end
    other = np.arange(back_end.ports, dtype=np.int32)
    other[list(ports)] = list(ports.values())
    return cluster.with_back_end(replace(back_end, port_of_rank=other[back_end.port_of_rank]))


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
        self._parts = tuple(bill_of(self.job.cluster))
        cost = self._hourly(record)
        self.usd_per_month = cost.section().usd_per_h.typical * HOURS_PER_MONTH
        owned = sum(band.typical for name, band in cost.parts if name in ("capital", "operations"))
        bought = sum(row.price_usd.typical * row.count for row in self._parts)
        self._month_of_a_dollar = owned * HOURS_PER_MONTH / max(bought, 1.0)
        self._known: dict[tuple[object, ...], Cost] = {}

    def parts_usd(self, network: str, kinds: Mapping[str, int]) -> float:
        """What parts of a network cost a month, as a share of the capital and operations of the whole cluster.

        Args:
            network: Its name in the bill.
            kinds: How many cables of a tier, or switches of a role.
        """
        every: dict[str, int] = {}
        price: dict[str, float] = {}
        for row in self._parts:
            if row.network == network and row.tier in kinds:
                price[row.tier] = price.get(row.tier, 0.0) + row.price_usd.typical * row.count
                if row.kind in ("switch", "cable", "fibre"):
                    every[row.tier] = every.get(row.tier, 0) + row.count
        usd = sum(price.get(name, 0.0) * count / max(every.get(name, 1), 1) for name, count in kinds.items())
        return usd * self._month_of_a_dollar

    def cost(self, wrong: Wrong) -> Cost:
        """Of links that carry nothing, of slow ones, and of hosts' cables in other switches."""
        if wrong.key not in self._known:
            self._known[wrong.key] = self._cost(wrong)
        return self._known[wrong.key]

    def _cost(self, wrong: Wrong) -> Cost:
        cluster, dead, slow = recabled(self.job.cluster, wrong.ports), wrong.dead, wrong.slow
        idle = np.array(sorted(cut_off(dead, cluster)), np.int64) if len(dead) else np.empty(0, np.int64)
        servers = len(np.unique(idle // cluster.ranks_per_server))
        lost = servers * cluster.ranks_per_server / cluster.ranks
        if servers:
            dead, slow = _others(cluster, dead, slow, idle)
        step_s = self.step_s
        if len(dead) or slow or wrong.ports:
            if (len(dead) and parted(cluster, dead)) or (wrong.ports and not _joined(cluster, wrong.ports)):
                return Cost(None, 1.0, self.usd_per_month)
            built = as_built(cluster, dead)
            faults = [DegradeLink(factor=share, link=link) for link, share in slow.items()]
            step_s = self._run(built, faults).makespan_ps * 1e-12
        loss = max(1.0 - (1.0 - lost) * self.step_s / step_s, 0.0)
        return Cost(step_s, loss, loss * self.usd_per_month)

    def _run(self, cluster: Cluster, faults: Sequence[Fault] = ()) -> Record:
        engine = engine_named("flow") if self.job.engine.name == "packet" else self.job.engine
        return engine.simulate([Job(self.graph)], cluster, seed=self.seed, faults=faults, policy=self.job.policy)

    def _hourly(self, record: Record) -> Hourly:
        parts = parts_of_rows(self._parts)
        return hourly(decompose(record), self.job.cluster.accelerator, parts, self.job.assumptions)


def _joined(cluster: Cluster, ports: Mapping[int, int]) -> bool:
    """Whether the ports that are used in place of others reach the rail that they are of, and are reached."""
    network = cluster.back_end
    rank, nic = np.nonzero(np.isin(network.port_of_rank, list(ports.values())))
    for one, which in zip(rank.tolist(), nic.tolist(), strict=True):
        peers = network.port_of_rank[one % cluster.ranks_per_server :: cluster.ranks_per_server, which]
        mine = np.full(len(peers), network.port_of_rank[one, which], np.int32)
        if not network.reachable(mine[peers != mine], peers[peers != mine]).all():
            return False
    return True


def _others(
    cluster: Cluster, dead: NDArray[np.int64], slow: Mapping[int, float], idle: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Mapping[int, float]]:
    """Faulty links that are not those of ranks that are cut off, or of leafs of such ranks alone: these do not run."""
    network = cluster.back_end
    wiring, ports = network.wiring, np.unique(network.port_of_rank[idle])
    out = np.flatnonzero(np.isin(wiring.source, wiring.used) & (wiring.source < wiring.ports))
    busy = np.unique(wiring.target[out[~np.isin(wiring.source[out], ports)]])
    leafs = np.setdiff1d(wiring.target[out[np.isin(wiring.source[out], ports)]], busy)
    nodes = np.concatenate([ports, leafs]) + network.node_offset
    mine = np.isin(cluster.links.source, nodes) | np.isin(cluster.links.target, nodes)
    return dead[~mine[dead]], {link: share for link, share in slow.items() if not mine[link]}
