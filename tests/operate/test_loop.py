import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.kit.errors import InputError
from railyard.work.operate import trace
from railyard.work.operate.discipline import backfills, disciplines
from railyard.work.operate.free import PlacementAsk
from railyard.work.operate.loop import ClusterRun
from railyard.work.operate.rules import DAY, NodeWindow, RecoveryRules, Rules
from railyard.work.operate.state import DONE, ENDED, STUCK

from .yard import S, accounts_add_up, jobs, played, seconds, tree


def test_fifo_holds_up_everybody_behind():
    run = played(jobs((0, 100, 3), (1, 50, 2), (2, 10, 1)), backfill="none")
    assert seconds(run.state.first_us) == [0, 100, 100]
    assert seconds(run.state.end_us) == [100, 150, 110]
    accounts_add_up(run)


def test_easy_lets_overtake_who_does_not_delay_the_first():
    # 4 nodes: A has 3 until 100, B waits for 4 (foreseen at 100); C would end at 62, D at 102.
    run = played(jobs((0, 100, 3), (1, 50, 4), (2, 60, 1), (2, 100, 1)), backfill="easy")
    assert seconds(run.state.first_us) == [0, 100, 2, 150]


def test_easy_uses_nodes_that_the_first_does_not_need():
    # B needs 3 at 100, when 4 are free: one is extra, and D, who would end at 202, may have it.
    run = played(jobs((0, 100, 3), (1, 50, 3), (2, 200, 1)), backfill="easy")
    assert seconds(run.state.first_us) == [0, 100, 2]
    two = played(jobs((0, 100, 3), (1, 50, 3), (2, 200, 1), (3, 200, 1)), nodes=5, backfill="easy")
    assert seconds(two.state.first_us) == [0, 100, 2, 3]
    three = played(jobs((0, 100, 3), (1, 50, 4), (2, 200, 1), (3, 200, 1)), nodes=5, backfill="easy")
    assert seconds(three.state.first_us) == [0, 100, 2, 150]


def test_conservative_delays_nobody():
    # EASY protects only B: D starts at 2 and delays C. Conservative protects C too.
    rows = ((0, 100, 3), (1, 50, 4), (2, 100, 3), (3, 250, 1))
    assert seconds(played(jobs(*rows), nodes=5, backfill="easy").state.first_us) == [0, 100, 150, 3]
    assert seconds(played(jobs(*rows), nodes=5, backfill="conservative").state.first_us) == [0, 100, 150, 3]
    tight = ((0, 100, 3), (1, 50, 4), (2, 100, 5), (3, 250, 1))
    assert seconds(played(jobs(*tight), nodes=5, backfill="easy").state.first_us) == [0, 100, 253, 3]
    assert seconds(played(jobs(*tight), nodes=5, backfill="conservative").state.first_us) == [0, 100, 150, 250]


@pytest.mark.parametrize(("backfill", "last"), [("easy", 60), ("conservative", 60), ("any", 5)])
def test_a_job_that_must_lie_in_one_leaf_is_promised_its_nodes(backfill, last):
    """Of leafs of two nodes the first halves are busy until 100, 30 and 60, so that B can have the second leaf at 30.

    C and D get the other free nodes at once, E would take the second leaf's: it waits, but where anybody may overtake.
    """
    fill = [(0, 100, 1), (0, 1, 1), (0, 30, 1), (0, 1, 1), (0, 60, 1), (0, 1, 1)]
    ask = np.array([0] * 6 + [1, 0, 0, 0], np.int32)
    rows = [*fill, (2, 50, 2), (3, 200, 1), (4, 200, 1), (5, 200, 1)]
    table = jobs(*rows, ask=ask, asks=(PlacementAsk(), PlacementAsk(within="leaf")))
    run = played(table, nodes=6, backfill=backfill, policy="slurm-tree")
    found = seconds(run.state.first_us)[6:]
    assert found == ([30, 3, 4, last] if backfill != "any" else [203, 3, 4, 5])
    if backfill != "any":
        first, count = next(row[4:] for row in run.ledger.allocations if row[0] == 6)
        assert run.ledger.nodes[first : first + count] == [2, 3]


def test_preemption_keeps_to_what_the_job_asks():
    """Two nodes of one leaf are wanted; the cheapest victims stand on two leafs, and more have to go."""
    rows = [(0, 100, 1), (1, 100, 1), (2, 100, 1), (3, 100, 1), (10, 5, 2)]
    table = jobs(
        *rows,
        priority=np.array([0, 0, 0, 0, 9], np.int32),
        ask=np.array([0, 0, 0, 0, 1], np.int32),
        asks=(PlacementAsk(), PlacementAsk(within="leaf")),
    )
    run = played(table, discipline="priority", policy="slurm-tree")
    assert seconds(run.state.first_us)[4] == 10
    first, count = next(row[4:] for row in run.ledger.allocations if row[0] == 4)
    assert run.ledger.nodes[first : first + count] in ([0, 1], [2, 3])


def test_segments_and_leafs_of_jobs_are_read_and_refused_by_line(tmp_path):
    file = tmp_path / "jobs.csv"
    file.write_text(
        "submit_s,duration_s,accelerators,within,segment,prefers\n0,10,16,leaf,,\n1,10,32,,2,leaf\n2,5,8,,,\n"
    )
    table = trace.job_table(trace.read(file), tree())
    asks = [table.asks[number] for number in table.ask.tolist()]
    assert asks == [PlacementAsk(within="leaf"), PlacementAsk(segment=2, prefers="leaf"), PlacementAsk()]
    file.write_text("submit_s,duration_s,accelerators,within\n0,10,16,\n0,10,16,leef\n")
    with pytest.raises(InputError, match="did you mean `leaf`") as caught:
        trace.job_table(trace.read(file), tree())
    assert (caught.value.problems[0].line, caught.value.problems[0].key) == (3, "within")


def test_any_starves_the_large():
    rows = [(0, 100, 2), (1, 10, 4), *[(2 + 50 * k, 100, 2) for k in range(6)]]
    free = played(jobs(*rows), backfill="any")
    assert seconds(free.state.first_us)[1] > seconds(played(jobs(*rows), backfill="easy").state.first_us)[1]


def test_priority_preempts_and_keeps_what_a_checkpoint_holds():
    table = jobs((0, 100, 4), (30, 20, 4), priority=np.array([0, 5], np.int32))
    kept = played(table, discipline="priority", recovery=RecoveryRules(interval_us=7 * S))
    assert seconds(kept.state.end_us) == [120, 50]
    lost = played(table, discipline="priority", recovery=RecoveryRules(interval_us=7 * S, grace=False))
    assert seconds(lost.state.end_us) == [122, 50]  # 28 of 30 s are in a checkpoint
    assert lost.state.spent[0][6] == 2 * S * 32
    accounts_add_up(lost)


def test_checkpoints_cost_their_stall():
    run = played(jobs((0, 1000, 2)), recovery=RecoveryRules(interval_us=95 * S, stall_us=5 * S))
    assert run.state.end_us[0] / S == pytest.approx(1000 / 0.95, rel=1e-5)
    assert run.state.spent[0][4] == pytest.approx(16 * S * 1000 * 5 / 95, rel=1e-4)
    accounts_add_up(run)


def test_fair_share_prefers_who_had_less():
    rows = [(0, 1000, 4), (1, 1000, 4), (2, 1000, 4)]
    table = jobs(*rows, tenant=np.array([0, 0, 1], np.int32), tenants=("a", "b"))
    assert seconds(played(table).state.first_us) == [0, 1000, 2000]
    assert seconds(played(table, discipline="fair-share").state.first_us) == [0, 2000, 1000]


def test_least_attained_lets_new_jobs_go_first():
    table = jobs((0, 10_000, 4), (1000, 100, 4))
    run = played(table, discipline="least-attained", attained_us=32 * 400 * S, renew_us=300 * S)
    assert run.state.first_us[1] / S in (1000, 1200)
    assert run.state.preempted[0] == 1


def test_quota_and_borrowing():
    table = jobs((0, 100, 2), (0, 100, 2), (10, 50, 2), tenant=np.array([0, 0, 1], np.int32), tenants=("a", "b"))
    strict = played(table, quotas={"a": 16, "b": 16})
    assert seconds(strict.state.first_us) == [0, 100, 10]
    borrowed = played(table, quotas={"a": 16, "b": 16}, borrow=True)
    assert seconds(borrowed.state.first_us) == [0, 0, 10]
    assert borrowed.state.preempted == [0, 1, 0]


def test_maintenance_is_not_run_into():
    table = jobs((0, 100, 4), (0, 40, 2))
    run = played(table, windows=(NodeWindow(50 * S, 80 * S, (0, 1)),))
    assert seconds(run.state.first_us) == [80, 0]
    over = played(jobs((0, 100, 2), (55, 10, 4)), windows=(NodeWindow(50 * S, 80 * S, (0, 1)),))
    assert seconds(over.state.first_us) == [0, 100]


def test_reservation_is_its_tenants():
    table = jobs((0, 100, 4), (60, 10, 2), tenant=np.array([0, 1], np.int32), tenants=("a", "b"))
    run = played(table, backfill="none", windows=(NodeWindow(50 * S, 200 * S, (0, 1), "b"),))
    assert seconds(run.state.first_us) == [200, 300]  # the first holds up b in the queue, not on its nodes
    passed = played(table, backfill="easy", windows=(NodeWindow(50 * S, 200 * S, (0, 1), "b"),))
    assert seconds(passed.state.first_us) == [200, 60]


def test_elastic_jobs_take_what_there_is():
    table = jobs((0, 100, 3), (10, 100, 4), least_nodes=np.array([3, 1], np.int32))
    run = played(table)
    assert seconds(run.state.first_us) == [0, 10]
    assert seconds(run.state.end_us) == [100, 410]
    accounts_add_up(run)


def test_limits_and_dependencies():
    table = jobs((0, 100, 1), (0, 10, 1), (0, 10, 4), limit_us=np.array([50, -1, -1]) * S, after=[[], [0], []])
    run = played(table, backfill="any")
    assert run.state.status == [ENDED, DONE, DONE]
    assert seconds(run.state.end_us) == [50, 60, 70]


def test_a_queue_that_cannot_drain_ends():
    run = played(jobs((0, 10, 1), (0, 10, 9)))
    assert run.state.status == [DONE, STUCK]


def test_the_end_of_a_run_books_what_runs():
    run = played(jobs((0, 100, 4), (1, 100, 4)), until=130)
    assert seconds(run.state.done_us) == [100, 30]
    assert run.ledger.busy_us == 130 * S * 32
    accounts_add_up(run)


rows = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 40), st.integers(1, 5), st.integers(1, 8), st.integers(0, 2)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(rows, st.sampled_from(disciplines.names()), st.sampled_from(backfills.names()))
def test_every_job_ends_and_no_accelerator_is_used_twice(drawn, discipline, backfill):
    submit, work, nodes, each, priority = (np.array(column) for column in zip(*drawn, strict=True))
    each = np.where(nodes > 1, 8, each).astype(np.int32)
    table = jobs(
        *zip(submit, work, nodes, strict=True),
        each=each,
        priority=priority.astype(np.int32),
        tenant=(priority % 2).astype(np.int32),
        tenants=("a", "b"),
    )
    run = played(table, nodes=5, discipline=discipline, backfill=backfill, attained_us=100 * S, renew_us=7 * S)
    assert set(run.state.status) == {DONE}
    assert run.state.done_us == run.state.work_us
    accounts_add_up(run)
    _nobody_shares(run)
    assert run.state.free.accelerators == 40
    assert not run.state.ends


def _nobody_shares(run):
    changes = []
    for job, start, end, _, first, count in run.ledger.allocations:
        for node in run.ledger.nodes[first : first + count]:
            changes += [(start, 1, node, run.state.each[job]), (end, 0, node, -run.state.each[job])]
    used = np.zeros(5, int)
    for _, _, node, change in sorted(changes):
        used[node] += change
        assert used.max() <= 8


def test_same_jobs_same_rows():
    first, again = (played(jobs((0, 50, 3), (1, 20, 2), (5, 30, 1))) for _ in range(2))
    assert first.ledger.allocations == again.ledger.allocations
    assert first.ledger.series == again.ledger.series


def test_half_life_of_usage():
    run = ClusterRun(jobs((0, 1, 1)), tree(), Rules(half_life_us=7 * DAY))
    run.state.usage, run.state.now_us = [8.0], 14 * DAY
    run.state.decay()
    assert run.state.usage == [2.0]
