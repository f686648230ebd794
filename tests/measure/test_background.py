"""Background traffic: its own times with a job and without it."""

import numpy as np
import pytest

from railyard.graph import Label, Record
from railyard.measure.network import background

US = 10**6


def flows(alone=True):
    """Two flows of a job, done at 90 us; four of bursts, one of them begins later, one ends later."""
    start = np.array([0, 10, 0, 20, 50, 95]) * US
    end = np.array([40, 90, 30, 80, 120, 99]) * US
    table = {"row": np.array([2, 3, 4, 5]), "alone_ps": np.array([10, 20, 40, 4]) * US}
    return Record(
        rows="flows",
        who=np.zeros(6, np.int32),
        what=np.array([0, 0, 1, 1, 1, 1], np.int32),
        start_ps=start,
        end_ps=end,
        size_bytes=np.full(6, 10**6),
        labels=[Label("", "all-reduce"), Label("", "incast beside")],
        tables={"background": table} if alone else {},
        meta={},
    )


def test_a_job_alone_has_no_rows():
    assert not list(background(flows(alone=False)))


def test_flows_that_began_before_the_job_was_done_count():
    (row,) = background(flows())
    assert (row.group, row.flows) == ("incast beside", 3)
    assert row.finished_share == pytest.approx(2 / 3)
    assert row.mean_us == pytest.approx((30 + 60 + 70) / 3)
    assert (row.p99_us, row.max_us) == (70, 70)
    assert row.alone_mean_us == pytest.approx(70 / 3)
    assert row.alone_p99_us == 40
    assert row.slowdown == pytest.approx(160 / 70)
