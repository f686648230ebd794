"""Faults of a scenario in months of jobs: what each takes away, and for how long, by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import railyard
from railyard.kit.errors import InputError
from railyard.measure.job import best_interval_s
from railyard.work.operate import files
from railyard.work.operate.failures import history
from railyard.work.operate.failures import history as forecasts
from railyard.work.operate.failures.fault import Effect, FailureMode, NodeFault, profiles, young_s
from railyard.work.operate.failures.given import DrawnFaults, mttf_s
from railyard.work.operate.loop import ClusterRun
from railyard.work.operate.prepare import prepare
from railyard.work.operate.rules import DAY, PPM, RecoveryRules, Rules
from railyard.work.scenario.load import expand, from_values

from .yard import Given, S, accounts_add_up, jobs, played, seconds, tree

DATA = Path(__file__).parent / "data"


def out(at, node=0, detect=5, repair=1000, effect=Effect.OUT, **more):
    return NodeFault(at * S, (node,), effect, 0, detect * S, repair * S, **more)


def test_a_job_hangs_rolls_back_and_waits_for_nodes():
    # 4 nodes; node 0 fails at 47, seen at 52; work of 7 s since the checkpoint at 40 is lost; node 0 is back at 1047.
    recovery = RecoveryRules(interval_us=20 * S, restart_us=10 * S)
    run = played(jobs((0, 100, 4)), faults=Given(out(47)), recovery=recovery)
    assert seconds(run.state.end_us) == [1047 + 10 + 60]
    assert run.state.spent[0][5] == 5 * 32 * S  # hang
    assert run.state.spent[0][6] == 7 * 32 * S  # lost
    assert run.state.spent[0][1] == 10 * 32 * S  # restart
    accounts_add_up(run)


def test_a_job_with_other_nodes_free_restarts_there():
    run = played(
        jobs((0, 100, 3)), faults=Given(out(47)), recovery=RecoveryRules(interval_us=20 * S, restart_us=10 * S)
    )
    assert seconds(run.state.end_us) == [52 + 10 + 60]
    assert run.ledger.nodes == [0, 1, 2, 1, 2, 3]


def test_spares_take_over_in_the_same_ranks():
    recovery = RecoveryRules(interval_us=20 * S, restart_us=50 * S, resume_us=10 * S, spares=1)
    run = played(jobs((0, 100, 3), (60, 10, 1)), faults=Given(out(47, node=1)), recovery=recovery)
    assert seconds(run.state.end_us)[0] == 52 + 10 + 60
    assert run.ledger.nodes[:6] == [0, 1, 2, 0, 3, 2]
    assert seconds(run.state.first_us)[1] == 122  # the repaired node becomes the spare
    accounts_add_up(run)


def test_elastic_jobs_go_on_with_fewer_nodes():
    recovery = RecoveryRules(interval_us=20 * S, restart_us=10 * S, elastic=True)
    table = jobs((0, 100, 4), least_nodes=np.array([2], np.int32))
    run = played(table, faults=Given(out(47)), recovery=recovery)
    assert seconds(run.state.end_us) == [52 + 10 + 60 * 4 / 3]
    accounts_add_up(run)


def test_crashes_stragglers_corruption_stalls():
    keep = RecoveryRules(interval_us=20 * S, restart_us=10 * S)
    crash = played(jobs((0, 100, 4)), faults=Given(out(47, effect=Effect.CRASH)), recovery=keep)
    assert seconds(crash.state.end_us) == [52 + 10 + 60]
    slow = played(
        jobs((0, 100, 3)), faults=Given(out(40, detect=20, effect=Effect.SLOW, slow_ppm=PPM // 2)), recovery=keep
    )
    assert seconds(slow.state.end_us) == [60 + 10 + 50]  # at half the speed from 40 to 60; then moved with its work
    assert slow.state.spent[0][3] == 10 * 24 * S
    corrupt = played(jobs((0, 100, 3)), faults=Given(out(47, detect=30, effect=Effect.CORRUPT)), recovery=keep)
    assert seconds(corrupt.state.end_us) == [77 + 10 + 60]
    stall = played(jobs((0, 100, 3)), faults=Given(out(47, effect=Effect.STALL, stall_us=3 * S)), recovery=keep)
    assert seconds(stall.state.end_us) == [103]
    for run in (crash, slow, corrupt, stall):
        accounts_add_up(run)


def serving(*rows, load=0.5, **more):
    """Serving jobs of replicas of one node."""
    count = len(rows)
    load_ppm = np.full(count, round(load * PPM), np.int32)
    return jobs(*rows, replica=np.ones(count, np.int32), load_ppm=load_ppm, **more)


@pytest.mark.parametrize(
    ("load", "spares", "unserved"),
    [
        # Of 3 replicas one is dead from 40 s on: a third of the requests for 5 s, until it is seen.
        (0.5, 0, 5 / 3),  # two serve all of what comes after that
        (0.9, 0, 5 / 3 + (1 - 2 / 2.7) * 55),  # two serve 2/2.7 of it to the end at 100 s
        (0.9, 1, 5 / 3 + (1 - 2 / 2.7) * 10),  # a spare answers 10 s after that
    ],
)
def test_serving_replicas_are_lost_under_load(load, spares, unserved):
    recovery = RecoveryRules(interval_us=20 * S, restart_us=20 * S, resume_us=10 * S, spares=spares)
    run = played(serving((0, 100, 3), load=load), nodes=3 + spares, faults=Given(out(40)), recovery=recovery)
    assert seconds(run.state.end_us) == [100]
    assert run.state.unserved_us[0] / S == pytest.approx(unserved, abs=1e-4)
    assert run.state.failed == [1]
    accounts_add_up(run)


def test_a_serving_run_goes_on_from_a_file(tmp_path):
    rules = Rules(recovery=RecoveryRules(interval_us=20 * S, restart_us=20 * S, resume_us=10 * S, spares=1))

    def begun():
        return ClusterRun(serving((0, 100, 3), load=0.9), tree(4), rules, faults=Given(out(40), out(60, node=1)))

    straight = begun()
    straight.run()
    for moments in (2, 4, 5):
        first, second = begun(), begun()
        assert not first.run(moments)
        files.save(first, tmp_path / "state.npz")
        assert files.load(second, tmp_path / "state.npz")
        second.run()
        assert second.state.unserved_us == straight.state.unserved_us
        assert second.ledger.allocations == straight.ledger.allocations
    assert straight.state.failed == [2]


def test_a_lost_replica_comes_back_on_nodes_that_become_free_before_others_get_them():
    recovery = RecoveryRules(interval_us=20 * S, restart_us=20 * S)
    table = jobs((0, 100, 3), (0, 60, 1), (1, 30, 1), replica=np.array([1, 0, 0], np.int32),
                 load_ppm=np.array([900_000, 0, 0], np.int32))  # fmt: skip
    run = played(table, nodes=4, faults=Given(out(40)), recovery=recovery)
    # Seen at 45; the node of the second job is free at 60 and answers from 80 on.
    expected = 5 / 3 + (1 - 2 / 2.7) * 35
    assert run.state.unserved_us[0] / S == pytest.approx(expected, abs=1e-4)
    assert seconds(run.state.first_us)[2] == 100
    accounts_add_up(run)


def test_checkpoints_in_memory_are_lost_with_the_node():
    recovery = RecoveryRules(interval_us=20 * S, restart_us=10 * S, survives=False)
    node = played(jobs((0, 100, 3)), faults=Given(out(47)), recovery=recovery)
    assert seconds(node.state.end_us) == [52 + 10 + 100]
    crash = played(jobs((0, 100, 3)), faults=Given(out(47, effect=Effect.CRASH)), recovery=recovery)
    assert seconds(crash.state.end_us) == [52 + 10 + 60]


def test_a_job_that_never_gets_further_is_given_up():
    faults = [out(10 + 30 * k, detect=1, repair=5, effect=Effect.CRASH) for k in range(300)]
    run = played(jobs((0, 100, 4)), faults=Given(*faults), recovery=RecoveryRules(interval_us=50 * S))
    assert run.state.status == [4]
    assert run.state.failed == [100]


def efficiency(interval_s, stall_s, restart_s, mttf_s):
    """Useful share of the time of a job that restarts from its last checkpoint: the inverse of Daly's equation 20."""
    return interval_s / (mttf_s * math.exp(restart_s / mttf_s) * math.expm1((interval_s + stall_s) / mttf_s))


def test_intervals_of_young_and_daly():
    # d = 60 s, M = 10 h: sqrt(2 x 60 x 36,000) = 2,078 s; Daly adds a third of sqrt(d / 2M) and takes d off.
    assert young_s(60, 36_000) == pytest.approx(2078.46, abs=0.01)
    ratio = math.sqrt(60 / 72_000)
    assert best_interval_s(60, 36_000) == pytest.approx(2078.46 * (1 + ratio / 3 + ratio**2 / 9) - 60, abs=0.01)
    best = max(range(500, 6000, 10), key=lambda one: efficiency(one, 60, 400, 36_000))
    assert best == pytest.approx(best_interval_s(60, 36_000), rel=0.01)
    assert best_interval_s(100, 40) == 40


@pytest.mark.parametrize("interval", [900, 2038, 6000])
def test_simulated_efficiency_is_dalys(interval):
    # One job on 64 nodes that crash once in 10 h altogether; 60 s a checkpoint, 400 s to restart.
    mode = FailureMode("crash", 1000 * 24 / 10 / 64, Effect.CRASH, 0.0, 0.0, 0.0)
    faults = DrawnFaults([mode], tree(64), seed=5)
    work = 3_000 * 3600
    run = played(
        jobs((0, work, 64)),
        nodes=64,
        faults=faults,
        recovery=RecoveryRules(interval_us=interval * S, stall_us=60 * S, restart_us=400 * S),
    )
    found = work * S / run.state.end_us[0]
    # Crashes while it restarts are not played twice as Daly has it, and a failure in a write keeps no part of it.
    assert found == pytest.approx(efficiency(interval, 60, 400, 36_000), rel=0.012)


def test_llama3_interruptions_and_mttf_of_rsc():
    llama = profiles.get("llama3").modes
    per_node = sum(mode.per_1000_node_days for mode in llama if not mode.domain)
    assert per_node / 1000 * 2048 * 54 == pytest.approx(419)
    rsc = profiles.get("rsc1").modes
    hardware = [mode for mode in rsc if mode.effect != Effect.CRASH]
    assert sum(mode.per_1000_node_days for mode in hardware) == pytest.approx(6.5)
    assert mttf_s(rsc, 1) / 86_400 == pytest.approx(47.7, rel=0.08)
    assert mttf_s(rsc, 128) / 3600 == pytest.approx(7.9, rel=0.08)
    node_faults = sum(mode.per_1000_node_days for mode in hardware) / 1000
    assert 24 / (node_faults * 2048) == pytest.approx(1.80, abs=0.01)


def test_a_fabric_leads_around_cables_between_switches_in_time_or_jobs_break():
    cable = FailureMode("uplink", 1000 / 7, Effect.STALL, 0.0, 0.0, 0.0, "leaf")
    mine = tree(64, leaf=16)
    quick = DrawnFaults([cable], mine, around_s=0.1, seed=1).chunk(0)
    slow = DrawnFaults([cable], mine, around_s=2700.0, seed=1).chunk(0)
    assert quick
    assert {(one.effect, one.stall_us, len(one.nodes)) for one in quick} == {(Effect.STALL, 100_000, 16)}
    assert {(one.effect, one.detect_us // S) for one in slow} == {(Effect.CRASH, 30)}
    # A node's only cable cuts it off; where it has two, its jobs stand still.
    nic = FailureMode("nic", 1000 / 7, Effect.OUT, 5.0, 1.0, 1.0, rerouted=True)
    assert {one.effect for one in DrawnFaults([nic], mine, seed=1).chunk(0)} == {Effect.OUT}
    assert {one.effect for one in DrawnFaults([nic], mine, reroute_s=2.0, seed=1).chunk(0)} == {Effect.STALL}
    both = (0, 1)
    fault = NodeFault(47 * S, both, Effect.CRASH, 0, 5 * S, 0)
    run = played(jobs((0, 100, 1), (0, 100, 1)), faults=Given(fault), recovery=RecoveryRules(interval_us=20 * S))
    assert run.state.failed == [1, 1]


def test_draws_have_their_rate_and_are_functions_of_the_chunk():
    faults = DrawnFaults(profiles.get("llama3").modes, tree(2048, leaf=16), seed=3)
    drawn = [fault for number in range(40) for fault in faults.chunk(number) if len(fault.nodes) == 1]
    expected = 419 / 54 * 7 * 40
    assert len(drawn) == pytest.approx(expected, abs=3 * math.sqrt(expected))
    again = DrawnFaults(profiles.get("llama3").modes, tree(2048, leaf=16), seed=3)
    assert again.chunk(7) == faults.chunk(7)
    assert all(7 * 7 * DAY <= fault.time_us < 8 * 7 * DAY for fault in faults.chunk(7))


def test_forecast_of_the_cuts_of_a_history():
    """Rates of the time after each cut lie in the band; the figures of all of it are pinned."""
    known = history.read(DATA / "infinitehbd_first_half.csv", 400, 174)
    inside = []
    for cut in range(76, 140, 8):
        found = forecasts.forecast(known.until(cut))
        later = np.count_nonzero(known.start >= cut) / (174 - cut) * 7
        inside.append(found.low <= later <= found.high)
    assert sum(inside) >= 7
    found = forecasts.forecast(known)
    assert 11 < found.mean < 17
    assert found.high / found.low < 4
    assert 25 < found.repair_p50_h < 32
    assert 230 < found.repair_p90_h < 265
    assert 8 < found.out_mean < 11
    assert 20 < found.out_p95 < 28


@pytest.mark.parametrize("together", [1, 10])
def test_forecast_of_a_process_that_is_known(together):
    """20 faults a week that come alone or ten at once, repairs of 10 h, one in ten beyond 60 h: Little's law holds."""
    random = np.random.default_rng(7)
    events = random.poisson(20 / together / 7 * 560)
    start = np.sort(np.repeat(random.uniform(0, 560, events), together))
    length = 10 / 24 * np.exp(math.log(6) / 1.28155 * random.standard_normal(len(start)))
    known = history.History(start, np.minimum(start + length, 560.0), start + length <= 560, 4000, 560.0)
    found = forecasts.forecast(known)
    assert found.low < 20 < found.high
    assert found.mean == pytest.approx(20, rel=0.25)
    assert found.repair_p50_h == pytest.approx(10, rel=0.2)
    assert found.repair_p90_h == pytest.approx(60, rel=0.25)
    mean_days = 10 / 24 * math.exp((math.log(6) / 1.28155) ** 2 / 2)
    assert found.out_mean == pytest.approx(found.mean / 7 * mean_days, rel=0.3)
    alone = found.out_mean + 1.645 * math.sqrt(found.out_mean)
    assert found.out_p95 == pytest.approx(alone, abs=1.6) if together == 1 else found.out_p95 > alone + 2


def test_repairs_under_way_do_not_shorten_the_forecast():
    """All repairs take 30 days; cut at 45 days, most faults are not back, and those that are say 30 days."""
    start = np.arange(0.5, 45, 0.5)
    known = history.History(start, np.minimum(start + 30, 45.0), start + 30 <= 45, 400, 45.0)
    found = forecasts.forecast(known)
    assert found.repair_p50_h == pytest.approx(720)
    assert found.repair_p90_h == pytest.approx(720)


def test_repair_times_count_who_is_still_away():
    known = history.History(
        np.array([0.0, 0.0, 0.0, 0.0]), np.array([1.0, 2.0, 10.0, 10.0]), np.array([True, True, True, False]), 9, 40.0
    )
    times, share = forecasts.survival(known, np.ones(4))
    assert times.tolist() == [1, 2, 10, 10]
    assert share.tolist() == pytest.approx([0.75, 0.5, 0.25, 0.25])
    assert forecasts.quantile(times, share, 0.5) == 2.0


def large(tmp_path, accelerators, days, failures="llama3", **recovery):
    """One job on all of a cluster but 64 spares, under Llama 3's failures."""
    trace = tmp_path / "one.csv"
    trace.write_text(f"submit_s,duration_s,accelerators\n0,{2 * days * 86_400},{accelerators}\n")
    section = {
        "jobs": str(trace),
        "until": f"{days} d",
        "failures": failures,
        "recovery": {"spares": 64, "checkpoint": "async", "state": "350 MB", **recovery},
    }
    cluster = {"accelerators": accelerators + 8 * 64, "server": "hgx-h100", "back_end": {"topology": "three-tier"}}
    draft = from_values({"name": "x", "cluster": cluster, "workload": {"operate": section}})
    run = prepare(expand(draft)[0]).operation()
    run.run()
    accounts_add_up(run)
    return run.state.failed[0], run.state.spent[0][0] / sum(run.state.spent[0])


def test_llama3s_54_days(tmp_path):
    """419 interruptions and more than 90 % effective time (arXiv 2407.21783); weights of 405B take 350 MB a GPU."""
    failed, effective = large(tmp_path, 16_384, 54)
    assert failed == pytest.approx(419, abs=3 * math.sqrt(419))
    assert effective == pytest.approx(0.91, abs=0.01)
    assert effective > 0.90
    # With fewer checkpoints and an hour to restart it would not have been.
    assert large(tmp_path, 16_384, 54, interval="1 h", resume="30 min")[1] < 0.9


def test_byterobusts_ettr(tmp_path):
    """97 % over three months on 9,600 GPUs (arXiv 2509.16293); its own rates are not published, Llama 3's stand in.

    It looks for corruption after each incident, how long that takes is not published: between an hour and our 12 h.
    """
    kept = {"checkpoint": "peers", "state": "1 GB"}
    soon = {"profile": "llama3", "modes": [{"name": "silent corruption", "detect": "1 h"}]}
    assert large(tmp_path, 9_600, 90, **kept)[1] == pytest.approx(0.944, abs=0.01)
    assert large(tmp_path, 9_600, 90, soon, **kept)[1] == pytest.approx(0.979, abs=0.01)


def test_a_restart_does_not_heal_a_node():
    """A node corrupts from 100 s on and is found at 1,000 s; the job crashed at 500 s and restarted on the same nodes.

    What was done since 100 s is lost, and the node is drained. A slow node stays slow after a restart.
    """
    faults = [
        NodeFault(100 * S, (0,), Effect.CORRUPT, detect_us=900 * S, repair_us=3600 * S),
        NodeFault(500 * S, (1,), Effect.CRASH, detect_us=0),
    ]
    rules = RecoveryRules(interval_us=10 * S, restart_us=0, spares=1)
    run = played(jobs((0, 2000, 2)), nodes=3, faults=Given(*faults), recovery=rules)
    assert seconds(run.state.end_us) == [2900]  # 900 s of work twice
    assert run.state.failed == [2]
    slow = NodeFault(100 * S, (0,), Effect.SLOW, detect_us=900 * S, repair_us=3600 * S, slow_ppm=500_000)
    run = played(jobs((0, 2000, 2)), nodes=3, faults=Given(slow, faults[1]), recovery=rules)
    assert seconds(run.state.end_us) == [2450]  # 900 s at half the speed


# Faults of a scenario in months of jobs: what each takes away, and for how long, by hand.

SCENARIO = {
    "name": "given",
    "cluster": {
        "accelerators": 64,
        "server": "hgx-h100",
        "back_end": {"topology": {"kind": "rail-optimized"}, "fabric": "roce"},
    },
    "workload": {
        "operate": {"jobs": {"trace": "jobs.csv"}, "recovery": {"interval": "30 min", "checkpoint": "async"}},
    },
    "recovery": {"repair": "5 h"},
}
WORK_S = 48 * 3600
RESTART_S, ABORT_S = 400.0, 4.096e-6 * 2**20 * 7
COPY_S = 100e9 * 8 / 2e11  # 100 GB of each accelerator into the host's memory before work goes on
INTERVAL_S = 1800 + COPY_S


@pytest.fixture
def given_faults_played(tmp_path):
    (tmp_path / "jobs.csv").write_text(f"submit_s,duration_s,accelerators\n0,{WORK_S},64\n")

    def play(*faults, **changes):
        file = tmp_path / "given.yaml"
        file.write_text(json.dumps({**SCENARIO, "faults": list(faults)}))
        run = railyard.run(file, overrides={key.replace("__", "."): value for key, value in changes.items()}, out=None)
        return run.result.plain()["variants"][0]["operate"]

    return play


def jct_s(figures):
    return figures["jct_s"]["mean"]


@pytest.mark.parametrize(
    ("fault", "away_s", "topology"),
    [
        # Its node is back five hours after it died; the job, which needs all nodes, starts again then.
        ({"kind": "host-down", "host": 3}, 5 * 3600, {}),
        ({"kind": "accelerator-down", "rank": 63}, 5 * 3600, {}),
        ({"kind": "nic-down", "host": 2, "nic": 1, "for": "3 h"}, 3 * 3600, {}),
        ({"kind": "switch-down", "switch": "leaf 7", "for": "2 h"}, 2 * 3600, {}),
        # One spine joins all leafs: without it nodes of different leafs do not reach one another.
        ({"kind": "switch-down", "switch": "spine 0"}, 5 * 3600, {"kind": "leaf-spine", "ports_per_leaf": 8}),
    ],
)
def test_a_death_sends_the_job_back_to_its_checkpoint_until_the_repair(given_faults_played, fault, away_s, topology):
    """At 10 h: 36,000 s are 19.95 intervals of 1,804 s, so that 19 half hours of work are kept."""
    changes = {"cluster__back_end__topology": topology} if topology else {}
    figures = given_faults_played({**fault, "at": "10 h"}, **changes)
    kept_s = 36_000 // INTERVAL_S * 1800
    left_s = (WORK_S - kept_s) * INTERVAL_S / 1800
    assert jct_s(figures) == pytest.approx(36_000 + away_s + RESTART_S + left_s, abs=5)
    assert figures["failures"]["jobs_hit"] == 1
    assert figures["draws"] is None


def test_deaths_that_the_network_leads_around_are_a_pause(given_faults_played):
    """Rails need no spine: jobs wait for the routes of RoCE, 100 ms and the next of the senders' tries, 100.7 ms."""
    around = given_faults_played({"kind": "switch-down", "switch": "spine 0", "at": "10 h"})
    copies_s = WORK_S * COPY_S / 1800
    assert jct_s(around) == pytest.approx(WORK_S + copies_s + 0.1, abs=0.2)
    assert (around["failures"]["faults"], around["failures"]["jobs_hit"]) == (1, 0)
    waited = given_faults_played({"kind": "nic-down", "host": 2, "nic": 1, "at": "10 h", "for": "20 s"})
    assert jct_s(waited) == pytest.approx(WORK_S + copies_s + 20, abs=0.2)


def test_a_slow_accelerator_halves_its_job_until_it_is_seen(given_faults_played):
    """Two hours at half speed, then five of repair; the job saves its state before it leaves the node."""
    figures = given_faults_played({"kind": "slow-accelerator", "rank": 3, "factor": 0.5, "at": "10 h"})
    assert jct_s(figures) == pytest.approx(WORK_S * INTERVAL_S / 1800 + 3600 + 5 * 3600 + RESTART_S, abs=10)


def test_a_fault_that_jobs_of_months_do_not_feel_is_refused_with_its_place(given_faults_played):
    with pytest.raises(InputError, match="kill a part") as caught:
        given_faults_played({"kind": "degrade-link", "tier": "nic", "factor": 0.5})
    assert caught.value.problems[0].key == "faults.0.kind"
