"""A task graph on a cluster as traffic: every communication as flows, every computation as local work of a host.

Rows of the traffic, in this order: one for every task (a computation is this row alone; a communication begins with
it), the legs of the communications, and one for the end of each of those. What comes after a task waits for its last
row.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.engine.packet.plan import GATE
from railyard.engine.packet.records import AT_RECEIVER, Scalar, Traffic
from railyard.engine.probing import in_bytes
from railyard.graph import Kind, Label, Record, Stream
from railyard.graph.record import members_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.engine.packet.placing import PlacedNetwork
    from railyard.graph import TaskGraph

    Ints = NDArray[np.int64]
    from collections.abc import Sequence

    from railyard.engine.packet.lowering import Lowering
    from railyard.engine.packet.plan import Slicing, TaskFlows

    Floats = NDArray[np.float64]


STANDS = 5
"""Full packets in a queue from which it stands: fewer come together by chance."""

SAMPLES = 1000
"""Samples of a run whose ports count: a port that is full for a thousandth of it is seen about once."""

MOST = 2_000_000
"""Samples of all links together; long lists of links are sampled less often."""


def samples_of(links: int) -> int:
    """How often to sample so many links."""
    return max(1, min(SAMPLES, MOST // max(links, 1)))


def full_ps(
    found: Record, placed: PlacedNetwork, sampled: NDArray[np.int64], links: int, packet_bytes: int
) -> NDArray[np.int64]:
    """int64[links of the cluster], how long each was full, in the time of the run.

    Args:
        found: Of the flows, with `queue_series`.
        placed: Which link of the cluster is which of the network.
        sampled: int64[], sampled links, in the network's numbers.
        links: Of the cluster, bundles included.
        packet_bytes: A full packet.
    """
    series = found.table("queue_series")
    span = np.diff(series["time_ps"], prepend=0)[:, None]
    held = np.minimum(np.diff(series["paused_ps"], axis=0, prepend=0) / np.maximum(span, 1), 1.0)
    stands = series["depth_bytes"] > STANDS * packet_bytes
    counted = np.zeros(links, np.int64)
    counted[placed.link[sampled]] = (stands * (1 - held) * span).sum(axis=0).astype(np.int64)
    return counted


def load_windows(
    found: Record, placed: PlacedNetwork, sampled: NDArray[np.int64], links: int, *, most: int, factor: float
) -> dict[str, NDArray[Any]]:
    """The load of every link in windows of time, as `link_windows` has it; of links that were not sampled none.

    Args:
        found: Of the flows, with `queue_series`.
        placed: Which link of the cluster is which of the network.
        sampled: int64[], sampled links, in the network's numbers.
        links: Physical ones of the cluster.
        most: Windows at most.
        factor: By which times of the run are longer than those of the series.
    """
    series, rate_bps = found.table("queue_series"), found.table("sampled_links")["rate_bps"]
    ends = np.arange(len(series["time_ps"]))[:: -max(-(-len(series["time_ps"]) // most), 1)][::-1]
    time_ps = np.concatenate([[0], series["time_ps"][ends]])
    carried = np.diff(series["carried_bytes"][ends], axis=0, prepend=0)
    share = carried * 8e12 / np.maximum(np.diff(time_ps), 1)[:, None] / rate_bps
    load = np.zeros((len(ends), links), np.uint8)
    known = placed.link[sampled] < links
    load[:, placed.link[sampled[known]]] = in_bytes(share[:, known])
    return {"time_ps": np.rint(time_ps[:-1] * factor).astype(np.int64), "load": load}


def thinned(found: Record, sampled: NDArray[np.int64], kept: NDArray[np.int64], samples: int) -> Record:
    """The run with samples of fewer links, about so many times.

    Args:
        found: Of the flows, with `queue_series`.
        sampled: int64[], sampled links, ascending.
        kept: int64[], those that stay.
        samples: About how often.
    """
    if not len(kept):
        return replace(found, tables={name: table for name, table in found.tables.items() if name != "queue_series"})
    series = found.table("queue_series")
    step = max(len(series["time_ps"]) // max(samples, 1), 1)
    columns = np.searchsorted(sampled, kept)
    thin = {name: values[::step][:, columns] for name, values in series.items() if values.ndim > 1}
    return replace(found, tables={**found.tables, "queue_series": {"time_ps": series["time_ps"][::step], **thin}})


@dataclass(frozen=True)
class HostNames:
    """Names of the hosts of a placed cluster.

    Attributes:
        storage: First host of a storage network of its own, 0 where there is none.
        scale_up: First host on scale-up, -1 where scale-up is not made of packets.
    """

    ranks: int
    storage: int
    scale_up: int

    def __call__(self, host: int) -> str:
        """`h12` for a back-end port, `gpu 3` and `switch 0` on scale-up, `s5` on storage."""
        if 0 <= self.scale_up <= host:
            number = host - self.scale_up
            return f"gpu {number}" if number < self.ranks else f"switch {number - self.ranks}"
        return f"s{host - self.storage}" if 0 < self.storage <= host else f"h{host}"


def flows_of(
    lowered: LoweredTraffic,
    found: Record,
    placed: PlacedNetwork,
    cluster: Cluster,
    sampled: NDArray[np.int64],
    *,
    background: dict[str, NDArray[np.int64]],
) -> Record:
    """The flows of a run, without the work between them. Times are those of the slice that was simulated.

    Args:
        lowered: What was sent.
        found: What came of it.
        placed: Where.
        cluster: The cluster.
        sampled: int64[links], sampled links, in the packet network's numbers.
        background: How long flows of background traffic take without the step, see `background.alone`.

    Returns:
        `meta` has `packets` by kind, `constants` with their units in the name, and the fields of `HostNames`.
    """
    rows = np.flatnonzero(lowered.label_of >= 0)
    traffic = lowered.traffic
    hosts = asdict(HostNames(cluster.ranks, placed.storage, placed.scale_up))
    tables = {name: table for name, table in found.tables.items() if name == "queue_series"}
    if tables:
        rate_bps = placed.network.rate_bps[sampled].astype(np.float64)
        tables["sampled_links"] = {"link": placed.link[sampled].astype(np.int32), "rate_bps": rate_bps}
    if background:
        tables["background"] = background
    return Record(
        rows="flows",
        who=np.asarray(traffic.source[rows], np.int32),
        what=lowered.label_of[rows],
        start_ps=found.start_ps[rows],
        end_ps=found.end_ps[rows],
        size_bytes=traffic.size_bytes[rows],
        labels=[Label("", name) for name in lowered.labels],
        optional={"target": traffic.target[rows]},
        tables=tables,
        meta={
            "engine": "packet",
            **{key: found.meta[key] for key in ("packets", "constants", "repeats")},
            "hosts": hosts,
        },
    )


def predecessors(graph: TaskGraph) -> tuple[Ints, Ints]:
    """Predecessors of every task as CSR (int64[n + 1], int64[]), each once."""
    tasks = len(graph)
    rank, task = _occupied(graph)
    key = rank * len(Stream) + graph.stream[task]
    queued = graph.stream[task] != Stream.FREE
    key, task = key[queued], task[queued]
    order = np.lexsort((task, key))
    key, task = key[order], task[order]
    same = key[1:] == key[:-1]
    after = np.concatenate([task[1:][same], np.repeat(np.arange(tasks), np.diff(graph.dep_ptr))])
    before = np.concatenate([task[:-1][same], graph.dep_idx.astype(np.int64)])
    pairs = np.unique(after * max(tasks, 1) + before)
    ptr = np.searchsorted(pairs, np.arange(tasks + 1) * max(tasks, 1))
    return ptr.astype(np.int64), pairs % max(tasks, 1)


def _occupied(graph: TaskGraph) -> tuple[Ints, Ints]:
    """Every rank that a task occupies a stream of, and the task."""
    shared = np.flatnonzero(graph.kind == Kind.COLLECTIVE)
    single = np.flatnonzero(graph.kind != Kind.COLLECTIVE)
    if not shared.size:
        return graph.rank[single].astype(np.int64), single
    position, member = members_of(graph.communicators, graph.rank[shared])
    rank = np.concatenate([graph.rank[single], member]).astype(np.int64)
    return rank, np.concatenate([single, shared[position]])


@dataclass(frozen=True, eq=False)
class LoweredTraffic:
    """Traffic and which of its rows belong to which task.

    Attributes:
        begin: int64[n], first row of each task.
        end: int64[n], last row.
        surplus_ps: float64[n], see `TaskFlows`.
        label_of: int32[rows], index into `labels`, -1 for rows that are no flow through NICs.
        labels: What flows belong to, for people.
    """

    traffic: Traffic
    begin: Ints
    end: Ints
    surplus_ps: Floats
    label_of: NDArray[np.int32]
    labels: tuple[str, ...]


def assemble(
    lowering: Lowering, placed: PlacedNetwork, blocks: Sequence[TaskFlows], slicing: Slicing, alone_ps: Ints
) -> LoweredTraffic:
    """All rows of a graph.

    Args:
        lowering: The graph and its cluster.
        placed: Hosts.
        blocks: Flows of the communications.
        slicing: What is simulated.
        alone_ps: int64[n], how long communications take that no block sends.
    """
    graph = lowering.graph
    tasks = len(graph)
    sent = np.full(tasks, -1, np.int64)
    surplus = np.zeros(tasks)
    start = np.where(graph.kind == Kind.COMPUTE, lowering.duration_ps, alone_ps) / slicing.factor
    position = tasks
    ends_first = tasks + sum(len(block.source) for block in blocks)
    many = 0
    for block in blocks:
        sent[block.tasks] = ends_first + many + np.arange(len(block.tasks))
        surplus[block.tasks], start[block.tasks] = block.surplus_ps, block.start_ps
        many += len(block.tasks)
    if graph.delay_ps is not None:
        start = start + graph.delay_ps / slicing.factor
    end = np.where(sent >= 0, sent, np.arange(tasks))
    home = placed_home(lowering)
    rows = ends_first + many
    begin_ptr, begin_idx = predecessors(graph)
    lengths = [np.diff(begin_ptr)]
    before = [end[begin_idx]]
    when = [np.full(len(begin_idx), AT_RECEIVER, np.uint8)]
    finals, final_lengths = [], []
    for block in blocks:
        count = len(block.tasks)
        first = position + block.rows * np.arange(count)[:, None]
        before_of = np.where(block.before[None] == GATE, block.tasks[:, None], first + block.before[None])
        lengths.append(np.tile(np.diff(block.ptr), count))
        before.append(before_of.ravel())
        when.append(np.tile(block.at, count))
        finals.append((first + block.last[None]).ravel())
        final_lengths.append(np.full(count, len(block.last)))
        position += block.rows * count
    every = np.concatenate([*lengths, *final_lengths])
    ended = np.concatenate([*(block.tasks for block in blocks), np.empty(0, np.int64)])
    ptr = np.zeros(rows + 1, np.int64)
    np.cumsum(every, out=ptr[1:])
    last = np.concatenate([*finals, np.empty(0, np.int64)])

    def column(name: str, head: NDArray[np.generic], tail: NDArray[np.generic], kind: type[Scalar]) -> NDArray[Scalar]:
        return np.concatenate([head, *(getattr(block, name) for block in blocks), tail]).astype(kind)

    def of_blocks(values: list[float], other: float) -> NDArray[np.float64]:
        counts = [tasks, *(len(block.source) for block in blocks), many]
        return np.repeat(np.array([other, *values, other]), counts)

    waiting = any(block.nic_share < 1 for block in blocks)
    label_of, labels = _labels(blocks, tasks, rows)
    traffic = Traffic(
        hosts=placed.network.hosts,
        source=column("source", home, home[ended], np.int32),
        target=column("target", home, home[ended], np.int32),
        size_bytes=column("size_bytes", np.zeros(tasks, np.int64), np.zeros(many, np.int64), np.int64),
        start_ps=_earliest(graph, every, slicing),
        dep_ptr=ptr,
        dep_idx=np.concatenate([*before, last]).astype(np.int32),
        dep_at=np.concatenate([*when, np.full(len(last), AT_RECEIVER, np.uint8)]),
        need=_need(graph, every),
        delay_ps=column("delay_ps", np.rint(start).astype(np.int64), np.zeros(many, np.int64), np.int64),
        path_key=column("path_key", np.zeros(tasks, np.uint32), np.zeros(many, np.uint32), np.uint32),
        connection=_connections(blocks, tasks, many),
        klass=of_blocks([block.klass for block in blocks], 0).astype(np.uint8),
        nic_share=of_blocks([block.nic_share for block in blocks], 1.0) if waiting else None,
    )
    return LoweredTraffic(traffic, np.arange(tasks), end, surplus, label_of, labels)


def _connections(blocks: Sequence[TaskFlows], tasks: int, ends: int) -> NDArray[np.uint32]:
    """uint32[rows], the number of each row's connection; rows that send nothing have those of the first leg."""
    identity = np.concatenate([np.empty(0, np.uint64), *(block.connection for block in blocks)])
    _, first, number = np.unique(identity, return_index=True, return_inverse=True)
    hosts = [np.stack([block.source, block.target]).astype(np.uint64) for block in blocks]
    between = np.concatenate([np.empty((2, 0), np.uint64), *hosts], axis=1)
    if np.any(between != between[:, first[number]]):
        # Keys are symmetric: port 0 to port 3 in channel 2 is port 0 to port 2 in channel 3, in communicator 0.
        number = np.unique(np.stack([identity, *between]), axis=1, return_inverse=True)[1]
    return np.concatenate([np.zeros(tasks, np.uint32), number.ravel().astype(np.uint32), np.zeros(ends, np.uint32)])


def _need(graph: TaskGraph, waits: Ints) -> NDArray[np.int32]:
    """int32[rows], for how many of its waits each row waits."""
    need = waits.astype(np.int32)
    if graph.need is not None:
        some = np.flatnonzero(graph.need < np.diff(graph.dep_ptr))
        need[some] = np.minimum(graph.need[some], waits[some])
    return need


def _earliest(graph: TaskGraph, waits: Ints, slicing: Slicing) -> Ints:
    """int64[rows], when each row may start, in the time of the slice; -1 where only other rows decide."""
    start = np.where(waits > 0, -1, 0).astype(np.int64)
    if graph.release_ps is not None:
        late = np.flatnonzero(graph.release_ps > 0)
        start[late] = np.rint(graph.release_ps[late] / slicing.factor).astype(np.int64)
    return start


def placed_home(lowering: Lowering) -> Ints:
    """int64[n], host of each task's own rows: the first port of its rank, or of its communicator's first member."""
    graph = lowering.graph
    rank = graph.rank.astype(np.int64)
    shared = graph.kind == Kind.COLLECTIVE
    rank[shared] = graph.communicators.ranks[graph.communicators.ptr[rank[shared]]]
    home: Ints = lowering.cluster.back_end.port_of_rank[rank, 0].astype(np.int64)
    return home


def _labels(blocks: Sequence[TaskFlows], tasks: int, rows: int) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    labels = tuple(dict.fromkeys(block.label for block in blocks))
    label_of = np.full(rows, -1, np.int32)
    at = tasks
    for block in blocks:
        label = np.where(block.source != block.target, labels.index(block.label), -1)
        label_of[at : at + len(label)] = label
        at += len(label)
    return label_of, labels
