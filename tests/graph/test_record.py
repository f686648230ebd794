"""A record holds what its columns declare, and says what a measure misses."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.face.web.views.timeline import NOTHING, strips_of
from railyard.graph import Communicators, Kind, Label, Record, Stream, TaskGraph
from railyard.graph.columns import COLUMNS, CORE, TABLES
from railyard.graph.repeat import closed, repeat
from railyard.kit.errors import InputError


def bare(**more: object) -> Record:
    """Three rows of a measured cluster, of which nothing but the core is known."""
    core = {name: np.array([2, 0, 7], column.dtype) for name, column in CORE.items()}
    return Record(rows="tasks", **core, **more)


def test_the_core_is_there_by_name_and_as_attribute() -> None:
    record = bare()
    assert record.column("end_ps") is record.end_ps
    assert (len(record), record.makespan_ps) == (3, 7)


def test_nothing_is_missing() -> None:
    bare(tables={"links": {"bytes": np.zeros(2)}}).require("the load of links", tables=["links"])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"optional": {"blocker": np.zeros(3, np.int64)}}, "blocker.*int64.*int32"),
        ({"optional": {"blocker": np.zeros(2, np.int32)}}, "blocker.*2 rows.*3 rows"),
        ({"optional": {"bloker": np.zeros(3, np.int32)}}, "bloker.*blocker"),
        ({"end_ps": np.zeros(3)}, "end_ps.*float64.*int64"),
        ({"tables": {"links": {"byte": np.zeros(3)}}}, "links.*byte"),
        ({"tables": {"sampled_links": {"link": np.zeros(3, np.int32), "rate_bps": np.zeros(2)}}}, "2 rows"),
        ({"rows": "task"}, "task"),
    ],
)
def test_what_is_not_declared_is_refused(change: dict, match: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(bare(), **change)
    assert re.search(match, str(caught.value).replace("\n", " "))


def test_every_column_has_a_type_of_numpy_and_a_sentence() -> None:
    columns = [*CORE.values(), *(column for _, column in COLUMNS.items())]
    columns += [column for _, kind in TABLES.items() for column in kind.columns.values()]
    for column in columns:
        assert np.dtype(column.dtype).name == column.dtype
        assert column.sentence.endswith((".", "1."))
    assert CORE["size_bytes"].unit == "bytes"
    assert CORE["who"].unit == ""


# Steps behind one another: what waits for the step before, and what happens at once.


def graph(rows, dependencies, groups=((0, 1),), **more):
    """Rows (kind, rank, peer, duration, size, stream), and the tasks that each waits for."""
    names = ("kind", "rank", "peer", "duration_ps", "size_bytes", "stream")
    return TaskGraph.of(
        2,
        **dict(zip(names, np.array(rows, np.int64).T, strict=True)),
        waits=dependencies,
        labels=[Label("forward", "test")],
        communicators=Communicators.of(groups, ["dp"]),
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


# Slices as pixels: the busy share is exact at any zoom, and the slice under the pointer is the right one.

LABELS = [Label("compute", "gemm"), Label("communication", "all-reduce", "dp")]

SLICES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(1, 40), st.integers(0, 1)), min_size=1)


def measured(slices):
    """Kernels one after another on each rank: (rank, gap before, length, label)."""
    clock, rows = {}, []
    for rank, gap, length, label in slices:
        start = clock.get(rank, 0) + gap
        clock[rank] = start + length
        rows.append((rank, label, start, start + length))
    who, what, start, end = (np.array(column) for column in zip(*rows, strict=True))
    return Record(
        rows="kernels", who=who.astype(np.int32), what=what.astype(np.int32), start_ps=start, end_ps=end,
        size_bytes=np.zeros(len(who), np.int64), labels=LABELS, optional={}, tables={}, parts={}, meta={}, work=None,
    )  # fmt: skip


def test_two_slices_of_known_place():
    strips = strips_of(measured([(0, 10, 20, 0), (0, 30, 40, 1)]))  # 10 to 30, then 60 to 100
    look, busy = strips.window(range(1), 0, 100, 4)
    assert look.tolist() == [[0, 0, 1, 1]]
    assert busy.tolist() == [[round(15 / 25 * 255), round(5 / 25 * 255), round(15 / 25 * 255), 255]]
    assert strips.slice_at(0, 30) is None
    assert strips.row[strips.slice_at(0, 99.9)] == 1


@given(SLICES, st.integers(1, 64), st.floats(0, 0.9), st.floats(0.01, 1))
def test_the_busy_share_is_that_of_every_pixel(slices, pixels, begin, part):
    record = measured(slices)
    strips = strips_of(record)
    start = begin * strips.last_ps
    end = start + part * (strips.last_ps - start) + 1
    look, busy = strips.window(range(len(strips.rank)), start, end, pixels)
    edges = np.linspace(start, end, pixels + 1)
    for lane, rank in enumerate(strips.rank):
        mine = record.who == rank
        inside = np.minimum(record.end_ps[mine, None], edges[1:]) - np.maximum(record.start_ps[mine, None], edges[:-1])
        share = np.clip(inside, 0, None).sum(axis=0) / (edges[1] - edges[0])
        assert np.allclose(busy[lane] / 255, share, atol=1 / 255 + 1e-6)
        assert (look[lane][share > 1e-6] != NOTHING).all()


def test_a_slice_much_narrower_than_a_pixel_is_seen():
    look, busy = strips_of(measured([(0, 50, 1, 1), (0, 10**9, 1, 0)])).window(range(1), 0, 10**9 + 52, 10)
    assert look[0, 0] == 1
    assert busy[0, 0] == 1


def test_slices_that_overlap_by_a_rounded_clock_end_where_the_next_begins():
    record = measured([(0, 0, 10, 0), (0, 0, 10, 1)])
    record.start_ps[1] = 8
    strips = strips_of(record)
    assert strips.end_ps.tolist() == [8, 20]
