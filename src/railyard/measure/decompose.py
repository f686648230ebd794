"""Splits every rank's step into named causes that sum to it exactly, in picoseconds.

    compute      the compute stream runs a kernel other than communication; longer if communications slow it
    latency      exposed communication: the part that more bandwidth would not shorten
    bandwidth    exposed communication: its time with the network to itself, minus latency
    contention   exposed communication: its additional time because others used the same links
    straggler    waiting in a collective for members that do the same work and arrive late
    bubble       waiting for another pipeline stage to compute
    data         waiting for input data
    checkpoint   waiting for a checkpoint to be written
    fault        delayed by an injected fault of its own
    dependency   waiting for a computation elsewhere, such as on the host, that no transfer or collective connects
    release      waiting for the time at which a trace releases its work

Results use the names, computations the numbers.

Equation, for each rank r with step T:

    T = sum over tasks on its compute stream (end - start) + sum over the waits between them

A computation on the compute stream is `compute`; how a communication there, and every wait, is charged, is in
`cpp/measure/decompose.hpp`.

GPU-seconds lost = sum over ranks of the `straggler` part of their step. One GPU of 10,000 that is 20 us late for a
collective of all costs 9,999 x 20 us = 0.2 GPU-seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np

import railyard._core as _core
from railyard.graph import HOST, Kind, Record, Stream
from railyard.graph.symmetry import first_of
from railyard.kit.errors import InputError, RailyardError
from railyard.measure.result.step import LateRank, LockstepFigures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.graph import Label, TaskGraph


class Cause(IntEnum):
    """Cause of a picosecond of a rank's compute stream."""

    COMPUTE = 0
    LATENCY = 1
    BANDWIDTH = 2
    CONTENTION = 3
    STRAGGLER = 4
    BUBBLE = 5
    DATA = 6
    CHECKPOINT = 7
    FAULT = 8
    DEPENDENCY = 9
    RELEASE = 10

    @property
    def word(self) -> str:
        """The name in results."""
        return self.name.lower()


PIPELINE_GROUP, PIPELINE_INDEX = "pp", 1
"""Communicator class of pipeline transfers, to which every bubble is charged."""

OUTAGE: Final = "outage"
"""Cause of the time that one-off faults add to the mean step: hang, repair and restart, or a period of slow steps."""

NETWORK_CAUSES = (Cause.LATENCY, Cause.BANDWIDTH, Cause.CONTENTION)
CAUSES = len(Cause)


@dataclass(frozen=True)
class Vocabulary:
    """Phases and groups of a label table as small integers, so that sums use dense arrays.

    Attributes:
        phases: Names; index 0 is the empty phase.
        groups: Names; index 0 is the empty group, `PIPELINE_INDEX` that of the pipeline.
        phase_of: int64[labels].
        group_of: int64[labels].
        data: uint8[labels]; whether the phase is "data".
        checkpoint: uint8[labels]; whether the phase is "checkpoint".
    """

    phases: list[str]
    groups: list[str]
    phase_of: NDArray[np.int64]
    group_of: NDArray[np.int64]
    data: NDArray[np.uint8]
    checkpoint: NDArray[np.uint8]

    @staticmethod
    def of(labels: Sequence[Label]) -> Vocabulary:
        """The vocabulary of a label table."""
        phases, groups = [""], ["", PIPELINE_GROUP]
        phase_index, group_index = {"": 0}, {"": 0, PIPELINE_GROUP: PIPELINE_INDEX}
        phase_of = np.zeros(len(labels), np.int64)
        group_of = np.zeros(len(labels), np.int64)
        for number, label in enumerate(labels):
            phase_of[number] = _index_of(label.phase, phases, phase_index)
            group_of[number] = _index_of(label.group, groups, group_index)
        words = np.array([label.phase for label in labels], dtype=object)
        data, checkpoint = ((words == phase).astype(np.uint8) for phase in ("data", "checkpoint"))
        return Vocabulary(phases, groups, phase_of, group_of, data, checkpoint)


def _index_of(word: str, names: list[str], index: dict[str, int]) -> int:
    if word not in index:
        index[word] = len(names)
        names.append(word)
    return index[word]


_LOW_BITS = 24


def integer_sums(place: NDArray[np.int64], amount: NDArray[np.int64], places: int) -> NDArray[np.int64]:
    """int64[places]: sums of amounts by place, without rounding.

    `bincount` adds in float64; with high and low bits summed separately, each sum stays far below 2^53.
    """
    high = np.bincount(place, amount >> _LOW_BITS, minlength=places).astype(np.int64)
    low = np.bincount(place, amount & ((1 << _LOW_BITS) - 1), minlength=places).astype(np.int64)
    return (high << _LOW_BITS) + low


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


WORST = 5
"""Ranks that are named at most."""


def lockstep(decomposition: Decomposition) -> LockstepFigures:
    """Cost of lateness in one step: the result's `lockstep`."""
    waited_ps = decomposition.waited_for_ps
    order = np.argsort(-waited_ps, kind="stable")[:WORST]
    return LockstepFigures(
        gpu_seconds_lost_to_stragglers=float(
            decomposition.by_rank_ps[:, Cause.STRAGGLER].astype(np.float64).sum() * 1e-12
        ),
        events=decomposition.straggler_events,
        worst_ranks=tuple(
            LateRank(rank=int(rank), gpu_seconds=float(waited_ps[rank] * 1e-12))
            for rank in order
            if waited_ps[rank] > 0
        ),
    )
