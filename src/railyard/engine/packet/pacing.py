"""How long each leg waits before it sends, how many bytes it sends, and how long local work in its place takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective import ALGORITHMS, Case, Shape, machine_of
from railyard.collective.chunks import load_of, loop_bytes
from railyard.collective.connections import communicators_of, pair_of_ranks
from railyard.collective.lowering.paths import DomainPaths, groups
from railyard.collective.lowering.routes import scale_up_efficiency
from railyard.collective.timing import WIRE, pace, transfer_us
from railyard.engine.packet.legs import FROM_NETWORK, FROM_SWITCH, OUT, TO_NETWORK, TO_SWITCH, UP
from railyard.graph import CollectiveKind, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective import CollectivePolicy
    from railyard.engine.packet.legs import PlanLegs

    Floats = NDArray[np.float64]
    from collections.abc import Iterator

    from railyard.engine.lowering import LoweredGraph
    from railyard.graph import TaskGraph

    Ints = NDArray[np.int64]


PS_PER_US = 1e6


@dataclass(frozen=True)
class Tempo:
    """The same for all legs of one class of communications.

    Attributes:
        count: Invocations, each of which pays the latencies.
        start_ps: Before the first leg, one invocation.
        fill_ps: The part of it that fills pipelines, as far as pieces that are replayed do not.
        hop_ps: A step inside a domain.
        post_ps: Each message posted before.
        pass_ps: One way to or from a reducing scale-up switch.
        out_ps: A step through NICs without the links between them.
        reduce_ps: Half a pass through the network's reducing switches, without the path.
        up_factor: Bytes on scale-up links per byte of data: flags, and what makes them as slow as the kernels.
        out_factor: The same through NICs.
        nic_share: Share of their rate that NICs reach, as messages of all domains wait for one another.
    """

    size_bytes: float
    count: int
    start_ps: float
    fill_ps: float
    hop_ps: float
    post_ps: float
    pass_ps: float
    out_ps: float
    reduce_ps: float
    up_factor: float
    out_factor: float
    nic_share: float

    def bytes_of(self, legs: PlanLegs) -> Floats:
        """float64[legs], bytes that each leg moves."""
        inside = np.isin(legs.kind, (UP, TO_SWITCH, FROM_SWITCH))
        moved: Floats = legs.share * self.size_bytes * np.where(inside, self.up_factor, self.out_factor)
        return moved

    def fixed_ps(self, legs: PlanLegs, path_ps: Floats, network_ps: float) -> Floats:
        """float64[legs], latency of each leg with the links that it crosses.

        Args:
            legs: Legs.
            path_ps: float64[legs], latency of the links that its packets cross.
            network_ps: Mean path between domains: what a pass through the reducing switches of the network takes, whose
                tree stands for half of it each way.
        """
        out = legs.steps * (self.out_ps + path_ps)
        reduced = legs.steps * (self.reduce_ps + network_ps / 2)
        inside = legs.steps * np.maximum(self.hop_ps, path_ps)
        switch = legs.steps * np.maximum(self.pass_ps, path_ps)
        kinds = [legs.kind == OUT, np.isin(legs.kind, (TO_NETWORK, FROM_NETWORK)), legs.kind == UP]
        kinds.append(np.isin(legs.kind, (TO_SWITCH, FROM_SWITCH)))
        step = np.select(kinds, [out, reduced, np.where(legs.steps > 0, inside, path_ps), switch], 0.0)
        total: Floats = self.count * (step + legs.posted * self.post_ps)
        return total


def collective_tempo(
    cluster: Cluster, case: Case, how: tuple[str, str], size: tuple[int, int], policy: CollectivePolicy
) -> Tempo:
    """The tempo of a collective; `how` is algorithm and protocol, `size` bytes and invocations."""
    (name, protocol), (size_bytes, count) = how, size
    algorithm = ALGORITHMS.get(name)
    pace_of = pace(case, algorithm, protocol, np.array([size_bytes], np.float64))
    up, out = _factors(cluster, case, name, protocol, float(pace_of.rate_gbs[0]))
    return Tempo(
        size_bytes=float(size_bytes) * count,
        count=count,
        start_ps=float(pace_of.start_us[0]) * PS_PER_US + policy.launch_ps,
        fill_ps=float(pace_of.fill_us[0]) * PS_PER_US,
        hop_ps=pace_of.hop_us * PS_PER_US,
        post_ps=pace_of.post_us * PS_PER_US,
        pass_ps=pace_of.pass_us * PS_PER_US / _passes(case.kind),
        out_ps=pace_of.software_us * PS_PER_US + _ends_ps(cluster, policy),
        reduce_ps=(pace_of.reduce_us * PS_PER_US + _ends_ps(cluster, policy)) / 2,
        up_factor=up,
        out_factor=out,
        nic_share=pace_of.nic_share,
    )


def _passes(kind: CollectiveKind) -> int:
    """Ways to and from the reducing switch of a domain that follow one another in what the library counts as a pass."""
    return 4 if kind == CollectiveKind.ALL_REDUCE else 2


def _ends_ps(cluster: Cluster, policy: CollectivePolicy) -> float:
    return policy.network_overhead_ps + float(cluster.fabric.nic_latency_ps)


def transfer_tempo(cluster: Cluster, size_bytes: int, count: int, protocol: str, policy: CollectivePolicy) -> Tempo:
    """The tempo of a send and receive."""
    machine = machine_of(cluster, policy.measured)
    planned = machine.plan_bps * machine.measured.peer_share
    switched = cluster.scale_up.kind == "switched" and planned > 0
    return Tempo(
        size_bytes=float(size_bytes) * count,
        count=count,
        start_ps=transfer_us(machine, "base") * PS_PER_US + policy.launch_ps,
        fill_ps=0.0,
        hop_ps=transfer_us(machine, protocol) * PS_PER_US,
        post_ps=0.0,
        pass_ps=0.0,
        out_ps=machine.software_us(protocol) * PS_PER_US + _ends_ps(cluster, policy),
        reduce_ps=0.0,
        up_factor=max(WIRE[protocol], up_rate_bps(cluster) / planned) if switched else WIRE[protocol],
        out_factor=WIRE[protocol],
        nic_share=1.0,
    )


def _factors(cluster: Cluster, case: Case, name: str, protocol: str, rate_gbs: float) -> tuple[float, float]:
    """Bytes on scale-up links and through NICs per byte of data, so that the kernels' own rate is kept to."""
    wire = WIRE[protocol]
    if not np.isfinite(rate_gbs):
        return wire, wire
    wanted = 1 / (rate_gbs * 1e9)  # seconds a byte of the collective's size
    load = load_of(name, case.kind, case.shape)
    if ALGORITHMS.get(name).reduces_in_network:
        machine = case.machine
        taken = 8 * load.port * wire / (machine.nic_bps * machine.payload_efficiency)
        return wire, wire * max(1.0, wanted / taken) if taken > 0 else wire
    mesh = cluster.scale_up.kind == "mesh"
    rate = up_rate_bps(cluster)
    taken = 8 * (load.pair if mesh else load.scale_up) * wire / rate if rate > 0 else 0.0
    return (wire * max(1.0, wanted / taken) if taken > 0 else wire), wire


def up_rate_bps(cluster: Cluster) -> float:
    """What a rank's links into a switched domain carry, or one link of a mesh, bit/s of data; 0 without scale-up."""
    scale_up = cluster.scale_up
    if scale_up.kind == "none":
        return 0.0
    share = 1 / scale_up.peers if scale_up.kind == "mesh" else 1.0
    return scale_up.rate_bps * share * scale_up_efficiency(cluster)


@dataclass(frozen=True, eq=False)
class Class:
    """Communications of one kind, algorithm, size and place.

    Attributes:
        algorithm: What it runs as; "transfer" for sends.
        protocol: "ll", "ll128" or "simple".
        shape: Of the communicator; two ranks for a transfer.
        members: int64[tasks, positions], ranks.
        tasks: int64[tasks], their tasks in the graph.
        communicators: uint64[tasks], whose connections they use; see `connection_keys`.
        tempo: Sizes and latencies.
        network_ps: Mean path between the domains of the communicators.
        far_ps: Longest path between neighbouring domains of them.
        label: For people: `dp all-reduce`.
        loop_bytes: What in-switch reduction works on at a time; 0 for other algorithms.
    """

    algorithm: str
    protocol: str
    kind: CollectiveKind
    shape: Shape
    members: Ints
    tasks: Ints
    communicators: NDArray[np.uint64]
    tempo: Tempo
    network_ps: float
    far_ps: float
    label: str
    loop_bytes: float = 0.0


def collective_classes(
    graph: TaskGraph, cluster: Cluster, lowered: LoweredGraph, policy: CollectivePolicy
) -> Iterator[Class]:
    """The collectives of a graph that move something."""
    tasks = np.flatnonzero(graph.kind == Kind.COLLECTIVE)
    if not tasks.size:
        return
    entity = lowered.entity[tasks]
    words = np.char.add(np.char.add(lowered.algorithm, "/"), lowered.protocol)
    names, name_of = np.unique(words, return_inverse=True)
    machine = machine_of(cluster, policy.measured)
    for group in groups(cluster, graph.communicators, np.unique(graph.rank[tasks]).astype(np.int64)):
        if group.shape.ranks < 2:
            continue
        place = np.full(len(graph.communicators), -1, np.int64)
        place[group.index] = np.arange(len(group.index))
        row = place[graph.rank[tasks]]
        mine = np.flatnonzero(row >= 0)
        paths = DomainPaths.of(cluster, group)
        here = replace(machine, path_latency_ps=int(paths.mixed_ps.mean()), next_latency_ps=int(paths.next_ps.mean()))
        key = np.stack(
            [
                name_of.ravel()[entity[mine]],
                graph.collective[tasks[mine]].astype(np.int64),
                graph.size_bytes[tasks[mine]],
                graph.count[tasks[mine]].astype(np.int64),
                np.zeros(len(mine), np.int64) if group.shape.aligned else row[mine],
            ]
        )
        _, first, inverse = np.unique(key, axis=1, return_index=True, return_inverse=True)
        for number in range(len(first)):
            chosen = mine[inverse.ravel() == number]
            word = str(names[name_of.ravel()[entity[chosen[0]]]])
            case = Case(here, group.shape, CollectiveKind.ALL_REDUCE)
            found = (tasks[chosen], group.members[row[chosen]], word, paths)
            yield _collective(graph, cluster, policy, case, found)


def _collective(
    graph: TaskGraph,
    cluster: Cluster,
    policy: CollectivePolicy,
    case: Case,
    found: tuple[Ints, Ints, str, DomainPaths],
) -> Class:
    tasks, members, word, paths = found
    mixed = float(paths.mixed_ps.mean())
    name, protocol = word.split("/")
    task = int(tasks[0])
    kind = CollectiveKind(int(graph.collective[task]))
    version = replace(case, kind=kind, version=policy.version_number)
    size, count = int(graph.size_bytes[task]), int(graph.count[task])
    return Class(
        algorithm=name,
        protocol=protocol,
        kind=kind,
        shape=case.shape,
        members=members,
        tasks=tasks,
        communicators=communicators_of(graph.rank[tasks], name),
        tempo=collective_tempo(cluster, version, (name, protocol), (size, count), policy),
        network_ps=float(case.machine.next_latency_ps) if ALGORITHMS.get(name).to_the_next else mixed,
        far_ps=float(paths.far_ps.max()),
        label=f"{graph.communicators.group[graph.rank[task]]} {kind.name.lower().replace('_', '-')}",
        loop_bytes=_loop_bytes(version, name, size),
    )


def _loop_bytes(case: Case, name: str, size_bytes: int) -> float:
    if ALGORITHMS.get(name).family != "nvls":
        return 0.0
    return float(loop_bytes(case, np.array([size_bytes], np.float64), name)[0])


def transfer_classes(
    graph: TaskGraph, cluster: Cluster, lowered: LoweredGraph, policy: CollectivePolicy
) -> Iterator[Class]:
    """The transfers of a graph between different ranks; those of one class cross rails or domains alike."""
    tasks = np.flatnonzero((graph.kind == Kind.TRANSFER) & (graph.rank != graph.peer))
    if not tasks.size:
        return
    source, target = graph.rank[tasks].astype(np.int64), graph.peer[tasks].astype(np.int64)
    per_server, domain = cluster.ranks_per_server, cluster.scale_up_domain
    inside = source // domain == target // domain
    rails = np.unique(cluster.back_end.port_of_rank[:per_server], axis=0, return_inverse=True)[1].ravel()
    crossing = rails[source % per_server] != rails[target % per_server]
    near = source // domain == (source - source % per_server + target % per_server) // domain
    words, word_of = np.unique(lowered.protocol[lowered.entity[tasks]], return_inverse=True)
    key = np.stack([inside, crossing & near, word_of.ravel(), graph.size_bytes[tasks], graph.count[tasks]]).astype(
        np.int64
    )
    _, first, inverse = np.unique(key, axis=1, return_index=True, return_inverse=True)
    for number, at in enumerate(first):
        chosen = np.flatnonzero(inverse.ravel() == number)
        task = int(tasks[at])
        protocol = str(words[word_of.ravel()[at]])
        label = graph.labels[graph.label[task]]
        yield Class(
            algorithm="transfer",
            protocol=protocol,
            kind=CollectiveKind.ALL_GATHER,
            shape=Shape.grid(1, 2) if inside[at] else Shape.grid(2, 1),
            members=np.stack([source[chosen], target[chosen]], axis=1),
            tasks=tasks[chosen],
            communicators=pair_of_ranks(cluster, source[chosen], target[chosen]),
            tempo=transfer_tempo(cluster, int(graph.size_bytes[task]), int(graph.count[task]), protocol, policy),
            network_ps=0.0,
            far_ps=0.0,
            label=f"{label.group or 'pp'} transfer",
        )
