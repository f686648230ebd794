"""What a wrong setting does to a load that no scenario has to describe: packets over four racks, with it and without.

Every port of four leafs sends to the port a `shift` further, shift after shift, as in the job of reference
(`audit.reference`). *Crowded*, one port in eight of each leaf is also the target of many senders at once: a popular
expert, a checkpoint's writer, a parameter's owner. Even shifts fill no queue where as many ports lead up as down, so
that pauses and headroom change nothing there; under oversubscription they sometimes do, and crowded ports always. What
is compared is the time until the last flow of a rack has ended, in the mean of racks and shifts, on the same drawn
paths.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.bill import bill_of
from railyard.cluster.fabric import fabrics
from railyard.cluster.fault import DegradeLink
from railyard.cluster.steering import lost
from railyard.engine import get as engine_named
from railyard.engine.packet.fabrics import constants_of
from railyard.engine.packet.faults import LinkFault
from railyard.engine.packet.networks import leaf_spine
from railyard.engine.packet.records import Traffic
from railyard.engine.packet.running import run
from railyard.engine.packet.settings import Settings
from railyard.graph import Job
from railyard.kit.errors import SimulationError
from railyard.measure.cost.assumptions import HOURS_PER_MONTH
from railyard.measure.cost.capital import parts_of_rows
from railyard.measure.cost.cost import hourly
from railyard.measure.decompose import decompose
from railyard.work.study.deaths import cut_off
from railyard.work.training.graphs import redrawn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.audit.infer import InferredDesign
    from railyard.ask.audit.symptom import AuditFinding, Setting
    from railyard.cluster import Cluster
    from railyard.cluster.fabric import Fabric
    from railyard.cluster.fault import Fault
    from railyard.cluster.network_table import NetworkTable
    from railyard.engine.packet.records import PacketNetwork
    from railyard.graph import Record
    from railyard.measure.cost.cost import Hourly
    from railyard.work.training.prepare import Prepared


LEAFS = 4
MOST_PORTS = 32
"""Ports of a leaf to servers that are played; as many to spines as the ratio of the real ones leaves."""

SPINES = 4

FLOW_BYTES = 4 << 20
"""Bytes of a flow of a shift: a message of a ring or an exchange."""

HOT, SENDERS, BURST_BYTES = 8, 32, 1 << 20
"""One port in so many is crowded, by so many senders of so much each: 32 MB, a layer's gradients or experts."""

SEEDS = (1, 2, 3, 4)
"""Draws of hashed paths, and with each another shift."""


@dataclass(frozen=True)
class Rack:
    """The switches that are played."""

    constants: tuple[tuple[str, Any], ...]
    below: int
    above: int
    rate_bps: int
    hop_ps: int

    def network(self) -> PacketNetwork:
        """Four leafs with spines, or one switch where there are none above."""
        below = self.leaf_ports
        above = round(self.above * below / max(self.below, 1))
        leafs = LEAFS if above else 1
        spines = max(min(SPINES, above), 1)
        return leaf_spine(
            leafs * below,
            leaf_hosts=below,
            spines=spines,
            cables=max(above // spines, 1),
            rate_bps=self.rate_bps,
            latency_ps=self.hop_ps,
        )

    @property
    def leaf_ports(self) -> int:
        """Ports to servers of a simulated leaf."""
        return max(min(self.below, MOST_PORTS), 2)


@dataclass(frozen=True)
class Slower:
    """Time of all racks with a wrong setting over that without: of the draw with least, in the mean, with most."""

    low: float
    mean: float
    high: float


@cache
def slower(rack: Rack, settings: tuple[Setting, ...], *, crowded: bool) -> Slower:
    """Slowdown of the standard load by settings of one switch."""
    times = [(_played(rack, settings, seed, crowded), _played(rack, (), seed, crowded)) for seed in SEEDS]
    ratio = [wrong / right for wrong, right in times]
    return Slower(min(ratio), sum(wrong for wrong, _ in times) / sum(right for _, right in times), max(ratio))


@cache
def _played(rack: Rack, settings: tuple[Setting, ...], seed: int, crowded: bool) -> float:
    """Time of the racks in the mean, ps."""
    network = rack.network()
    source, target, size = _flows(network.hosts, rack.leaf_ports, seed, crowded)
    traffic = Traffic.of(network.hosts, source, target, size)
    faults = tuple(_faults(network, rack.leaf_ports, settings))
    end = run(network, traffic, Settings(**dict(rack.constants), seed=seed, faults=faults)).end_ps
    racks = network.hosts // rack.leaf_ports
    last = np.zeros(racks)
    for side in (source, target):
        np.maximum.at(last, side // rack.leaf_ports, end)
    if (end < 0).any():
        raise SimulationError("flows of the standard load never end")
    return float(last.mean())


def _flows(hosts: int, ports: int, seed: int, crowded: bool) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """A shift by more than a rack, and what comes to crowded ports from all racks."""
    every = np.arange(hosts)
    shift = (ports // 2 + seed * (ports + 5)) % (hosts - 1) + 1
    rows = [(every, (every + shift) % hosts, np.full(hosts, FLOW_BYTES))]
    if crowded:
        hot = every[seed % HOT :: HOT]
        senders = min(SENDERS, hosts - 1)
        target = np.repeat(hot, senders)
        step = np.tile(1 + np.arange(senders) * max((hosts - 1) // senders, 1), len(hot))
        rows.append(((target + step) % hosts, target, np.full(len(target), BURST_BYTES)))
    source, target, size = (np.concatenate(column) for column in zip(*rows, strict=True))
    return source, target, size


def _faults(network: PacketNetwork, ports: int, settings: Sequence[Setting]) -> Iterator[LinkFault]:
    leafs = network.hosts // ports
    for setting in settings:
        node = network.hosts + (0 if setting.leaf else leafs)
        comes, goes = (np.flatnonzero(ends == node) for ends in (network.link_target, network.link_source))
        into = _some(comes, network.link_source[comes] < network.hosts, setting)
        out = _some(goes, network.link_target[goes] < network.hosts, setting)
        if setting.what == "mark":
            yield from (LinkFault(0, link, "mark", 0.0) for link in out)
        elif setting.what == "headroom":
            yield from (LinkFault(0, link, "headroom", setting.kept) for link in into)
        else:
            yield from (LinkFault(0, link, "pause", 0.0) for link in into)
            yield from (LinkFault(0, link, "obey", 0.0) for link in out)


def _some(links: NDArray[np.int64], hosts: NDArray[np.bool_], setting: Setting) -> list[int]:
    """The wrong ones: as large a part of those below and above as at the real switch."""
    below, above = (links[hosts], links[~hosts]) if setting.leaf else (links, links[:0])
    return [*_spread(below, setting.below), *_spread(above, setting.above)]


def _spread(links: NDArray[np.int64], share: float) -> list[int]:
    count = min(int(np.ceil(share * len(links) - 1e-9)), len(links))
    if not count:
        return []
    found: list[int] = links[np.linspace(0, len(links) - 1, count).round().astype(np.int64)].tolist()
    return found


CROWDED_SHARE = 0.2
"""Share of the communication of a job that meets crowded ports: an assumption, given with every price."""

CROWDED = f"shifts with {SENDERS}-to-1 incasts on one port in {HOT}"


def rack_of(found: NetworkTable, design: InferredDesign, fabric: Fabric | None) -> Rack | None:
    """The rack that stands for a network: ports of its usual leaf; None where nothing of it can be set.

    Args:
        found: The network.
        design: The regular one behind it.
        fabric: What is played; None: `roce`, as switches whose configurations are read usually are.
    """
    played = fabrics.get("roce") if fabric is None else fabric
    constants = constants_of(played)
    if not len(found.access) or constants.get("switching") != "pfc":
        return None
    below = np.unique(found.access_ends[:, 0], return_counts=True)[1]
    first = [block for block in design.blocks if block.tier == 1]
    above = np.concatenate([block.meant.sum(axis=1) for block in first]) if first else np.zeros(1, np.int64)
    rate = int(found.rate_bps[found.access].max(initial=0)) or 400 * 10**9
    ports = int(np.median(below)), int(np.median(above))
    return Rack(tuple(sorted(constants.items())), *ports, rate, int(played.hop_latency_ps))


def priced(
    rack: Rack, finding: AuditFinding, loss: Callable[[float], float], usd: Callable[[float], float], load: str
) -> AuditFinding:
    """Prices the settings of one switch, by simulated packets and by the load that waits for them.

    The loss is of `CROWDED_SHARE` of communication crowded, in the mean of draws; the band goes from none of it crowded
    to all of it, in the worst draw.

    Args:
        rack: Stands for the network.
        finding: With the settings.
        loss: Share of the accelerators' time where communication takes so many times as long.
        usd: A month of such a loss.
        load: What waits, in words.
    """
    settings = finding.settings
    even, crowded = slower(rack, settings, crowded=False), slower(rack, settings, crowded=True)
    mixed = (1.0 - CROWDED_SHARE) * even.mean + CROWDED_SHARE * crowded.mean
    quiet, busy, most = (loss(max(one, 1.0)) for one in (even.mean, mixed, crowded.high))
    words = (
        f"packets: {CROWDED} take {crowded.mean:.5g} times as long ({crowded.low:.3g} to {crowded.high:.3g} by the draw"
        f" of paths), even shifts {even.mean:.5g} times; {CROWDED_SHARE:.0%} of communication is assumed"
        f" crowded, and the"
        f" band covers none to all; {load}"
    )
    band = min(quiet, busy), max(most, busy)
    return replace(finding, loss=busy, usd_per_month=usd(busy), band=band, priced_by=words)


MOST_PAIRS = 40_000
"""Pairs of switches whose paths are looked at: all of up to 200 switches, of more evenly spread ones."""


@dataclass(frozen=True, eq=False)
class Wrong:
    """Deviations of a network from its plan.

    Attributes:
        dead: int64[], sorted ids of links that carry nothing.
        ports: Port of the back-end that is used in place of each port of a cable of a host that is elsewhere.
    """

    dead: NDArray[np.int64]
    slow: Mapping[int, float]
    ports: Mapping[int, int]

    @property
    def key(self) -> tuple[object, ...]:
        """Key of the state in a cache."""
        return tuple(self.dead.tolist()), tuple(sorted(self.slow.items())), tuple(sorted(self.ports.items()))

    def __bool__(self) -> bool:
        return bool(len(self.dead) or self.slow or self.ports)


def recabled(cluster: Cluster, ports: Mapping[int, int]) -> Cluster:
    """A cluster some of whose ranks have other ports of the back-end, and so other leafs, than planned."""
    if not ports:
        return cluster
    back_end = cluster.back_end
    other = np.arange(back_end.ports, dtype=np.int32)
    other[list(ports)] = list(ports.values())
    return cluster.with_back_end(replace(back_end, port_of_rank=other[back_end.port_of_rank]))


def as_built(cluster: Cluster, dead: NDArray[np.int64]) -> Cluster:
    """A cluster some of whose links carry nothing, around which routes lead."""
    if not len(dead):
        return cluster
    rate = cluster.links.rate_bps.copy()
    rate[dead] = 0.0
    links = replace(cluster.links, rate_bps=cluster.links.with_bundles(rate))
    return replace(cluster.without(dead), links=links)


def parted(cluster: Cluster, dead: NDArray[np.int64]) -> bool:
    """Whether two ports in use do not reach each other any more, so that a job hangs."""
    network = cluster.back_end
    wiring = network.wiring
    if wiring.detour is not None:
        return severed(as_built(cluster, dead), dead)
    used = np.zeros(wiring.ports, np.bool_)
    used[wiring.used] = True
    own = dead[(dead >= network.link_offset) & (dead < network.link_offset + wiring.links)] - network.link_offset
    gone = lost(wiring, own)
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
class StepCost:
    """Cost of a state of the network.

    Attributes:
        step_s: Step of the job; of what is left of it where servers are cut off; None where it hangs.
        loss: Share of the accelerators' time, against the plan.
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
        self._known: dict[tuple[object, ...], StepCost] = {}

    def parts_usd(self, network: str, kinds: Mapping[str, int]) -> float:
        """What parts of a network cost a month, as a share of the capital and operations of the whole cluster."""
        every: dict[str, int] = {}
        price: dict[str, float] = {}
        for row in self._parts:
            if row.network == network and row.tier in kinds:
                price[row.tier] = price.get(row.tier, 0.0) + row.price_usd.typical * row.count
                if row.kind in ("switch", "cable", "fibre"):
                    every[row.tier] = every.get(row.tier, 0) + row.count
        usd = sum(price.get(name, 0.0) * count / max(every.get(name, 1), 1) for name, count in kinds.items())
        return usd * self._month_of_a_dollar

    def cost(self, wrong: Wrong) -> StepCost:
        """Cost of links that carry nothing, of slow ones, and of hosts' cables in other switches."""
        if wrong.key not in self._known:
            self._known[wrong.key] = self._cost(wrong)
        return self._known[wrong.key]

    def _cost(self, wrong: Wrong) -> StepCost:
        cluster, dead, slow = recabled(self.job.cluster, wrong.ports), wrong.dead, wrong.slow
        idle = np.array(sorted(cut_off(dead, cluster)), np.int64) if len(dead) else np.empty(0, np.int64)
        servers = len(np.unique(idle // cluster.ranks_per_server))
        lost = servers * cluster.ranks_per_server / cluster.ranks
        if servers:
            dead, slow = _others(cluster, dead, slow, idle)
        step_s = self.step_s
        if len(dead) or slow or wrong.ports:
            if (len(dead) and parted(cluster, dead)) or (wrong.ports and not _joined(cluster, wrong.ports)):
                return StepCost(None, 1.0, self.usd_per_month)
            built = as_built(cluster, dead)
            faults = [DegradeLink(factor=share, link=link) for link, share in slow.items()]
            step_s = self._run(built, faults).makespan_ps * 1e-12
        loss = max(1.0 - (1.0 - lost) * self.step_s / step_s, 0.0)
        return StepCost(step_s, loss, loss * self.usd_per_month)

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
