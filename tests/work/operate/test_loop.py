"""Loop."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.kit.errors import InputError
from railyard.work.operate import trace
from railyard.work.operate.discipline import backfills, disciplines
from railyard.work.operate.free import PlacementAsk
from railyard.work.operate.jobs import DrawnKind, drawn
from railyard.work.operate.loop import ClusterRun
from railyard.work.operate.rules import DAY, NodeWindow, RecoveryRules, Rules
from railyard.work.operate.section import DrawnKindSection
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


WEEK = Path(__file__).parents[3] / "examples" / "operate" / "philly_week.csv"


def read(tmp_path, text, name="auto", nodes=4, **how):
    file = tmp_path / "trace.csv"
    file.write_text(text)
    return trace.job_table(trace.read(file, name), tree(nodes), **how)


def test_philly():
    found = trace.read(WEEK)
    assert (found.format, len(found.rows)) == ("philly", 3871)
    jobs = trace.job_table(found, tree(32), most_nodes=lambda _: 32)
    assert jobs.submit_us[0] == 0
    assert int(jobs.line.min()) == 2
    assert len(jobs.tenants) == 11
    assert set(jobs.each.tolist()) <= {1, 2, 4, 8}
    wide = jobs.accelerators > 8
    assert (jobs.each[wide] == 8).all()
    days = trace.job_table(found, tree(32), start_s=86_400, length_s=86_400, faster=2.0)
    assert 300 < len(days) < 700
    assert days.submit_us.max() <= 43_200e6


def test_sacct(tmp_path):
    text = (
        "JobID|Submit|Elapsed|Timelimit|NNodes|ReqTRES|Account|Priority\n"
        "1|2024-01-01T00:00:00|1-02:03:04|2-00:00:00|2|cpu=2,gres/gpu:h100=16,node=2|ml|7\n"
        "1.batch|2024-01-01T00:00:00|1-02:03:04||2|gres/gpu=16||\n"
        "2|2024-01-01T00:01:00|05:00|UNLIMITED|1|cpu=4|cpu|1\n"
        "3|2024-01-01T00:01:30|05:00|UNLIMITED|3|gres/gpu=12|hpc|1\n"
    )
    jobs = read(tmp_path, text)
    assert jobs.name == ("1", "3")
    assert jobs.submit_us.tolist() == [0, 90_000_000]
    assert jobs.work_us.tolist() == [(26 * 3600 + 184) * 10**6, 300 * 10**6]
    assert jobs.limit_us.tolist() == [172_800 * 10**6, -1]
    assert jobs.nodes.tolist() == [2, 3]
    assert jobs.each.tolist() == [8, 4]
    assert jobs.priority.tolist() == [7, 1]


def test_tiresias_and_alibaba(tmp_path):
    text = "job_id,num_gpu,submit_time,model_name,duration\n0,1,5,vgg19,164\n1,16,0,vgg11,9\n"
    jobs = read(tmp_path, text)
    assert jobs.name == ("1", "0")
    assert jobs.classes == ("opaque", "vgg11", "vgg19")
    assert jobs.nodes.tolist() == [2, 1]
    pods = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "a,1,1,1,500,,LS,Running,100,160,\nb,1,1,0,0,,BE,Running,100,160,\nc,1,1,2,1000,,BE,Running,130,,\n"
    )
    jobs = read(tmp_path, pods)
    assert jobs.name == ("a",)
    assert jobs.work_us.tolist() == [60_000_000]


def test_a_table_of_ones_own(tmp_path):
    text = (
        "job,submit_s,duration_s,accelerators,tenant,after,least_accelerators,class\n"
        "a,0,10,16,x,,8,big\nb,1,10,3,y,a,,\nc,2,10,12,y,a b,,\n"
    )
    jobs = read(tmp_path, text)
    assert jobs.nodes.tolist() == [2, 1, 2]
    assert jobs.each.tolist() == [8, 3, 8]
    assert jobs.least_nodes.tolist() == [1, 1, 2]
    assert jobs.after.tolist() == [0, 0, 1]
    assert jobs.classes == ("opaque", "big")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("submit_s,duration_s,accelerators\n0,-5,1\n", 2, "a time is a number from 0 on"),
        ("submit_s,duration_s,accelerators\n0,5,1\n0,,1\n", 3, "expected a number"),
        ("submit_s,duration_s,accelerators\n0,5,0\n", 2, "at least one accelerator"),
        ("submit_s,duration_s,accelerators\n0,5\n", 2, "as many cells as the heading"),
        ("submit_s,duration_s,accelerators\n0,5,nan\n", 2, "expected a number"),
        ("submit_s,duration_s,accelerators\n0,5,1.5\n", 2, "whole number"),
        ("submit_s,duration_s,accelerators\n0,5,99999999999\n", 2, "whole number"),
        ("submit_s,duration_s,accelerators\n0,1e300,8\n", 2, "a time is a number from 0 on"),
        ("submit_s,duration_s,accelerators,limit_s\n0,5,8,1e300\n", 2, "a limit is a number of seconds"),
        ("submit_s,duration_s,accelerators\n0,5,33\n", 2, "larger than the cluster"),
        ("job,submit_s,duration_s,accelerators,after\na,0,5,1,b\nb,0,5,1,a\n", 2, "form a cycle: `a` waits for `b`"),
        ("job,submit_s,duration_s,accelerators,after\nab,0,5,1,\nb,0,5,1,aa\n", 3, "waits for `aa`"),
        ("job,submit_s,duration_s,accelerators\na,0,5,1\na,0,5,1\n", 3, "two jobs are called `a`"),
        ("timestamp,duration,num_gpus,cluster\n2017-13-01,5,1,a\n", 2, "expected a date"),
        ("JobID|Submit|Elapsed|NNodes|ReqTRES\n1|2024-01-01|x|1|gres/gpu=1\n", 2, "as Slurm writes it"),
        ("submit,duration\n1,2\n", 1, "no known format"),
        ("", None, "empty"),
        ("submit_s,duration_s,accelerators\n", None, "no job"),
    ],
)
def test_wrong_traces_are_refused_by_line(tmp_path, text, line, words):
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path, text)
    assert caught.value.problems[0].line == line
    assert "trace.csv" in str(caught.value.problems[0].file)


def test_many_faults_in_one_error(tmp_path):
    rows = "".join("0,-5,1\n" for _ in range(40))
    with pytest.raises(InputError) as caught:
        read(tmp_path, "submit_s,duration_s,accelerators\n" + rows)
    assert len(caught.value.problems) == 10


def test_formats_are_documented():
    for name, record in trace.trace_formats.items():
        assert record.name == name
        assert record.summary
        assert record.source


def test_drawn_jobs_have_their_load_and_seed():
    kinds = [DrawnKind(DrawnKindSection(), sizes={1: 0.5, 8: 0.4, 16: 0.1}, median_s=600, p90_s=6000)]
    how = {"kinds": kinds, "count": 4000, "load": 0.7}
    jobs = drawn(tree(), **how, tenants=("a", "b", "c"), seed=7)
    assert (jobs.accelerators * jobs.work_us).sum() / 32 / jobs.submit_us[-1] == pytest.approx(0.7, rel=1e-6)
    assert np.median(jobs.work_us) / 1e6 == pytest.approx(600, rel=0.08)
    assert np.percentile(jobs.work_us, 90) / 1e6 == pytest.approx(6000, rel=0.12)
    assert np.mean(jobs.accelerators == 16) == pytest.approx(0.1, abs=0.02)
    again = drawn(tree(), **how, tenants=("a", "b", "c"), seed=7)
    assert np.array_equal(jobs.submit_us, again.submit_us)
    assert not np.array_equal(jobs.submit_us, drawn(tree(), **how, tenants=("a", "b", "c"), seed=8).submit_us)


def test_serving_jobs_are_read_and_refused_by_line(tmp_path):
    file = tmp_path / "jobs.csv"
    head = "submit_s,duration_s,accelerators,replica_accelerators,load\n"
    file.write_text(head + "0,10,32,16,0.8\n1,10,8,,\n")
    found = trace.job_table(trace.read(file), tree(32))
    assert found.replica.tolist() == [2, 0]
    assert found.load_ppm.tolist() == [800_000, 0]
    for row, words in (("0,10,32,16,", "and a `load`"), ("0,10,32,12,0.5", "whole replicas"), ("0,9,8,8,1.5", "load")):
        file.write_text(f"{head}1,10,8,,\n{row}\n")
        with pytest.raises(InputError, match=words) as caught:
            trace.read(file)
        assert caught.value.problems[0].line == 3
