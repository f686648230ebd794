"""Splits every rank's step into causes that sum to it exactly, in picoseconds.

Equation, for each rank r with step T:

    T = sum over tasks on its compute stream (end - start) + sum over the waits between them

A computation on the compute stream is `compute`; a communication there, and every wait, is charged by `charge.py` and
`walk.py`. After its last task a rank waits for its own other streams, then for the last rank of the cluster, because
the
next step starts on all ranks together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import HOST, Kind, Record, Stream
from railyard.graph.record import members_of
from railyard.graph.symmetry import first_of
from railyard.kit.errors import InputError
from railyard.measure import walk
from railyard.measure.causes import CAUSES, NETWORK_CAUSES, PIPELINE_GROUP, Cause, TimeLedger, Vocabulary
from railyard.measure.charge import AT_STEP_END, Charger, Membership

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.graph import TaskGraph


def stages(graph: TaskGraph) -> NDArray[np.int64]:
    """int64[ranks]: ranks of one pipeline stage share a number."""
    communicators = graph.communicators
    sizes = np.diff(communicators.ptr)
    owner = np.repeat(np.arange(len(communicators), dtype=np.int64), sizes)
    pipeline = _connected(graph.ranks, *_pipeline_edges(graph))
    within = ~_holds_twice(owner, pipeline[communicators.ranks], graph.ranks, len(communicators))
    inside = within[owner]
    first = communicators.ranks[np.repeat(communicators.ptr[:-1], sizes)]
    return _connected(graph.ranks, first[inside], communicators.ranks[inside])


def _pipeline_edges(graph: TaskGraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    pipelined = np.array([label.group == PIPELINE_GROUP for label in graph.labels], np.bool_)
    chosen = np.flatnonzero(graph.kind == Kind.TRANSFER)
    chosen = chosen[pipelined[graph.label[chosen]]] if chosen.size else chosen
    pairs = np.unique(graph.rank[chosen].astype(np.int64) * graph.ranks + graph.peer[chosen])
    return pairs // graph.ranks, pairs % graph.ranks


def _holds_twice(
    owner: NDArray[np.int64], pipeline: NDArray[np.int64], ranks: int, communicators: int
) -> NDArray[np.bool_]:
    keys = np.sort(owner * ranks + pipeline)
    twice = np.zeros(communicators, np.bool_)
    twice[keys[1:][keys[1:] == keys[:-1]] // ranks] = True
    return twice


def _connected(nodes: int, a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.int64]:
    """The smallest node of each node's component: labels spread along edges, with pointer jumping between rounds."""
    label = np.arange(nodes, dtype=np.int64)
    while True:
        least = np.minimum(label[a], label[b])
        spread = label.copy()
        np.minimum.at(spread, a, least)
        np.minimum.at(spread, b, least)
        # The component of a node's label is its own component, so its label may be taken over too.
        np.minimum.at(spread, label, spread)
        spread = spread[spread]
        if np.array_equal(spread, label):
            return label
        label = spread


_TASK_BITS = 32
_TASK_MASK = (1 << _TASK_BITS) - 1


@dataclass(frozen=True)
class StreamBlock:
    """The compute streams of the ranks `first_rank` to `last_rank` (exclusive).

    Attributes:
        rank: int64[m]; rank of each entry minus `first_rank`, ascending.
        task: int64[m]; task of each entry, ascending within a rank.
    """

    first_rank: int
    last_rank: int
    rank: NDArray[np.int64]
    task: NDArray[np.int64]

    @property
    def ranks(self) -> int:
        """Number of ranks in the block."""
        return self.last_rank - self.first_rank


def compute_keys(graph: TaskGraph) -> NDArray[np.int64]:
    """One key per place on a compute stream, sorted: rank in the upper 32 bits, task in the lower."""
    free = (graph.stream == Stream.FREE) & graph.on_accelerator
    tasks = np.flatnonzero((graph.stream == Stream.COMPUTE) | free)
    collective = graph.kind[tasks] == Kind.COLLECTIVE
    single = tasks[~collective]
    keys = [(graph.rank[single].astype(np.int64) << _TASK_BITS) | single]
    shared = tasks[collective]
    if shared.size:
        position, member = members_of(graph.communicators, graph.rank[shared])
        keys.append((member.astype(np.int64) << _TASK_BITS) | shared[position])
    joined = np.concatenate(keys)
    joined.sort()
    return joined


def blocks(keys: NDArray[np.int64], ranks: int, *, entries: int = 1 << 20) -> Iterator[StreamBlock]:
    """Splits sorted keys into blocks of whole ranks, so that memory stays bounded for any graph.

    Args:
        keys: From `compute_keys`.
        ranks: Number of ranks; ranks without any entry belong to a block too.
        entries: Target entries per block; a block has at least one rank.
    """
    pointer = np.searchsorted(keys, np.arange(ranks + 1, dtype=np.int64) << _TASK_BITS)
    first = 0
    while first < ranks:
        last = int(np.searchsorted(pointer, pointer[first] + entries, side="right")) - 1
        last = min(max(last, first + 1), ranks)
        chunk = keys[pointer[first] : pointer[last]]
        yield StreamBlock(first, last, (chunk >> _TASK_BITS) - first, chunk & _TASK_MASK)
        first = last


def last_tasks(graph: TaskGraph, end_ps: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[ranks]: the last task of each rank on any of its streams; -1 for a rank without tasks."""
    latest = np.full(graph.ranks, -1, np.int64)
    task = np.full(graph.ranks, -1, np.int64)
    collective = graph.kind == Kind.COLLECTIVE
    single = np.flatnonzero(~collective)
    _keep_latest(latest, task, graph.rank[single], end_ps[single], single)
    shared = np.flatnonzero(collective)
    if shared.size:
        groups = len(graph.communicators)
        group_latest, group_task = np.full(groups, -1, np.int64), np.full(groups, -1, np.int64)
        _keep_latest(group_latest, group_task, graph.rank[shared], end_ps[shared], shared)
        used = np.flatnonzero(group_task >= 0)
        position, member = members_of(graph.communicators, used)
        _keep_latest(latest, task, member, group_latest[used][position], group_task[used][position])
    return task


def _keep_latest(
    latest: NDArray[np.int64],
    task: NDArray[np.int64],
    place: NDArray[np.int32],
    end_ps: NDArray[np.int64],
    candidate: NDArray[np.int64],
) -> None:
    """Writes into `task[place]` the candidate that ends last, if it ends later than the current one."""
    before = latest.copy()
    np.maximum.at(latest, place, end_ps)
    wins = (end_ps == latest[place]) & (end_ps > before[place])
    task[place[wins]] = candidate[wins]


@dataclass(frozen=True)
class TimeRow:
    """One line of the decomposition: mean over ranks.

    Attributes:
        group: Class of the communicator, empty where none took part.
        phase: Phase of the computation, transfer or wait.
        rank_ps: The exact sum over ranks, in ps. Over all rows these sum to the step times the ranks.
    """

    cause: str
    group: str
    phase: str
    seconds: float
    share: float
    rank_ps: int = 0


@dataclass(frozen=True)
class Decomposition:
    """Causes of each rank's step.

    Attributes:
        step_ps: Length of the step, the same for all ranks.
        rows: By cause, group and phase, largest first; their seconds sum to the step.
        by_rank_ps: int64[ranks, causes]; every row sums to `step_ps` exactly.
        waited_for_ps: int64[ranks]; straggler time of other ranks that each rank caused.
        straggler_events: Collectives in which a rank waited for a straggler.
    """

    step_ps: int
    rows: tuple[TimeRow, ...]
    by_rank_ps: NDArray[np.int64]
    waited_for_ps: NDArray[np.int64]
    straggler_events: int

    @property
    def step_s(self) -> float:
        """Length of the step in seconds."""
        return self.step_ps * 1e-12

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.by_rank_ps)

    def seconds(self, *causes: Cause) -> float:
        """Sum of the given causes, averaged over ranks."""
        if not self.ranks:
            return 0.0
        return float(self.by_rank_ps[:, list(causes)].sum(axis=1).mean() * 1e-12)

    def by_cause(self) -> dict[str, float]:
        """Seconds by cause, averaged over ranks, with waits for the host separate; they sum to the step."""
        found: dict[str, float] = {}
        for row in self.rows:
            cause = HOST if row.cause == "dependency" and row.phase == HOST else row.cause
            found[cause] = found.get(cause, 0.0) + row.seconds
        return found

    def network_s(self) -> float:
        """Exposed communication inside and between domains, averaged over ranks."""
        return self.seconds(*NETWORK_CAUSES)


def decompose(record: Record) -> Decomposition:
    """Splits every rank's step into causes.

    Args:
        record: A simulated or measured step that starts at 0 and ends with its last task.

    Raises:
        InputError: Two tasks of one queued compute stream overlap in time, or the record lacks blockers, times alone or
            its graph.
        RailyardError: The blockers form a cycle.
    """
    of_copies = first_of(record)
    if of_copies is None:
        record.require("exposed communication by cause", "blocker", "alone_ps", "latency_ps", graph=True)
        return _summary(record.makespan_ps, _ledger(record))
    first, copies = of_copies
    return _summary(record.makespan_ps, _ledger(first).repeated(copies))


def _ledger(record: Record) -> TimeLedger:
    graph = record.graph
    vocabulary = Vocabulary.of(graph.labels)
    ledger = TimeLedger.empty(vocabulary, graph.ranks, len(graph))
    membership = Membership(graph.communicators, graph.ranks)
    walker = walk.LatenessWalker(Charger(record, vocabulary, ledger), stages(graph), membership)
    ends = _StepEnd(last_tasks(graph, record.end_ps), int(np.argmax(record.end_ps)) if len(graph) else -1)
    for block in blocks(compute_keys(graph), graph.ranks):
        _block(walker, block, ends)
    return ledger


@dataclass(frozen=True)
class _StepEnd:
    compute: NDArray[np.int64]
    cluster: int


def _block(walker: walk.LatenessWalker, block: StreamBlock, ends: _StepEnd) -> None:
    charger, record = walker.charger, walker.charger.record
    overlapping = record.graph.stream[block.task] == Stream.FREE
    task = _by_start(record, block) if overlapping.any() else block.task
    start, end = record.start_ps[task], record.end_ps[task]
    rank = block.rank + block.first_rank
    first = np.ones(len(rank), np.bool_)
    first[1:] = rank[1:] != rank[:-1]
    reached = _latest(end, first) if overlapping.any() else end
    free = np.zeros(len(rank), np.int64)
    free[1:] = reached[:-1]
    free[first] = 0
    if not overlapping.any():
        _refuse_overlap(rank, task, start, free)
    charger.compute(rank, task, np.maximum(end - np.maximum(start, free), 0))
    waits = start > free
    walker.before(walk.waits_before(record.graph, rank[waits], free[waits], start[waits], task[waits]))
    finished = np.zeros(block.ranks, np.int64)
    last = np.ones(len(rank), np.bool_)
    last[:-1] = first[1:]
    finished[block.rank[last]] = reached[last]
    _tail(walker, np.arange(block.first_rank, block.last_rank, dtype=np.int64), finished, ends)


def _by_start(record: Record, block: StreamBlock) -> NDArray[np.int64]:
    """int64[m], the tasks of a block, of each rank by start."""
    ordered: NDArray[np.int64] = block.task[np.lexsort((block.task, record.start_ps[block.task], block.rank))]
    return ordered


def _latest(end_ps: NDArray[np.int64], first: NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64[m], the latest end so far of the entry's rank, whose first entry is marked."""
    parts = np.split(end_ps, np.flatnonzero(first)[1:])
    return np.concatenate([np.maximum.accumulate(part) for part in parts])


def _tail(walker: walk.LatenessWalker, rank: NDArray[np.int64], finished_ps: NDArray[np.int64], ends: _StepEnd) -> None:
    """Charges the time after a rank's last computation: its own other streams, then the rest of the cluster."""
    record = walker.charger.record
    if ends.cluster < 0:
        return
    last = ends.compute[rank]
    last_end = np.where(last >= 0, record.end_ps[last], 0)
    mine = last_end > finished_ps
    if mine.any():
        walker.until(walk.waits_until(rank[mine], finished_ps[mine], last_end[mine], last[mine], via=-1))
    idle_from = np.maximum(finished_ps, last_end)
    others = idle_from < record.makespan_ps
    if others.any():
        count = int(others.sum())
        step_end, last = np.full(count, record.makespan_ps), np.full(count, ends.cluster)
        walker.until(walk.waits_until(rank[others], idle_from[others], step_end, last, via=AT_STEP_END))


def _refuse_overlap(
    rank: NDArray[np.int64], task: NDArray[np.int64], start_ps: NDArray[np.int64], free_ps: NDArray[np.int64]
) -> None:
    bad = np.flatnonzero(start_ps < free_ps)
    if bad.size:
        at = int(bad[0])
        raise InputError(
            f"task {task[at]} starts on the compute stream of rank {rank[at]} before the task in front of it has ended",
            found=f"{start_ps[at]} ps",
            allowed=f"at least {free_ps[at]} ps",
        )


def _summary(step_ps: int, ledger: TimeLedger) -> Decomposition:
    words = ledger.vocabulary
    ranks = max(len(ledger.by_rank_ps), 1)
    step_s = step_ps * 1e-12
    used = np.flatnonzero(ledger.cells_ps)
    rows = []
    for cell in used[np.argsort(-ledger.cells_ps[used], kind="stable")]:
        cause, group, phase = np.unravel_index(cell, (CAUSES, len(words.groups), len(words.phases)))
        names = Cause(int(cause)).word, words.groups[group], words.phases[phase]
        rank_ps = int(ledger.cells_ps[cell])
        seconds = rank_ps * 1e-12 / ranks
        rows.append(TimeRow(*names, seconds, seconds / step_s, rank_ps))
    return Decomposition(step_ps, tuple(rows), ledger.by_rank_ps, ledger.waited_for_ps, int(ledger.event.sum()))
