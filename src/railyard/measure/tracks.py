"""The timeline of a few ranks, small enough for a report: what each of their streams did when."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph.job import track_name, tracks_of
from railyard.graph.record import tasks_of
from railyard.measure.result.training import Task, TimelineFigures, Track, TrackLabel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.graph import Record, TaskGraph

TASKS = 12_000
RANKS = 8


def sample_ranks(
    stage: NDArray[np.int64], per_rank_utilization: NDArray[np.float64], *, count: int = RANKS
) -> list[int]:
    """A few telling ranks: the first of pipeline stages spread over the pipeline, and the least and the most busy rank.

    Args:
        stage: int64[ranks], from `stages`.
        per_rank_utilization: float64[ranks].
        count: At most so many.
    """
    extremes = [int(np.argmin(per_rank_utilization)), int(np.argmax(per_rank_utilization))]
    firsts = np.unique(stage, return_index=True)[1]
    firsts.sort()
    spread = firsts[np.linspace(0, len(firsts) - 1, min(max(count - 2, 1), len(firsts))).astype(np.int64)]
    return sorted({*(int(rank) for rank in spread), *extremes})[:count]


def tracks(record: Record, ranks: Sequence[int], *, most_tasks: int = TASKS) -> TimelineFigures:
    """The result's `timeline`.

    Tasks of one stream that follow each other without a pause and look alike (phase, operation, communicator) are drawn
    as one. When there are still too many, the shortest are left out.

    Args:
        record: The step.
        ranks: Which ranks.
        most_tasks: Over all tracks together.

    Returns:
        `ranks`, `tracks` (rank, stream, tasks as [start in us, duration in us, label index]) and `labels`.
    """
    record.require("the timeline of ranks", graph=True)
    graph = record.graph
    found = tasks_of(graph, ranks)
    looks, look_of = _looks(graph)
    times = record.start_ps[found.task], record.end_ps[found.task]
    stream = tracks_of(found.rank, graph.stream[found.task].astype(np.int64), *times)
    order = np.lexsort((found.task, record.start_ps[found.task], stream, found.rank))
    rank, task, stream = found.rank[order], found.task[order], stream[order]
    start, end, look = record.start_ps[task], record.end_ps[task], look_of[graph.label[task]]
    fresh = np.ones(len(task), np.bool_)
    fresh[1:] = (
        (rank[1:] != rank[:-1]) | (stream[1:] != stream[:-1]) | (look[1:] != look[:-1]) | (start[1:] != end[:-1])
    )
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], len(task)) - 1
    rank, stream, look, start, end = rank[first], stream[first], look[first], start[first], end[last]
    kept = _longest(end - start, most_tasks)
    rows = [_row(*entry) for entry in zip(start[kept], end[kept], look[kept], strict=True)]
    return TimelineFigures(
        ranks=tuple(int(r) for r in ranks), tracks=_grouped(rank[kept], stream[kept], rows), labels=looks
    )


def _row(start_ps: int, end_ps: int, look: int) -> Task:
    return round(float(start_ps) * 1e-6, 3), round(float(end_ps - start_ps) * 1e-6, 3), int(look)


def _grouped(rank: NDArray[np.int64], stream: NDArray[np.int64], rows: list[Task]) -> tuple[Track, ...]:
    keys = zip(rank.tolist(), stream.tolist(), strict=True)
    groups = itertools.groupby(zip(keys, rows, strict=True), key=lambda entry: entry[0])
    return tuple(
        Track(rank=of_rank, stream=track_name(of_stream), tasks=tuple(row for _, row in entries))
        for (of_rank, of_stream), entries in groups
    )


def _longest(duration_ps: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Indices of the longest entries, in their old order; entries of no length are left out."""
    seen = np.flatnonzero(duration_ps > 0)
    if len(seen) <= most:
        return seen
    chosen = seen[np.argsort(-duration_ps[seen], kind="stable")[:most]]
    chosen.sort()
    return chosen


def _looks(graph: TaskGraph) -> tuple[tuple[TrackLabel, ...], NDArray[np.int64]]:
    """The labels as they are drawn, without layer and micro-batch, and the look of every label."""
    index: dict[tuple[str, str, str], int] = {}
    look_of = np.zeros(max(len(graph.labels), 1), np.int64)
    for number, label in enumerate(graph.labels):
        look_of[number] = index.setdefault((label.phase, label.op, label.group), len(index))
    return tuple(TrackLabel(phase=phase, op=op, group=group) for phase, op, group in index), look_of
