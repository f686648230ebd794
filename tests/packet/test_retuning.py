"""Settings that change during a run: counted periods, the same run where nothing changes, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.cluster.fabric import fabrics
from railyard.engine.packet import TUNABLE, Period, Retuning, Settings, Traffic, leaf_spine, run
from railyard.kit.errors import InputError

US = 1_000_000
ROCE = fabrics.get("roce").packets.constants
NETWORK = leaf_spine(8, leaf_hosts=4, spines=2, rate_bps=int(400e9))
INCAST = Traffic.of(8, np.arange(1, 8), np.zeros(7), np.full(7, 1_500_000))


def went(decide, period_ps=20 * US, **changed):
    return run(NETWORK, INCAST, Settings(**{**ROCE, **changed}), retuning=Retuning(period_ps, decide))


def test_periods_add_up_and_a_run_that_nobody_changes_is_the_same():
    seen: list[Period] = []
    record = went(lambda period: seen.append(period) or {})
    assert record.meta["digest"] == run(NETWORK, INCAST, Settings(**ROCE)).meta["digest"]
    assert [period.end_ps for period in seen] == [20 * US * (at + 1) for at in range(len(seen))]
    assert sum(period.delivered_bytes for period in seen) <= 7 * 1_500_000
    # 400 Gb/s into one host: at most 1 MB in 20 us, and nearly so while all send.
    assert 0.8e6 < seen[3].delivered_bytes < 1.0e6
    assert sum(period.pauses for period in seen) <= record.meta["packets"]["pauses"]


def test_thresholds_that_fall_mark_more_from_then_on():
    plain = run(NETWORK, INCAST, Settings(**ROCE))
    low = {"marking_low_bytes": 5_000, "marking_high_bytes": 20_000, "marking_most": 1.0}
    changed = went(lambda period: low if period.end_ps == 40 * US else {}, 2 * US)
    first = went(lambda period: low if period.end_ps == 2 * US else {}, 2 * US)
    counts = [record.meta["packets"]["marked"] for record in (plain, changed, first)]
    assert counts[0] < counts[1]
    assert counts[0] < counts[2]
    assert changed.meta["digest"] != first.meta["digest"]


def test_rates_that_rise_sooner_end_sooner():
    fast = {"dcqcn_additive_bps": 20e9, "dcqcn_increase_interval_ps": 5 * US}
    permuted = Traffic.of(8, np.arange(8), (np.arange(8) + 4) % 8, np.full(8, 8_000_000))
    ends = [
        run(
            NETWORK, permuted, Settings(**ROCE, seed=3), retuning=Retuning(50 * US, lambda _, one=one: one)
        ).end_ps.max()
        for one in ({}, fast)
    ]
    assert ends[1] < 0.95 * ends[0]


def test_what_may_not_change_is_refused():
    assert "marking_low_bytes" in TUNABLE
    with pytest.raises(InputError, match="cannot change during a run"):
        went(lambda _: {"mtu_bytes": 1500})
    with pytest.raises(InputError, match="out of range"):
        went(lambda _: {"marking_most": 1.5})
    with pytest.raises(InputError, match="switches with PFC"):
        run(NETWORK, INCAST, Settings(), retuning=Retuning(US, lambda _: {}))
