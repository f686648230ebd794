"""The steady window: figures from the first submission to the last, and what lies around it."""

import numpy as np
import pytest

from railyard.work.operate import saving
from railyard.work.operate.failures.fault import Effect, NodeFault
from railyard.work.operate.loop import ClusterRun
from railyard.work.operate.rules import RecoveryRules, Rules
from railyard.work.operate.steady import steady
from railyard.work.scenario.load import from_values
from railyard.work.study.study import run as operate

from .yard import Given, S, accounts_add_up, jobs, played, tree

CLUSTER = {"accelerators": 32, "server": "hgx-h100"}


def scenario(folder, rows, **section):
    file = folder / "jobs.csv"
    file.write_text("\n".join(["submit_s,duration_s,accelerators", *(",".join(map(str, row)) for row in rows)]) + "\n")
    return from_values({"name": "yard", "cluster": CLUSTER, "workload": {"operate": {"jobs": str(file), **section}}})


def figures(draft):
    (found,) = operate(draft).result.operated
    return found


def test_the_drain_is_left_out_by_hand():
    """Four nodes: two jobs of two from 0 s and 100 s for 100 s; one of one node from 200 s, the last, for 800 s."""
    run = played(jobs((0, 100, 2), (100, 100, 2), (200, 800, 1)))
    parts = steady(run, given=False)
    window, drain, whole = parts.window, parts.drain, parts.whole
    assert (window.start_us, window.end_us, drain.end_us) == (0, 200 * S, 1000 * S)
    assert window.busy / window.capacity == pytest.approx(2 / 4)
    assert drain.busy / drain.capacity == pytest.approx(1 / 4)
    assert whole.busy / whole.capacity == pytest.approx((200 * 2 + 800) / 4 / 1000)
    assert (parts.figures.submitted, parts.figures.running_at_end, parts.figures.waiting_at_end) == (3, 1, 0)
    assert window.work + drain.work == whole.work


def test_work_that_is_lost_after_the_window_is_lost_in_it():
    """Checkpoints every 100 s, so that a fault at 250 s loses 50 s: 25 s before the window's end at 225 s, 25 after."""
    fault = NodeFault(250 * S, (0,), Effect.CRASH, 0, 0, 0)
    run = played(
        jobs((0, 400, 1), (0, 10, 1), (225, 10, 1)),
        faults=Given(fault),
        recovery=RecoveryRules(interval_us=100 * S, restart_us=30 * S),
    )
    accounts_add_up(run)
    parts = steady(run, given=False)
    assert parts.window.end_us == 225 * S
    job = [part.spent[0] / (8 * S) for part in (parts.window, parts.drain, parts.whole)]
    work, lost = 0, 6
    assert [row[work] for row in job] == pytest.approx([200, 200, 400])
    assert [row[lost] for row in job] == pytest.approx([25, 25, 50])


def test_a_mark_moves_nothing_of_the_run():
    table = jobs((0, 97, 3), (13, 41, 2), (14, 33, 1), (31, 77, 4), (40, 10, 1))
    runs = [ClusterRun(table, tree(), Rules(), steady_us=window) for window in (None, (7 * S, 23 * S))]
    for run in runs:
        assert run.run()
    assert runs[0].ledger.allocations == runs[1].ledger.allocations
    assert runs[0].state.spent == runs[1].state.spent
    window = steady(runs[1], given=True).window
    assert window.busy == window.had.sum() == (16 * 3 + 9) * 8 * S  # from 14 s on the third job has the fourth node
    assert window.useless == 1 * 8 * S  # from 13 s to 14 s that is free, while the second job waits for two


def test_a_run_goes_on_with_its_marks(tmp_path):
    table = jobs(*((10 * number, 35, 1) for number in range(30)))
    straight = ClusterRun(table, tree(), Rules())
    straight.run()
    for moments in (1, 20, 40):
        first, second = (ClusterRun(table, tree(), Rules()) for _ in range(2))
        assert not first.run(moments)
        saving.save(first, tmp_path / "state.npz")
        assert saving.load(second, tmp_path / "state.npz")
        second.run()
        assert second.state.marks == straight.state.marks
        np.testing.assert_array_equal(*(steady(run, given=False).window.spent for run in (second, straight)))


def test_jobs_that_come_at_even_times_have_a_closed_form(tmp_path):
    """A node every 100 s for 250 s: from 300 s on 2.5 of 4 nodes are in use, for ever."""
    draft = scenario(tmp_path, [(100 * number, 250, 8) for number in range(40)], steady={"start": "300 s"})
    found = figures(draft).operate
    assert found.utilization == found.goodput == pytest.approx(2.5 / 4)
    assert (found.steady.start_s, found.steady.end_s, found.steady.chosen) == (300, 3900, "scenario")
    assert found.before.utilization == pytest.approx((100 * 1 + 100 * 2 + 100 * 2.5 + 50 * 0) / 4 / 300, abs=0.02)
    assert found.usd.per_useful_accelerator_hour.typical == pytest.approx(found.usd.per_h.typical / (2.5 * 8))
    assert found.steady.submitted == 37


def test_an_empty_cluster_at_the_start_is_said(tmp_path):
    """Jobs of 40 h every hour on four nodes, one after the other: full from the fourth hour on."""
    rows = [(3600 * number, 144_000, 4) for number in range(8)] + [
        (3600 * number, 14_000, 8) for number in range(8, 200)
    ]
    found = figures(scenario(tmp_path, rows))
    warm_up = found.operate.warm_up
    assert warm_up is not None
    assert warm_up.utilization < found.operate.utilization < warm_up.utilization_after
    assert any("the cluster starts empty" in words for words in found.warnings)


def test_jobs_that_never_start_are_counted_and_said(tmp_path):
    rows = [(0, 500, 32), (10, 500, 32), (20, 50, 8), (30, 50, 8), (900, 10, 8)]
    found = figures(scenario(tmp_path, rows, until="600 s", queue={"backfill": "none"}))
    counts = found.operate.jobs
    assert (counts.done, counts.running, counts.waiting, counts.never_started, counts.unsubmitted) == (1, 1, 2, 2, 1)
    assert any("2 of the 4 submitted jobs never start" in words and "0.16 h" in words for words in found.warnings)
    assert found.operate.steady.end_s == 600


def test_without_an_end_inside_it_a_window_is_the_whole_run(tmp_path):
    found = figures(scenario(tmp_path, [(0, 5000, 8), (60, 5000, 8)]))
    assert found.operate.steady.chosen == "whole run"
    assert found.operate.utilization == found.operate.whole.utilization
    assert found.operate.drain is None
    assert any("no job ends between" in words for words in found.warnings)
