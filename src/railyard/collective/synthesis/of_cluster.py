"""The links between some ranks of a cluster, as the synthesis takes them: scale-up, NICs, switches; faults slow them.

A message over scale-up takes the library's step, one through NICs the library's step and the path, so that finishes are
those of a real run but for what launches it. Rates are what data can reach.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.collective.algorithm import ALGORITHMS
from railyard.collective.choice import DEFAULT_POLICY
from railyard.collective.lowering.paths import shape_of
from railyard.collective.lowering.routes import rail_of_local, scale_up_efficiency
from railyard.collective.machine import Case, machine_of
from railyard.collective.policy import kind_word
from railyard.collective.synthesis.msccl import msccl_xml
from railyard.collective.synthesis.msccl_run import schedule_of
from railyard.collective.synthesis.network import LinkNetwork, joined
from railyard.collective.synthesis.search import synthesize
from railyard.collective.synthesis.symmetry import MOST_ELEMENTS
from railyard.collective.synthesis.written import make
from railyard.collective.timing import kernel_gbs, pace
from railyard.graph import CollectiveKind
from railyard.kit import quantities
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.policy import CollectivePolicy

    Ints = NDArray[np.int64]
    Rows = list[tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]]
    from railyard.collective.algorithm import Algorithm, Schedule
    from railyard.collective.machine import CollectiveMachine, Shape
    from railyard.collective.synthesis.search import SynthesizedSchedule


MOST_RANKS = MOST_ELEMENTS
"""Most ranks, as many as a symmetry has elements: 4,096 on rails take 62 s of CPU and 3 GB for an all-gather."""


def network_of(
    cluster: Cluster,
    members: Ints,
    kind: CollectiveKind,
    *,
    keeps: NDArray[np.float64] | None = None,
    policy: CollectivePolicy = DEFAULT_POLICY,
) -> LinkNetwork:
    """Links between ranks of a cluster; nodes below `len(members)` are the members, in order.

    Args:
        cluster: Where they are.
        members: int64[k], ranks.
        kind: What is done over them: the library's kernels move some kinds faster.
        keeps: float64[links of the cluster], which share of its rate each link keeps; None: all of it.
        policy: What the library and the network's software take.

    Raises:
        InputError: There are too many, or two that nothing joins.
    """
    if not 2 <= len(members) <= MOST_RANKS:
        raise InputError(
            "symmetries of so many ranks are not looked for",
            key="ranks",
            found=len(members),
            allowed=f"2 to {MOST_RANKS}",
        )
    share = np.ones(len(cluster.links)) if keeps is None else keeps
    machine = machine_of(cluster, policy.measured)
    case = Case(machine, shape_of(cluster, members.astype(np.int32)), kind, policy.version_number)
    hop_us, out_us = _steps_us(cluster, case, policy)
    nodes = _Nodes(cluster, members)
    rows: Rows = []
    _add_scale_up(rows, cluster, nodes, share, (hop_us, kernel_gbs(case)))
    _add_network(rows, cluster, nodes, share, (out_us, rails_of(cluster, members, pxn=policy.pxn)))
    source, target, rate, late, rail = (np.concatenate(column) for column in zip(*rows, strict=True))
    used = (rate > 0) & (source >= 0) & (target >= 0)
    number, ends = np.unique(np.concatenate([np.arange(len(members)), source[used], target[used]]), return_inverse=True)
    ends = ends[len(members) :].reshape(2, -1).astype(np.int32)
    switch = number >= len(members)
    return joined(LinkNetwork(ends[0], ends[1], rate[used] / 8e6, late[used], switch, packets=True, rail=rail[used]))


class _Nodes:
    """Numbers of nodes: the members from 0, then what else the cluster has; -1 for ranks that are no members."""

    def __init__(self, cluster: Cluster, members: Ints) -> None:
        self.members = members
        self.rank = np.full(cluster.ranks, -1, np.int64)
        self.rank[members] = np.arange(len(members))
        self.switches = len(members)
        self.network = len(members) + cluster.scale_up.domains

    def of(self, cluster: Cluster, node: Ints) -> Ints:
        """Numbers here of the cluster's ranks and scale-up switches."""
        inside = node < cluster.ranks
        return np.where(inside, self.rank[np.where(inside, node, 0)], self.switches + node - cluster.ranks)


def _steps_us(cluster: Cluster, case: Case, policy: CollectivePolicy) -> tuple[float, float]:
    """What the library takes for a message inside a domain and through NICs, without the links' own latency, us."""
    paced = pace(case, ALGORITHMS.get("ring"), "simple", np.array([1e6]))
    nic_us = (policy.network_overhead_ps + cluster.fabric.nic_latency_ps) * 1e-6
    return paced.hop_us, paced.software_us + nic_us


def _add_scale_up(
    rows: Rows, cluster: Cluster, nodes: _Nodes, share: NDArray[np.float64], pace_of: tuple[float, float]
) -> None:
    """The links of the domains; the first of a path has the latency of the message.

    Args:
        rows: To which they are added.
        cluster: Whose.
        nodes: Their numbers.
        share: Of its rate that each link keeps.
        pace_of: Latency of a message in us; GB/s that the library's kernels move out of a rank.
    """
    scale_up, (hop_us, kernel) = cluster.scale_up, pace_of
    source, target = scale_up.ends(cluster.ranks)
    at = scale_up.first_link + np.arange(len(source))
    rate = np.minimum(scale_up.rates_bps() * scale_up_efficiency(cluster), kernel * 8e9) * share[at]
    late = np.where(source < cluster.ranks, hop_us, 0.0)
    rows.append((nodes.of(cluster, source), nodes.of(cluster, target), rate, late, np.full(len(rate), -1)))


def rails_of(cluster: Cluster, members: Ints, *, pxn: bool) -> Ints:
    """int64[members, NICs of a rank], the rail of each port: a message leaves and arrives by NICs of the same number.

    With PXN it reaches the rail of its target over scale-up, where that joins a server.
    """
    nics = cluster.back_end.port_of_rank.shape[1]
    rail = np.zeros(len(members), np.int64)
    if pxn and cluster.scale_up_domain >= cluster.ranks_per_server:
        rail = rail_of_local(cluster)[members % cluster.ranks_per_server]
    found: Ints = rail[:, None] * nics + np.arange(nics)
    return found


def _add_network(
    rows: Rows, cluster: Cluster, nodes: _Nodes, share: NDArray[np.float64], pace_of: tuple[float, Ints]
) -> None:
    """Links between the members' ports. A port of one member is that member; else a link leads there and back.

    Args:
        rows: To which they are added.
        cluster: Whose.
        nodes: Their numbers.
        share: Of its rate that each link keeps.
        pace_of: Latency of a message in us; the rail of each port.
    """
    network, every, (out_us, rails) = cluster.back_end, cluster.links, pace_of
    if network.fabric.load_balancing == "ideal":
        _add_crossbar(rows, cluster, nodes, share, pace_of)
        return
    wiring, ports = network.wiring, network.port_of_rank[nodes.members].astype(np.int64)
    at = network.link_offset + np.arange(wiring.links)
    source, target = (np.asarray(ends, np.int64) for ends in (wiring.source, wiring.target))
    rate = every.rate_bps[at] * network.fabric.payload_efficiency
    late = every.latency_ps[at] * 1e-6
    place = nodes.network + np.arange(wiring.nodes)
    rank = np.repeat(np.arange(len(ports)), ports.shape[1])
    hands_on = bool(((source < network.ports) & (target < network.ports)).any())
    if hands_on or len(np.unique(ports)) < ports.size:
        total = np.bincount(source, rate, wiring.nodes)[ports.ravel()]
        rows.append((rank, place[ports.ravel()], total, np.full(len(rank), out_us), rails.ravel()))
        rows.append((place[ports.ravel()], rank, total, np.zeros(len(rank)), rails.ravel()))
    else:
        place[: network.ports] = -1  # ports of nobody who takes part
        place[ports.ravel()] = rank
        late += np.where(source < network.ports, out_us, 0.0)
    rail = np.full(wiring.nodes, -1, np.int64)
    if len(rows) == 1:  # ports are members
        rail[ports.ravel()] = rails.ravel()
    rows.append((place[source], place[target], rate * share[at], late, np.maximum(rail[source], rail[target])))


def _add_crossbar(
    rows: Rows, cluster: Cluster, nodes: _Nodes, share: NDArray[np.float64], pace_of: tuple[float, Ints]
) -> None:
    """Adds the ports' own links, the only limits on `ideal`; see `_add_network`."""
    network, every, (out_us, rails) = cluster.back_end, cluster.links, pace_of
    middle = nodes.network + network.nodes
    for rank, ports in enumerate(network.port_of_rank[nodes.members].tolist()):
        for nic, port in enumerate(ports):
            for links, out in zip(network.port_links(port), (True, False), strict=True):
                rate = float((every.rate_bps[links] * share[links]).sum()) * network.fabric.payload_efficiency
                late = float(every.latency_ps[links].max()) * 1e-6 + (out_us if out else 0.0)
                ends = (rank, middle) if out else (middle, rank)
                one, other, at = (np.array([value]) for value in (*ends, int(rails[rank, nic])))
                rows.append((one, other, np.array([rate]), np.array([late]), at))


NAME = "synthesized"
MOST_RANKS_IN_RUN = 64
"""Ranks for which a run searches by itself: some seconds."""
MOST_SENDS = 16_000
ENOUGH = 1.03
"""Multiple of the bound that is good enough: the rest is less than what the fabric's hashes take."""
SIZE_BYTES = 64e6
"""Size for which schedules are searched if none is given: a gradient bucket."""
KINDS = (
    CollectiveKind.ALL_GATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALL_REDUCE,
    CollectiveKind.ALL_TO_ALL,
)


def size_of(word: str) -> float:
    """Bytes for which `synthesized` or `synthesized:4 MB` asks.

    Raises:
        InputError: It is no size.
    """
    rest = word.partition(":")[2]
    size = quantities.size(rest) if rest else SIZE_BYTES
    if size <= 0:
        raise InputError("a collective moves more than nothing", key="algorithm", found=word, allowed="such as 64 MB")
    return size


def of_cluster(cluster: Cluster, size_bytes: float, keeps: NDArray[np.float64] | None) -> Algorithm:
    """The searched algorithm of a cluster; its name is known while it is kept.

    Nothing is searched before a collective asks for it.

    Args:
        cluster: Whose links.
        size_bytes: Size, as nccl-tests counts it, for which schedules are to be good.
        keeps: float64[links], which share of its rate each keeps; None: all of it.
    """
    links = cluster.links
    parts = [links.source, links.target, links.rate_bps, links.latency_ps, cluster.back_end.port_of_rank]
    digest = sha256(f"{size_bytes} {cluster.fabric.name} {cluster.scale_up_domain}".encode())
    for part in [*parts, np.empty(0) if keeps is None else keeps]:
        digest.update(np.ascontiguousarray(part).tobytes())
    name = f"{NAME}-{digest.hexdigest()[:8]}"

    def schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
        found = found_for(cluster, members_of(cluster, shape), kind, size_bytes, keeps)
        return schedule_of(msccl_xml(found.network, found.schedule, kind_word(kind), found.cut))

    return make(name, "A schedule that is searched for the links of this cluster", KINDS, schedule, _refuses)


def found_for(
    cluster: Cluster,
    members: NDArray[np.int64],
    kind: CollectiveKind,
    size_bytes: float,
    keeps: NDArray[np.float64] | None,
) -> SynthesizedSchedule:
    """The schedule that runs play among some ranks of a cluster.

    Args:
        cluster: Whose links.
        members: int64[ranks], numbers of the ranks.
        kind: Of the collective.
        size_bytes: As nccl-tests counts it.
        keeps: float64[links], which share of its rate each keeps; None: all of it.

    Raises:
        InputError: Two ranks are joined by nothing.
    """
    network = network_of(cluster, members, kind, keeps=keeps)
    return synthesize(network, kind_word(kind), size_bytes, most_sends=MOST_SENDS, enough=ENOUGH)


def members_of(cluster: Cluster, shape: Shape) -> NDArray[np.int64]:
    """int64[ranks], the first ranks of a cluster that have a shape: all of them where the shape fills it."""
    domain = shape.domain_of
    return domain * cluster.scale_up_domain + np.arange(shape.ranks) - shape.offsets[domain]


def _refuses(kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    del kind, machine
    if shape.ranks > MOST_RANKS_IN_RUN:
        return f"schedules are searched for up to {MOST_RANKS_IN_RUN} ranks during a run, and these are {shape.ranks}"
    return None
