"""Steps behind one another: what waits for the step before, and what happens at once."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.graph import CollectiveKind, Communicators, Kind, Label, Stream, TaskGraph
from railyard.graph.repeat import closed, repeat
from railyard.kit.errors import InputError


def graph(rows, dependencies, groups=((0, 1),), **more):
    """Rows (kind, rank, peer, duration, size, stream), and the tasks that each waits for."""
    columns = np.array(rows, np.int64).T
    n = len(rows)
    return TaskGraph(
        ranks=2,
        kind=columns[0].astype(np.uint8),
        rank=columns[1].astype(np.int32),
        peer=columns[2].astype(np.int32),
        duration_ps=columns[3],
        size_bytes=columns[4],
        count=np.ones(n, np.int32),
        collective=np.full(n, CollectiveKind.ALL_REDUCE, np.uint8),
        stream=columns[5].astype(np.uint8),
        label=np.zeros(n, np.int32),
        dep_ptr=np.cumsum([0, *map(len, dependencies)]).astype(np.int64),
        dep_idx=np.array([one for some in dependencies for one in some], np.int32),
        labels=[Label("forward", "test")],
        communicators=Communicators(
            np.cumsum([0, *map(len, groups)]).astype(np.int64), np.concatenate(groups).astype(np.int32), ["dp"]
        ),
        **more,
    ).validate()


def waits(one, task):
    return sorted(one.dependencies(task).tolist())


STEP = graph(
    [
        (Kind.COMPUTE, 0, -1, 5, 0, Stream.COMPUTE),
        (Kind.COMPUTE, 1, -1, 7, 0, Stream.COMPUTE),
        (Kind.COLLECTIVE, 0, -1, 0, 64, Stream.PARAMETER),
        (Kind.TRANSFER, 1, 0, 0, 32, Stream.FORWARD),
        (Kind.COMPUTE, 0, -1, 9, 0, Stream.COMPUTE),
    ],
    [[], [], [], [], [2, 3]],
)


def test_what_waits_for_nothing_waits_for_its_ranks_in_the_step_before():
    """The collective for both ranks' last computations, the transfer for its source's; computations stay in line."""
    three = repeat(STEP, 3).validate()
    assert len(three) == 15
    assert [waits(three, task) for task in range(5)] == [[], [], [], [], [2, 3]]
    assert [waits(three, task) for task in range(5, 10)] == [[], [], [1, 4], [1], [7, 8]]
    assert [waits(three, task) for task in range(10, 15)] == [[], [], [6, 9], [6], [12, 13]]
    assert three.duration_ps.tolist() == [5, 7, 0, 0, 9] * 3
    assert three.labels == STEP.labels


def test_one_step_is_the_graph_itself():
    assert repeat(STEP, 1) is STEP


def test_closed_work_waits_for_all_of_the_step_before():
    """Two transfers side by side on the free stream, the second of which waits for either of two others."""
    rows = [(Kind.TRANSFER, 0, 1, 0, 8, Stream.FREE)] * 2 + [(Kind.TRANSFER, 1, 0, 0, 8, Stream.FREE)]
    work = graph(rows, [[], [], [0, 1]], need=np.array([0, 0, 1], np.int32), dep_at=np.zeros(2, np.uint8))
    two = repeat(closed(work), 2).validate()
    assert [waits(two, task) for task in range(8)] == [[], [], [0, 1], [2], [3], [3], [4, 5], [6]]
    ending = closed(work)  # a computation of no length beside all streams, which meets nobody
    assert [int(getattr(ending, name)[-1]) for name in ("kind", "rank", "peer", "duration_ps", "count", "stream")] == [
        Kind.COMPUTE, 0, -1, 0, 1, Stream.FREE,
    ]  # fmt: skip
    assert two.need.tolist() == [0, 0, 1, 1, 1, 1, 1, 1]
    assert two.dep_at.tolist() == [0, 0, 1, 1, 1, 0, 0, 1]


def test_work_with_release_times_happens_once():
    released = graph([(Kind.COMPUTE, 0, -1, 5, 0, Stream.COMPUTE)], [[]], release_ps=np.array([7]))
    with pytest.raises(InputError, match="happens once"):
        repeat(released, 2)
    assert closed(released).release_ps.tolist() == [7, 0]
