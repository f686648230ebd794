"""Queues of pools over time, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from railyard.graph import Record
from railyard.measure.serving.objective import BINS, PoolRoom, queues

S = 10**12


def record(columns, end_s, last_s):
    end = np.array(end_s, np.int64) * S
    count = len(end)
    return Record(
        rows="requests",
        who=np.zeros(count, np.int32),
        what=np.zeros(count, np.int32),
        start_ps=np.zeros(count, np.int64),
        end_ps=end,
        size_bytes=np.zeros(count, np.int64),
        optional=columns,
        meta={"end_ps": last_s * S},
    )


def test_waiting_before_prompts_and_before_answers():
    """Three requests wait 0, 3 and 7 s of 24 for a replica; of two that decode from 10 s to 20 s one has room."""
    columns = {
        "admitted_ps": np.array([0, 5, 10], np.int64) * S,
        "first_token_ps": np.array([8, 10, 10], np.int64) * S,
        "transfer_end_ps": np.array([-1, 10, 10 * 1], np.int64) * np.array([1, S, S]),
        "decode_replica": np.array([-1, 1, 1], np.int32),
    }
    run = record(columns, [9, 20, 20], 24)
    asked = SimpleNamespace(input_tokens=np.array([10, 90, 90]), output_tokens=np.array([1, 20, 20]))
    pools = (PoolRoom("prefill", 8.0, 1e9), PoolRoom("decode", 8.0, 100.0))
    before, behind = queues(run, pools, np.array([0, 2, 3], np.int64) * S, asked)
    # Spans are 1 s. From 2 to 3 s one waits, from 3 to 5 two, from 5 to 10 one: 1 + 4 + 5 = 10 request seconds.
    assert before.over_time == pytest.approx((0, 0, 1, 2, 2, 1, 1, 1, 1, 1, *[0.0] * 14))
    assert len(before.over_time) == BINS
    assert before.waiting_mean == pytest.approx(10 / 24)
    assert (before.waiting_peak, before.peak_s, before.wait_p50_s) == pytest.approx((2.0, 3.5, 3.0))
    # 100 cached tokens hold one of the two sequences of 90 + 20 / 2.
    assert behind.over_time == pytest.approx((*[0.0] * 10, *[1.0] * 10, *[0.0] * 4))
    assert np.isnan(behind.wait_p50_s)


def test_as_many_sequences_as_a_pool_runs():
    columns = {
        "admitted_ps": np.zeros(4, np.int64),
        "first_token_ps": np.zeros(4, np.int64),
        "transfer_end_ps": np.zeros(4, np.int64),
        "decode_replica": np.ones(4, np.int32),
    }
    asked = SimpleNamespace(input_tokens=np.full(4, 10), output_tokens=np.full(4, 2))
    (behind,) = queues(record(columns, [24] * 4, 24), (PoolRoom("decode", 3.0, 1e9),), np.zeros(4, np.int64), asked)
    assert behind.over_time == pytest.approx([1.0] * BINS)
