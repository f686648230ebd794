"""What users of serving jobs see while replicas are out, and the run over draws of its failures."""

import json

import numpy as np
import pytest

from railyard.measure.result.reading import result_from
from railyard.work.operate import saving
from railyard.work.operate.failures.fault import Effect, NodeFault
from railyard.work.operate.loop import ClusterRun
from railyard.work.operate.prepare import prepare
from railyard.work.operate.present import sheets, why
from railyard.work.operate.rules import RecoveryRules
from railyard.work.operate.service import Service, _mixed, services
from railyard.work.scenario.load import from_values
from railyard.work.scenario.variants import expand
from railyard.work.study.study import run as operate

from .yard import Given, S, jobs, played, tree

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
    saving.save(first, tmp_path / "state.npz")
    again = ClusterRun(table, tree(4, 8), rules, faults=Given(fault))
    assert saving.load(again, tmp_path / "state.npz")
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
    (one,) = found.operated
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
    assert any("TTFT p99: all / over the run" in one for one in headings)
    assert any("3 draws of failures: low/mean/high" in one for one in headings)
    assert one.operate.services[0].states[0].answer == 4


def test_what_hangs_on_chance_is_called_a_tie(tmp_path):
    """A second more of restarting against a second less; and against failures 250 times as many."""
    section = {
        "jobs": {"synthetic": {"count": 60, "load": 0.9, "sizes": {"8": 1.0}, "median": "2 h", "p90": "4 h"}},
        "failures": {"profile": "llama3", "scale": 20.0},
    }
    values = {"name": "yard", "cluster": {**CLUSTER, "accelerators": 128}, "workload": {"operate": section}}
    tied = operate(from_values(values), ["workload.operate.recovery.restart=400 s,401 s"]).result
    assert "tied over the draws of failures" in why(tied)
    sure = operate(from_values(values), ["workload.operate.failures.scale=20,5000"]).result
    assert "tied" not in why(sure)
    few, many = (one.operate for one in sure.operated)
    apart = {part.name: 100 * (many.share(part.name) - part.share) for part in few.time[1:]}
    worst = max(apart, key=apart.get)
    assert why(sure).endswith(f"where {worst} takes {apart[worst]:.1f} points more of all GPU time")


def test_one_draw_where_nothing_is_drawn(tmp_path):
    (one,) = operate(draft(tmp_path)).result.operated
    assert one.operate.draws is None
    assert json.loads(one.operate.model_dump_json())["draws"] is None
