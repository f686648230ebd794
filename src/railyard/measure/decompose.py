"""Splits every rank's step into causes that sum to it exactly, in picoseconds.

Equation, for each rank r with step T:

    T = sum over tasks on its compute stream (end - start) + sum over the waits between them

A computation on the compute stream is `compute`; how a communication there, and every wait, is charged, is in
`cpp/measure/decompose.hpp`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import railyard._core as _core
from railyard.graph import HOST, Kind, Record, Stream
from railyard.graph.symmetry import first_of
from railyard.kit.errors import InputError, RailyardError
from railyard.measure.causes import CAUSES, NETWORK_CAUSES, PIPELINE_GROUP, Cause, Vocabulary

if TYPE_CHECKING:
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
    first = record if of_copies is None else of_copies[0]
    words = Vocabulary.of(first.graph.labels)
    found = _charges(first, words)
    cells_ps, straggled = found.cells_ps, found.straggled
    by_rank_ps, waited_for_ps = found.by_rank_ps.reshape(-1, CAUSES), found.waited_for_ps
    if of_copies is not None:
        copies = of_copies[1]
        cells_ps, straggled = cells_ps * copies.count, np.repeat(straggled, copies.times)
        by_rank_ps, waited_for_ps = copies.over_ranks(by_rank_ps), copies.over_ranks(waited_for_ps)
    rows = _rows(record.makespan_ps, cells_ps, words, max(len(by_rank_ps), 1))
    return Decomposition(record.makespan_ps, rows, by_rank_ps, waited_for_ps, int(straggled.sum()))


def _charges(record: Record, words: Vocabulary) -> _core.Charges:
    graph = record.graph
    found = _core.decompose(
        kind=graph.kind,
        place=_places(graph),
        rank=graph.rank,
        label=graph.label,
        **{name: record.column(name) for name in ("blocker", "alone_ps", "latency_ps")},
        slowed_ps=record.column("slowed_ps") if record.has("slowed_ps") else None,
        start_ps=record.start_ps,
        end_ps=record.end_ps,
        duration_ps=graph.duration_ps,
        timed=_timed(graph),
        comm_ptr=graph.communicators.ptr,
        comm_ranks=graph.communicators.ranks,
        stage=stages(graph),
        phase_of=words.phase_of,
        group_of=words.group_of,
        data=words.data,
        checkpoint=words.checkpoint,
        phases=len(words.phases),
        groups=len(words.groups),
    )
    if found.cycle:
        raise RailyardError("the record's blockers form a cycle")
    if len(found.overlap):
        rank, task, free_ps = found.overlap.tolist()
        raise InputError(
            f"task {task} starts on the compute stream of rank {rank} before the task in front of it has ended",
            found=f"{record.start_ps[task]} ps",
            allowed=f"at least {free_ps} ps",
        )
    return found


def _places(graph: TaskGraph) -> NDArray[np.uint8]:
    """uint8[n]: 1 on the compute stream, 2 on an accelerator at the same time as others, else 0."""
    free = (graph.stream == Stream.FREE) & graph.on_accelerator
    return np.where(free, 2, graph.stream == Stream.COMPUTE).astype(np.uint8)


def _timed(graph: TaskGraph) -> NDArray[np.uint8] | None:
    """uint8[n]: whether the work itself delays a task: by its release time, or by a delay before its start."""
    columns = [column > 0 for column in (graph.release_ps, graph.delay_ps) if column is not None]
    return np.logical_or.reduce(columns).astype(np.uint8) if columns else None


def _rows(step_ps: int, cells_ps: NDArray[np.int64], words: Vocabulary, ranks: int) -> tuple[TimeRow, ...]:
    step_s = step_ps * 1e-12
    used = np.flatnonzero(cells_ps)
    rows = []
    for cell in used[np.argsort(-cells_ps[used], kind="stable")]:
        cause, group, phase = np.unravel_index(cell, (CAUSES, len(words.groups), len(words.phases)))
        names = Cause(int(cause)).word, words.groups[group], words.phases[phase]
        rank_ps = int(cells_ps[cell])
        seconds = rank_ps * 1e-12 / ranks
        rows.append(TimeRow(*names, seconds, seconds / step_s, rank_ps))
    return tuple(rows)
