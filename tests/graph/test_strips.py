"""Slices as pixels: the busy share is exact at any zoom, and the slice under the pointer is the right one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from railyard.graph import Record
from railyard.graph.strips import NOTHING, strips_of
from railyard.graph.task_graph import Label

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
