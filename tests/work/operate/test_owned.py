"""Tenants that share a cluster, in the queue: each has its servers, its line and its errors."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.tenancy import NOBODY, TenancySpec, TenantSpec, tenancy_of
from railyard.measure.result.reading import result_from
from railyard.measure.result.section import Band
from railyard.measure.result.variants import OperateVariant
from railyard.work.operate import files
from railyard.work.operate.discipline import backfills, policies
from railyard.work.operate.failures.fault import Effect, NodeFault
from railyard.work.operate.files import load, save
from railyard.work.operate.loop import ClusterRun
from railyard.work.operate.prepare import prepare
from railyard.work.operate.present import SPENT, sheets, verdict, why
from railyard.work.operate.rules import RecoveryRules, Rules, Turnaround
from railyard.work.operate.service import Service, _mixed, services
from railyard.work.scenario.load import expand, from_values
from railyard.work.study.study import run as operate

from .yard import Given, S, accounts_add_up, jobs, played, seconds, tree


def shared(nodes=5, **owned):
    """A tree of which tenants have spans of nodes."""
    asked = TenancySpec("vrf", tuple(TenantSpec(name, (span,)) for name, span in owned.items()))
    tenancy = tenancy_of(asked, nodes, 1)
    return replace(tree(nodes), tenancy=tenancy, owner=tenancy.owner[:, 0].astype(np.int32))


def of(*owners):
    names = tuple(dict.fromkeys(owners))
    return {"tenant": np.array([names.index(one) for one in owners], np.int32), "tenants": names}


def owned_played(table, there, faults=None, **rules):
    run = ClusterRun(table, there, Rules(**rules), faults=faults)
    assert run.run()
    accounts_add_up(run)
    return run


@pytest.mark.parametrize("backfill", backfills.names())
def test_a_tenant_waits_for_its_servers_and_for_nobody_elses(backfill):
    """Blue's second job waits for its first although green's servers idle; green's comes at 10 and waits for none."""
    table = jobs((0, 100, 2), (0, 50, 2), (10, 30, 2), (20, 5, 1), **of("blue", "blue", "green", "all"))
    run = owned_played(table, shared(blue=(0, 1), green=(2, 3)), backfill=backfill)
    assert seconds(run.state.end_us) == [100, 150, 40, 25]


def test_without_tenants_the_same_jobs_take_any_servers():
    table = jobs((0, 100, 2), (0, 50, 2), (10, 30, 2), (20, 5, 1), **of("blue", "blue", "green", "all"))
    assert seconds(owned_played(table, tree(5)).state.end_us) == [100, 50, 80, 25]


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_the_first_of_each_tenant_is_delayed_by_nobody(backfill):
    """Blue's pair waits until 100; a job of 1 server and 120 s may not overtake it, one of 80 s may; so with green."""
    rows = (0, 100, 1), (1, 10, 2), (2, 120, 1), (3, 80, 1), (0, 60, 1), (1, 10, 2), (2, 70, 1), (3, 40, 1)
    owners = ["blue"] * 4 + ["green"] * 4
    table = jobs(*rows, **of(*owners))
    run = owned_played(table, shared(4, blue=(0, 1), green=(2, 3)), backfill=backfill)
    assert seconds(run.state.end_us) == [100, 60, 110, 70, 230, 140, 83, 43]


def test_depth_counts_by_tenant():
    """The queue's first three places are blue's, which waits; green's is looked at although only two are."""
    table = jobs(
        (0, 100, 2), (1, 9, 2), (2, 9, 2), (3, 9, 2), (4, 30, 2), **of("blue", "blue", "blue", "blue", "green")
    )
    run = owned_played(table, shared(4, blue=(0, 1), green=(2, 3)), depth=2)
    assert seconds(run.state.end_us) == [100, 109, 118, 127, 34]


LOSSES = (
    NodeFault(20 * S, (0,), Effect.OUT, 0, 30 * S, 100 * S),
    NodeFault(300 * S, (2,), Effect.OUT, 0, 30 * S, 100 * S),
)
SPARED = {
    "recovery": RecoveryRules(interval_us=S, resume_us=11 * S, spares=1),
    "turnaround": Turnaround(erase_us=7 * S),
}


def test_a_spare_passes_from_nobody_to_a_tenant_and_on_erased():
    """Blue loses n0 at 20, seen at 50, goes on at 61 on the clean spare n4. n0, back at 120, is the spare that green,
    which loses n2 at 300, seen at 330, gets with 7 s of erasure, and 11 s to resume."""
    table = jobs((0, 96, 2), (290, 100, 2), **of("blue", "green"))
    run = owned_played(table, shared(blue=(0, 1), green=(2, 3)), Given(*LOSSES), **SPARED)
    assert seconds(run.state.end_us) == [96 + 41, 290 + 100 + 30 + 7 + 11]
    assert run.state.erased == 1
    assert run.state.owner.tolist() == [1, 0, NOBODY, 1, 0]
    assert run.spares == [2]


def test_a_tenants_broken_server_comes_back_to_it_where_no_spare_stood_in():
    """Both of blue's servers break: one spare is too few, so that the job waits until the second is back, at
    181, and no server changes hands; 20 of its 96 s were done."""
    both = (
        NodeFault(20 * S, (0,), Effect.OUT, 0, 30 * S, 100 * S),
        NodeFault(21 * S, (1,), Effect.OUT, 0, 30 * S, 160 * S),
    )
    table = jobs((0, 96, 2), **of("blue"))
    run = owned_played(table, shared(blue=(0, 1), green=(2, 3)), Given(*both), **SPARED)
    assert run.state.owner.tolist() == run.state.tree.owner.tolist()
    assert (run.spares, seconds(run.state.end_us)) == ([4], [181 + 76])


def test_whose_servers_are_survives_a_kill(tmp_path):
    table = jobs((0, 96, 2), (290, 100, 2), **of("blue", "green"))
    there, rules = shared(blue=(0, 1), green=(2, 3)), Rules(**SPARED)
    first = ClusterRun(table, there, rules, faults=Given(*LOSSES))
    first.run(moments=5)
    save(first, tmp_path / "state")
    again = ClusterRun(table, there, rules, faults=Given(*LOSSES))
    assert load(again, tmp_path / "state")
    assert again.state.owner.tolist() == first.state.owner.tolist() != there.owner.tolist()
    first.run()
    again.run()
    assert again.state.end_us == first.state.end_us
    assert again.state.parts[1].room.tolist() == first.state.parts[1].room.tolist() == [8, 0, 0, 8, 0]


ROW = st.tuples(st.integers(0, 60), st.integers(1, 90), st.integers(1, 3), st.sampled_from(["blue", "green", "all"]))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=12),
    backfill=st.sampled_from(backfills.names()),
    policy=st.sampled_from([name for name in policies.names() if name != "compatible"]),
    discipline=st.sampled_from(["fifo", "priority", "fair-share"]),
)
def test_nobody_is_ever_on_anothers_server_and_each_plays_as_if_alone(rows, backfill, policy, discipline):
    """What a tenant's jobs do is what they would do if the others' were not there."""
    there = shared(9, blue=(0, 2), green=(3, 5))
    rules = {"backfill": backfill, "policy": policy, "discipline": discipline}
    rows = sorted(rows, key=lambda row: row[0])
    run = ClusterRun(jobs(*(row[:3] for row in rows), **of(*(row[3] for row in rows))), there, Rules(**rules))
    while not run.run(moments=1):
        for job, nodes in run.state.placed.items():
            assert (there.owner[nodes] == run.state.owner_of_job(job)).all()
    accounts_add_up(run)
    for tenant in {row[3] for row in rows}:
        theirs = [row for row in rows if row[3] == tenant]
        start = theirs[0][0]
        alone = [(row[0] - start, *row[1:3]) for row in theirs]
        ends = np.array(run.state.end_us)[[row[3] == tenant for row in rows]]
        assert (
            np.where(ends < 0, -1, ends - start * S).tolist()
            == owned_played(jobs(*alone, **of(*[tenant] * len(alone))), there, **rules).state.end_us
        )


DOCUMENT = """
cluster:
  accelerators: 48
  server: hgx-h100
  back_end: {topology: {kind: leaf-spine, ports_per_leaf: 16}, fabric: roce}
  tenancy: {by: vrf, tenants: [{name: blue, servers: 0-1}, {name: green, servers: "2-4"NICS}]}
workload:
  operate:
    jobs: JOBS
    MORE
"""
DRAWN = '{synthetic: {count: 40, load: 0.5, sizes: {"8": 1.0}}}'
TRACE = "{trace: a.csv}"


def prepared(folder, drawn=DRAWN, more="", nics="", rows=()):
    from railyard.work.operate.prepare import prepare
    from railyard.work.scenario.load import expand, from_text

    (folder / "a.csv").write_text("\n".join(["submit_s,duration_s,accelerators,tenant", *rows]) + "\n")
    text = DOCUMENT.replace("JOBS", drawn).replace("MORE", more).replace("NICS", nics)
    return prepare(expand(from_text(text, folder / "a.yaml"))[0])


def test_drawn_jobs_are_those_of_the_clusters_tenants(tmp_path):
    found = prepared(tmp_path)
    assert found.jobs.tenants == ("blue", "green")
    assert found.tree.owner.tolist() == [0, 0, 1, 1, 1, NOBODY]
    assert 10 < int((found.jobs.tenant == 1).sum()) < 30


def test_kinds_may_say_whose_all_jobs_are(tmp_path):
    kinds = DRAWN[:-2] + ", kinds: [{tenant: green, share: 3}, {tenant: blue}]}}"
    found = prepared(tmp_path, kinds)
    assert found.jobs.tenants == ("green", "blue")
    assert 20 < int((found.jobs.tenant == 0).sum()) < 40


def test_a_job_that_is_too_large_shrinks_to_its_tenants_servers(tmp_path):
    rows = "0,60,48,blue", "1,60,48,green", "2,60,48,"
    found = prepared(tmp_path, "{trace: a.csv, shrink: true}", rows=rows)
    assert found.jobs.nodes.tolist() == [2, 3, 1]


def test_fairness_is_by_a_tenants_servers(tmp_path):
    from railyard.work.operate.steady import columns
    from railyard.work.operate.summary import finish_time_fairness

    found = prepared(tmp_path, TRACE, rows=("0,60,16,blue", "0,60,16,blue", "0,60,8,green"))
    run = found.operation()
    assert run.run()
    assert finish_time_fairness(run, columns(run)).tolist() == [1.0, 2.0, 1.0]


def test_that_no_server_changes_hands_is_said(tmp_path):
    assert prepared(tmp_path).notes == ()
    [note] = prepared(tmp_path, more="turnaround: {}").notes
    assert "none is erased between tenants" in note
    assert prepared(tmp_path, more="turnaround: {between: jobs}").notes == ()
    more = "turnaround: {}\n    failures: {profile: llama3}\n    recovery: {spares: 1}"
    [note] = prepared(tmp_path, more=more).notes
    assert "only spares that take over pass between them" in note


# What users of serving jobs see while replicas are out, and the run over draws of its failures.

CHAT = {
    "model": "llama-3-8b",
    "precision": "fp8",
    "requests": {
        "synthetic": {
            "arrivals": "poisson",
            "rate": 5.0,
            "input": {"mean": 1000},
            "output": {"mean": 100},
            "count": 400,
        }
    },
    "pools": {"both": {"tp": 8}},
    "slo": {"ttft": "1 s", "tpot": "30 ms"},
}
CLUSTER = {"accelerators": 32, "server": "hgx-h100", "back_end": {"topology": "leaf-spine"}}


def draft(tmp_path, load=0.5, **section):
    rows = "job,class,submit_s,duration_s,accelerators,replica_accelerators,load\nsite,chat,0,100000,32,8,"
    (tmp_path / "jobs.csv").write_text(f"{rows}{load}\n", encoding="utf-8")
    values = {"jobs": str(tmp_path / "jobs.csv"), "serving": {"chat": CHAT}, **section}
    return from_values({"name": "site", "cluster": CLUSTER, "workload": {"operate": values}})


def lost(load=500_000, **rules):
    """Four replicas of one node; one is out from 100 s on, known at 110 s, and back at 600 s."""
    table = jobs((0, 1000, 4), replica=np.array([1], np.int32), load_ppm=np.array([load], np.int32))
    fault = NodeFault(100 * S, (2,), Effect.OUT, 0, 10 * S, 490 * S)
    return played(table, nodes=4, faults=Given(fault), recovery=RecoveryRules(restart_us=10 * S, **rules))


def test_time_in_each_state_is_kept():
    run = lost()
    assert run.state.live_us == {(0, 4, 4): 500 * S, (0, 3, 4): 10 * S, (0, 3, 3): 490 * S}


def test_states_of_a_run_outlive_a_kill(tmp_path):
    table = jobs((0, 1000, 4), replica=np.array([1], np.int32), load_ppm=np.array([500_000], np.int32))
    fault = NodeFault(100 * S, (2,), Effect.OUT, 0, 10 * S, 490 * S)
    straight = lost()
    rules = straight.rules
    first = ClusterRun(table, tree(4, 8), rules, faults=Given(fault))
    first.run(3)
    files.save(first, tmp_path / "state.npz")
    again = ClusterRun(table, tree(4, 8), rules, faults=Given(fault))
    assert files.load(again, tmp_path / "state.npz")
    assert again.run()
    assert again.state.live_us == straight.state.live_us


def test_a_percentile_over_states():
    """98 % of the time 100 requests of 1 to 100 ms, 2 % of it 10 s: the 99th is 10 s, the 97th below 100 ms."""
    calm, grows = np.arange(1, 101) / 1000, None
    slow = np.full(7, 10.0)
    assert _mixed([(0.98, calm), (0.02, slow)]) == 10.0
    assert _mixed([(0.98, calm), (0.02, slow)], 0.97) == pytest.approx(0.099)
    assert _mixed([(0.98, calm), (0.02, grows)]) is None
    assert _mixed([(0.995, calm), (0.005, grows)]) == pytest.approx(0.1)
    assert _mixed([(0.0, calm)]) is None


def test_users_wait_longer_while_a_replica_is_out(tmp_path):
    found = draft(tmp_path, 0.7)
    run = prepare(expand(found)[0]).operation()
    run.run()
    run.state.live_us = {(0, 4, 4): 900 * S, (0, 3, 4): 20 * S, (0, 3, 3): 80 * S}
    (row,) = services(found, run)
    full, unseen, out = row.states
    assert (row.replicas, row.accelerators, row.jobs) == (4, 8, 1)
    assert row.load == 0.7
    assert [one.time for one in row.states] == pytest.approx([0.9, 0.02, 0.08])
    assert full.ttft_p99_s < out.ttft_p99_s
    assert full.tpot_p99_s < out.tpot_p99_s
    # Before the loss is seen a quarter of the requests fails, and each of the others has no more to answer.
    assert unseen.in_time <= 0.75
    assert unseen.tpot_p99_s < out.tpot_p99_s
    assert row.failed == pytest.approx(0.02 / 4)
    assert full.ttft_p99_s <= row.ttft_p99_s <= out.ttft_p99_s
    parts = 0.9 * full.in_time + 0.02 * unseen.in_time + 0.08 * out.in_time
    assert row.in_time == pytest.approx(parts)
    assert row.goodput_per_s == pytest.approx(parts * row.rate_per_s)
    assert row.rate_per_s == pytest.approx(0.7 * 4 * Service(found, "chat", 8).rate_per_s())


def test_more_than_replicas_can_answer_has_no_latency(tmp_path):
    found = draft(tmp_path, 0.9)
    run = prepare(expand(found)[0]).operation()
    run.run()
    run.state.live_us = {(0, 4, 4): 900 * S, (0, 3, 3): 99 * S, (0, 0, 0): 1 * S}
    (row,) = services(found, run)
    assert [one.ttft_p99_s is None for one in row.states] == [False, True, True]
    assert row.ttft_p99_s is row.tpot_p99_s is None
    assert row.states[1].in_time == row.states[2].in_time == 0.0


def test_services_and_draws_stand_in_the_result(tmp_path):
    found = operate(draft(tmp_path, failures={"profile": "llama3", "scale": 100.0}, draws=3, until="1 d")).result
    (one,) = found.variants
    assert result_from(found.text()) == found
    draws = one.operate.draws
    assert [row.seed for row in draws.by_draw] == [0, 1, 2]
    assert draws.by_draw[0].goodput == one.operate.goodput
    first = draws.by_draw[0].usd_per_useful_accelerator_hour
    assert first == pytest.approx(one.operate.usd.per_useful_accelerator_hour.typical)
    hours = np.array([row.useful_accelerator_hours for row in draws.by_draw])
    usd = np.array([row.usd_per_useful_accelerator_hour for row in draws.by_draw])
    assert draws.usd_per_useful_accelerator_hour.mean == pytest.approx((usd @ hours) / hours.sum())
    assert draws.goodput.low < draws.goodput.mean < draws.goodput.high
    headings = [sheet.headings for sheet in sheets(found)]
    assert any("TTFT p99: all up / run" in one for one in headings)
    assert any("3 draws: low / mean / high" in one for one in headings)
    assert one.operate.services[0].states[0].answer == 4


def test_what_depends_on_chance_is_called_equal(tmp_path):
    """A second more of restarting against a second less; and against failures 250 times as many."""
    section = {
        "jobs": {"synthetic": {"count": 60, "load": 0.9, "sizes": {"8": 1.0}, "median": "2 h", "p90": "4 h"}},
        "failures": {"profile": "llama3", "scale": 20.0},
    }
    values = {"name": "yard", "cluster": {**CLUSTER, "accelerators": 128}, "workload": {"operate": section}}
    tied = operate(from_values(values), ["workload.operate.recovery.restart=400 s,401 s"]).result
    assert " are equal within the failure draws, at $" in verdict(tied)
    sure = operate(from_values(values), ["workload.operate.failures.scale=20,5000"]).result
    assert "equal" not in verdict(sure)
    few, many = (one.operate for one in sure.variants)
    apart = {part.name: 100 * (many.share(part.name) - part.share) for part in few.time[1:]}
    worst = max(apart, key=apart.get)
    assert f" spends {apart[worst]:.1f} percentage points more of all GPU time {SPENT[worst]}." in why(sure)[0]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        # ln(3.37 / 3.29) = 0.024; at high prices ln(6.15 / 5.57) = 0.099, 0.075 more
        ((1.75, 3.37, 6.15), "a and b are equal and cost least: $3.29 per useful GPU-hour; c costs 50.8 % more."),
        # ln(3.46 / 3.29) = 0.0504; at high prices ln(5.87 / 5.57) = 0.0524, and 0.02 is the least that prices tell
        ((1.82, 3.46, 5.87), "a costs least: $3.29 per useful GPU-hour; c costs 50.8 % more."),
        ((1.76, 3.35, 5.67), "a and b are equal and cost least: $3.29 per useful GPU-hour; c costs 50.8 % more."),
    ],
)
def test_what_prices_cannot_tell_apart_is_called_equal(other, said):
    costs = {"a": (1.73, 3.29, 5.57), "b": other, "c": (2.57, 4.96, 9.07)}
    rows = [
        SimpleNamespace(
            name=name,
            operate=SimpleNamespace(draws=None, usd=SimpleNamespace(per_useful_accelerator_hour=band(ends))),
        )
        for name, ends in costs.items()
    ]
    assert verdict(SimpleNamespace(of=lambda _: rows)) == said
    assert verdict(SimpleNamespace(of=lambda _: rows[:1] * 2)) == (
        "a and a are equal within error, at $3.29 per useful GPU-hour."
    )


def band(ends):
    low, typical, high = ends
    return Band(low=low, typical=typical, high=high)


def test_one_draw_where_nothing_is_drawn(tmp_path):
    (one,) = operate(draft(tmp_path)).result.of(OperateVariant)
    assert one.operate.draws is None
    assert json.loads(one.operate.model_dump_json())["draws"] is None
