"""Communications of a graph by class: alike in everything but who takes part, so that each class is planned once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective import ALGORITHMS, Case, Shape, machine_of
from railyard.collective.chunks import loop_bytes
from railyard.collective.connections import communicators_of, pair_of_ranks
from railyard.collective.lowering.groups import groups
from railyard.collective.lowering.paths import Paths
from railyard.engine.packet.pacing import collective_tempo, transfer_tempo
from railyard.graph import CollectiveKind, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective import CollectivePolicy
    from railyard.engine.lowering import Lowered
    from railyard.engine.packet.pacing import Tempo
    from railyard.graph import TaskGraph

    Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Class:
    """Communications of one kind, algorithm, size and place.

    Attributes:
        algorithm: What it runs as; "transfer" for sends.
        protocol: "ll", "ll128" or "simple".
        kind: Of the collective.
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
    graph: TaskGraph, cluster: Cluster, lowered: Lowered, policy: CollectivePolicy
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
        paths = Paths.of(cluster, group)
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
    found: tuple[Ints, Ints, str, Paths],
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


def transfer_classes(graph: TaskGraph, cluster: Cluster, lowered: Lowered, policy: CollectivePolicy) -> Iterator[Class]:
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
