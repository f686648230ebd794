"""Spoilt traces: what is left of them is read, what is not is named."""

import gzip
import json
import os
import re

import pytest

from railyard.ask.observe.diagnose import diagnose
from railyard.ask.observe.gather import gather
from railyard.ask.observe.measured import RankClock, odd

NAME = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"


def trace(rank, world=4, shift=0.0):
    events = []
    for step in range(6):
        at = 1000.0 * step + shift
        args = {"stream": 9, "Process Group Name": "0", "In msg nelems": 1000, "dtype": "Float", "Seq": step}
        events.append({"ph": "X", "cat": "kernel", "name": "gemm", "ts": at, "dur": 300.5, "args": {"stream": 7}})
        events.append({"ph": "X", "cat": "kernel", "name": NAME, "ts": at + 400, "dur": 500.0, "args": args})
    about = {"rank": rank, "world_size": world, "pg_config": [{"pg_name": "0", "ranks": list(range(world))}]}
    return json.dumps({"schemaVersion": 1, "distributedInfo": about, "traceEvents": events})


def put(folder, **odd_ones):
    for rank in range(4):
        (folder / f"rank-{rank}.json").write_bytes(odd_ones.get(f"r{rank}", trace(rank).encode()))
    return folder


def remarks(folder):
    return " ".join(gather(folder).remarks)


def test_a_rank_without_a_trace_is_missing_by_number(tmp_path):
    put(tmp_path, r2=b"")
    assert "of 4 ranks 3 have a trace; missing: 2" in remarks(tmp_path)


def test_a_mark_before_text_is_passed_over(tmp_path):
    put(tmp_path, r1=b"\xef\xbb\xbf" + trace(1).encode())
    assert remarks(tmp_path) == ""
    assert len(gather(tmp_path).pieces) == 4


def test_what_stands_behind_a_compressed_trace_does_no_harm(tmp_path):
    put(tmp_path, r1=gzip.compress(trace(1).encode()) + b"junk")
    assert [len(piece.kernels) for piece in gather(tmp_path).pieces] == [12] * 4


def test_a_compressed_trace_is_read_up_to_where_it_is_cut(tmp_path):
    text = re.sub("gemm", lambda _: f"gemm{os.urandom(3000).hex()}", trace(1))
    put(tmp_path, r1=gzip.compress(text.encode())[:-9000])
    piece = next(one for one in gather(tmp_path).pieces if one.rank == 1)
    assert 1 <= len(piece.kernels) < 12
    assert "middle of an event" in piece.remarks[0]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("1e999", "6 kernels have no usable time"),
        ("-3.0", "6 kernels have no usable time"),
        ("1NaN", "an event is damaged"),
    ],
)
def test_times_that_are_none_are_counted(tmp_path, word, said):
    put(tmp_path, r1=trace(1).replace("300.5", word).encode())
    assert said in remarks(tmp_path)


def test_clocks_that_are_far_off_are_named(tmp_path):
    put(tmp_path, r3=trace(3, shift=3.6e9).encode())
    answer = diagnose(tmp_path)
    assert answer.verdict == []
    assert any("rank 3 by +3,600.0 s" in words for words in answer.notes)
    assert odd({0: RankClock(0, 0, 0), 1: RankClock(5, 1, 3), 2: RankClock(0, -1, 0)}) == [
        "no collective shared with other ranks, so clocks are not aligned: rank 2"
    ]


class Hostile:
    def __reduce__(self):
        return os.system, ("exit 7",)
