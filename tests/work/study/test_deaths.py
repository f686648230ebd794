"""Deaths in training and serving runs: outcome, stall, every part of the lost time, hand-computed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import railyard
from railyard.cluster.fault.recovery import Recovery
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.study import study

STEP = {
    "name": "step",
    "cluster": {
        "accelerators": 16,
        "server": "hgx-h100",
        "back_end": {
            "topology": {"kind": "dual-plane", "inner": {"kind": "rail-optimized", "servers_per_leaf": 2}},
            "fabric": {"name": "roce", "reroute": "9 ms", "retransmit": "4 ms"},
        },
    },
    "workload": {
        "training": {
            "model": "llama-3.2-1b",
            "global_batch": 16,
            "sequence": 2048,
            "parallelism": {"tp": 1, "zero": 3, "micro_batch": 1, "recompute": "none"},
        }
    },
}
SINGLE = {"cluster__back_end__topology": {"kind": "rail-optimized", "servers_per_leaf": 2}}
ONE = {"cluster__back_end__fabric__qps": 1}
SERVE = {
    "name": "serve",
    "cluster": {"accelerators": 32, "server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "roce"}},
    "workload": {
        "serving": {
            "model": "llama-3-70b",
            "precision": "fp8",
            "requests": {"synthetic": {"arrivals": "poisson", "rate": 12, "input": 900, "output": 150, "count": 400}},
            "pools": {"both": {"replicas": 8, "tp": 4}},
        }
    },
}


def variant(base, *faults, engine=None, searched=False, **changes):
    """The only variant of a run, with other values by dotted key (`__` for the dot)."""
    overrides = {key.replace("__", "."): value for key, value in changes.items()}
    draft = load.from_values({**base, "faults": list(faults)}, overrides)
    return study.run(draft, engine=engine, searched=searched).result.plain()["variants"][0]


def parts(fault):
    return {part["cause"]: part["seconds"] for part in fault["parts"]}


def test_aborts_take_what_nccl_waits_or_the_watchdog():
    assert Recovery().abort_s == pytest.approx(4.096e-6 * 2**20 * 7)
    assert Recovery(ib_timeout=22, ib_retries=7).abort_s == pytest.approx(120.26, abs=0.01)
    assert Recovery(ib_timeout=25).abort_s == 600.0
    with pytest.raises(InputError, match="ib_timeout"):
        Recovery(ib_timeout=40)


LEAF = {"kind": "switch-down", "switch": "plane 0 leaf 0", "at": "5 ms"}


@pytest.fixture(scope="module")
def healthy():
    return variant(STEP)


def test_a_dead_leaf_under_two_planes_stalls_the_step_until_the_first_try_after_routes_know(healthy):
    """9 ms until routes know, tries every 4 ms: 12 ms. One queue pair has one path, and a free one after the death."""
    found = variant(STEP, LEAF, **ONE)
    (fault,) = found["faults"]
    assert fault["outcome"] == "rerouted"
    assert fault["detection_s"] == pytest.approx(12e-3)
    assert fault["stall_s"] == pytest.approx(12e-3, rel=0.05)
    assert fault["lost_s"] == pytest.approx(fault["stall_s"])
    assert fault["hosts"] == 0
    assert found["step"]["longest_s"] == pytest.approx(found["step"]["seconds"] + fault["stall_s"])
    assert (found["outcome"], healthy["outcome"]) == ("finished", "finished")
    assert "faults" not in healthy


def test_four_queue_pairs_on_two_planes_lose_paths_too_for_good(healthy):
    """The step that is hit stands still for 12 ms and has fewer paths in its rest: the longest has both, each once."""
    found = variant(STEP, LEAF)
    (fault,) = found["faults"]
    step, without_s = found["step"], healthy["step"]["seconds"]
    fewer_s = (fault["slower"] - 1) * without_s
    assert fewer_s > 3e-3
    assert 12e-3 < fault["stall_s"] < 12e-3 + fewer_s
    assert fault["lost_s"] == pytest.approx(fault["stall_s"] - fewer_s)
    assert step["without_faults_s"] == without_s
    assert step["p50_s"] == pytest.approx(healthy["step"]["p50_s"] * fault["slower"])
    assert step["longest_s"] == pytest.approx(without_s + fault["stall_s"])


def test_both_engines_agree_on_the_stall_of_dead_leafs_ports_nics_and_hosts():
    flow = variant(STEP, LEAF)["faults"][0]
    packet = variant(STEP, LEAF, engine="packet")["faults"][0]
    assert packet["outcome"] == flow["outcome"]
    assert packet["stall_s"] == pytest.approx(flow["stall_s"], rel=0.1)


def test_the_same_leaf_of_single_homed_nics_ends_the_job_part_by_part(healthy):
    """8 hosts a leaf of the rail: both hosts lose NIC 0, and one spare is too few."""
    single = {**SINGLE, "recovery__spares": 1, "recovery__repair": "2 h", "recovery__diagnosis": "1 min"}
    died = variant(STEP, {**LEAF, "switch": "leaf 0"}, **single)
    (fault,) = died["faults"]
    assert died["outcome"] == "died"
    assert fault["outcome"] == "aborted"
    assert fault["hosts"] == 2
    found = parts(fault)
    hung_s = found.pop("this step until it hangs")
    assert 5e-3 <= hung_s <= healthy["step"]["seconds"]
    assert found == {
        "until the job is aborted": pytest.approx(4.096e-6 * 2**20 * 7),
        "diagnosis": 60.0,
        "until it is repaired": 7200.0,
        "start of the processes": 374.0,
        "work since the last checkpoint, on the mean": 900.0,
    }
    assert fault["lost_s"] == pytest.approx(hung_s + sum(found.values()))
    assert fault["detection_s"] == pytest.approx(hung_s - 5e-3 + 4.096e-6 * 2**20 * 7)


@pytest.mark.parametrize("tokens", [2e9, 5e10])
def test_the_days_that_a_death_costs_are_in_step_job_and_dollars(tokens):
    """16 x 2,048 tokens a step; 30 s, 10 min, 1.32 d, 374 s and 15 min are lost once, however long the job is."""
    given = {**SINGLE, "workload__training__tokens": f"{tokens:.0f}"}
    died, plain = variant(STEP, {**LEAF, "switch": "leaf 0"}, **given), variant(STEP, **given)
    lost_s = 4.096e-6 * 2**20 * 7 + 600 + 1.3158 * 86_400 + 374 + 900
    assert died["jct"]["fault_s"] == pytest.approx(lost_s, rel=1e-4)
    assert died["jct"]["seconds"] - plain["jct"]["seconds"] == pytest.approx(lost_s, rel=1e-4)
    longer = died["jct"]["seconds"] / plain["jct"]["seconds"]
    assert died["cpmt"]["typical"] / plain["cpmt"]["typical"] == pytest.approx(longer, rel=1e-6)
    steps = math.ceil(tokens / (16 * 2048))
    assert died["step"]["seconds"] - plain["step"]["seconds"] == pytest.approx(lost_s / steps, rel=1e-4)
    assert died["step"]["p50_s"] == pytest.approx(plain["step"]["p50_s"])
    (outage,) = [row["seconds"] for row in died["time"] if row["cause"] == "outage"]
    assert outage == pytest.approx(lost_s / steps, rel=1e-4)


def test_a_loss_of_a_job_without_a_length_is_spread_over_its_time_between_failures():
    """50,675 h of one accelerator are 3,167 h of 16."""
    died, plain = variant(STEP, {**LEAF, "switch": "leaf 0"}, **SINGLE), variant(STEP, **SINGLE)
    (fault,) = died["faults"]
    share = fault["lost_s"] / (50_675 * 3600 / 16)
    assert died["step"]["seconds"] / plain["step"]["seconds"] == pytest.approx(1 + share, rel=1e-5)
    assert any("spread over 3.17e+03 h" in line for line in died["warnings"])


def test_a_death_in_a_later_step_is_a_death():
    """3 h from the start is some moment of a later step; the job hangs there as it would in the first."""
    (fault,) = variant(STEP, {**LEAF, "switch": "leaf 0", "at": "3 h"}, **SINGLE)["faults"]
    assert (fault["outcome"], fault["at_s"]) == ("aborted", 3 * 3600.0)
    assert fault["detection_s"] < 31.0


def test_a_death_after_the_last_communication_of_a_step_hangs_the_next_one(healthy):
    late = f"{1e3 * variant(STEP, **SINGLE)['step']['p50_s'] - 0.1:.3f} ms"
    died = variant(STEP, {**LEAF, "switch": "leaf 0", "at": late}, **SINGLE)
    assert died["outcome"] == "died"


def test_a_slow_cable_for_a_while_slows_the_steps_of_that_while():
    """10 min of steps that are 1 + x times as long do 600 / (1 + x) s of work."""
    slow = {"kind": "degrade-link", "tier": "nic", "factor": 0.2}
    found = variant(STEP, {**slow, "for": "10 min"}, **SINGLE)
    (fault,) = found["faults"]
    always = variant(STEP, slow, **SINGLE)
    slower = always["step"]["seconds"] / always["step"]["without_faults_s"]
    assert fault["slower"] == pytest.approx(slower)
    assert fault["lost_s"] == pytest.approx(600 * (1 - 1 / slower))
    assert found["step"]["samples"] == [pytest.approx(always["step"]["without_faults_s"])]


def test_each_of_several_faults_is_priced_by_leaving_it_out():
    nic = {"kind": "degrade-link", "cable": "server 1 nic 2 - leaf 2", "factor": 0.5}
    idle = {"kind": "degrade-link", "cable": "server 1 nic 2 - leaf 2", "factor": 0.99}
    slow, less = variant(STEP, nic, idle, **SINGLE)["faults"]
    assert slow["slower"] > 1.1
    assert 1 < less["slower"] < 1.02
    (alone,) = variant(STEP, nic, **SINGLE)["faults"]
    assert (alone["outcome"], alone["links"], alone["share"]) == ("slowed", 1, pytest.approx(1 / 16))
    assert alone["tiers"] == [{"tier": "nic", "links": 1, "of": 16, "share": pytest.approx(1 / 16)}]


def test_a_dead_host_has_its_place_taken_by_a_spare():
    (fault,) = variant(STEP, {"kind": "host-down", "host": 1, "at": "5 ms"}, recovery__spares=1)["faults"]
    found = parts(fault)
    assert found["until the job is aborted"] == 5.0
    assert found["until a spare takes over"] == 60.0
    assert found["this step until it hangs"] == pytest.approx(5e-3)
    assert fault["lost_s"] == pytest.approx(5e-3 + 5 + 600 + 60 + 374 + 900)


def test_a_nic_that_is_back_before_the_abort_is_waited_for_and_after_it_is_not():
    down = {"kind": "nic-down", "host": 1, "nic": 2, "at": "5 ms", "for": "6 ms"}
    (fault,) = variant(STEP, down)["faults"]
    assert fault["outcome"] == "waited"
    assert fault["stall_s"] == pytest.approx(8e-3, rel=0.07)  # two tries of 4 ms
    (fault,) = variant(STEP, {**down, "for": "40 s"}, recovery__diagnosis="1 s")["faults"]
    assert fault["outcome"] == "aborted"
    assert parts(fault)["until it is back"] == pytest.approx(40 - 30.0648 - 1, abs=0.01)


def test_the_only_spine_is_waited_for_though_routes_know_long_before():
    """Routes know after 9 ms, and lead nowhere: traffic waits for 300 ms."""
    network = {"kind": "leaf-spine", "ports_per_leaf": 8, "spines": 1}
    down = {"kind": "switch-down", "switch": "spine 0", "at": "1 ms", "for": "300 ms"}
    found = variant(STEP, down, cluster__back_end__topology=network)
    (fault,) = found["faults"]
    assert (fault["outcome"], found["outcome"]) == ("waited", "finished")
    assert fault["detection_s"] == pytest.approx(0.3)
    assert fault["stall_s"] == pytest.approx(0.3, rel=0.05)
    assert "until it is back" in found["warnings"][0]


def test_what_faults_cost_is_the_run_without_them():
    """A slow NIC: tokens, time and dollars against a run of the same scenario without it; its repair comes first."""
    job = {"workload__training__tokens": "5 B", **SINGLE}
    slow = {"kind": "degrade-link", "cable": "server 1 nic 2 - leaf 2", "factor": "30 %"}
    plain, found = variant(STEP, **job), variant(STEP, slow, searched=True, **job)
    cost, step_s = found["fault_cost"], found["step"]["seconds"]
    assert cost["what"] == "degrade-link: server 1 nic 2 - leaf 2 at 30 %"
    assert cost["step_s"] == pytest.approx(step_s - plain["step"]["seconds"])
    assert cost["tokens_lost"] == pytest.approx(1 - plain["step"]["seconds"] / step_s)
    assert cost["tokens_lost"] > 0.05
    assert cost["job_s"] == pytest.approx(found["jct"]["seconds"] - plain["jct"]["seconds"])
    assert cost["cpmt_usd"] == pytest.approx(found["cpmt"]["typical"] - plain["cpmt"]["typical"])
    assert cost["job_usd"] == pytest.approx(5_000 * cost["cpmt_usd"])
    repair = found["bottleneck"]["changes"][0]
    assert (repair["family"], repair["settings"]) == ("repair", {"faults": []})
    assert repair["step_seconds"] == pytest.approx(plain["step"]["seconds"])
    assert repair["cpmt_usd"] == pytest.approx(plain["cpmt"]["typical"])
    assert repair["gain"] == pytest.approx(cost["tokens_lost"])
    assert "fault_cost" not in plain


def test_rings_hide_their_latency_behind_a_slow_nic_on_every_fabric():
    """What is left beside M steps of the slow edge is the M-th part of the latency: half the rate is twice the time."""

    def gathered(factor):
        training = {**STEP["workload"]["training"], "global_batch": 64}
        cluster = {"accelerators": 64, "server": "hgx-h100", "back_end": SINGLE_LEAFS}
        base = {"name": "slow", "cluster": cluster, "workload": {"training": training}}
        slow = {"kind": "degrade-link", "cable": "server 1 nic 3 - leaf 1", "factor": f"{factor} %"}
        draft = load.from_values({**base, "faults": [slow], "compare": {"vary": {"fabric": ["roce", "uec", "ideal"]}}})
        found = study.run(draft, searched=False).result.plain()["variants"]
        return {one["name"]: one["collectives"][0]["mean_s"] for one in found}

    whole, half = gathered(20), gathered(10)
    for name, seconds in half.items():
        assert seconds / whole[name] == pytest.approx(2, rel=0.02)
        assert seconds >= half["ideal"]


SINGLE_LEAFS = {"topology": {"kind": "leaf-spine", "oversubscription": "1:1", "ports_per_leaf": 8}, "fabric": "roce"}


def test_a_flapping_nic_costs_its_stall_each_time():
    down = {"kind": "nic-down", "host": 1, "nic": 2, "at": "5 ms", "for": "3 ms", "every": "1 s", "times": 4}
    (fault,) = variant(STEP, down)["faults"]
    assert fault["stall_s"] == pytest.approx(4e-3, rel=0.12)
    assert fault["lost_s"] == pytest.approx(4 * fault["stall_s"])


def test_work_since_the_checkpoint_and_its_loading_are_lost():
    saved = {
        "cluster__storage": {"name": "local-nvme", "servers": 2},
        "workload__training__checkpoint": {"interval_steps": 40},
    }
    found = variant(STEP, {"kind": "accelerator-down", "rank": 3, "at": "5 ms"}, **saved)
    (fault,) = found["faults"]
    lost = parts(fault)
    assert lost["work since the last checkpoint, on the mean"] == pytest.approx(20 * found["step"]["p50_s"], rel=0.05)
    assert fault["links"] == fault["share"] == 0
    assert lost["loading the checkpoint"] == pytest.approx(found["storage"]["checkpoint"]["read_s"])


def test_a_dead_host_takes_its_replicas_away_and_a_spare_brings_them_back():
    dead = {"kind": "host-down", "host": 1, "at": "10 s"}
    spared = variant(SERVE, dead, recovery__spares=1)
    (away, anew) = spared["warnings"]
    assert "replicas 2, 3 away for 1.08 min" in away  # 60 s and the 5 s until the launcher knows
    assert int(anew.split()[0]) == spared["serving"]["begun_anew"] > 0
    assert spared["serving"]["faults"] == [
        {"what": "host-down: host 1", "at_s": pytest.approx(10.0), "replicas": [2, 3], "away_s": pytest.approx(65.0)}
    ]
    gone = variant(SERVE, dead)
    assert "1.32 d" in gone["warnings"][0]


def test_a_nic_takes_no_replica_away_that_does_not_need_it():
    found = variant(SERVE, {"kind": "nic-down", "host": 1, "nic": 0, "at": "10 s"})
    assert found["warnings"] == ["nic-down: host 1, nic 0 at 10 s takes no replica away"]
    assert found["serving"]["faults"][0]["replicas"] == []
    assert "faults" not in variant(SERVE)["serving"]
    with pytest.raises(InputError, match="kill a part"):
        variant(SERVE, {"kind": "late", "rank": 3, "by": "1 ms"})


def test_what_explains_a_run_explains_the_steps_after_its_deaths(tmp_path):
    dead = {"kind": "host-down", "host": 1, "at": "5 ms"}
    run = railyard.run({**STEP, "faults": [dead, LEAF]}, out=tmp_path)
    explained = railyard.explain(run.folder)
    (step_s,) = run.result.plain()["variants"][0]["step"]["samples"]
    assert any(remedy.step_s is not None and 0 < remedy.step_s < step_s for remedy in explained.remedies)


RING = Path(__file__).parents[3] / "examples/traces/ring.goal"
TRACE = {
    "name": "trace",
    "cluster": {"accelerators": 32, "server": "hgx-h100", "back_end": {"topology": "rail-optimized", "fabric": "roce"}},
    "workload": {"trace": {"file": str(RING), "ranks_per_server": 4}},
}
JOBS = {
    "name": "jobs",
    "cluster": STEP["cluster"] | {"back_end": {"topology": SINGLE["cluster__back_end__topology"], "fabric": "roce"}},
    "workload": {"jobs": [{"name": "only", "accelerators": 16, **STEP["workload"]}]},
}


@pytest.mark.parametrize("engine", ["flow", "packet"])
@pytest.mark.parametrize(
    ("base", "fault", "told"),
    [
        (TRACE, {"kind": "host-down", "host": 1, "at": "5 us"}, "takes 4 of the accelerators"),
        (TRACE, {"kind": "switch-down", "switch": "leaf 0", "at": "5 us"}, "leaves task .* without a path"),
        (JOBS, {"kind": "accelerator-down", "rank": 15, "at": "5 ms"}, "takes 1 of the accelerators"),
        (JOBS, {"kind": "nic-down", "host": 1, "nic": 2, "at": "1 h"}, "leaves task .* without a path"),
    ],
)
def test_deaths_that_traces_and_jobs_do_not_survive_are_refused_before_the_run(base, fault, told, engine):
    harmless = {"kind": "degrade-link", "tier": "nic", "factor": 0.5}
    with pytest.raises(InputError, match=told) as caught:
        variant(base, harmless, fault, engine=engine)
    assert caught.value.problems[0].key == "faults.1.kind"


def test_work_that_would_pass_over_faults_refuses_them():
    path = Path(__file__).parents[3] / "examples/edge/two-sites.yaml"
    with pytest.raises(InputError, match="knows no faults") as caught:
        railyard.run(path, overrides={"faults": [{"kind": "late", "rank": 0, "by": "1 ms"}]}, out=None)
    assert caught.value.problems[0].key == "faults"


def test_a_trace_goes_on_beside_deaths_of_what_it_does_not_use_or_for_a_while():
    assert variant(TRACE, {"kind": "nic-down", "host": 1, "nic": 2, "at": "5 us"})["step"]["seconds"] > 0
    assert variant(TRACE, {"kind": "nic-down", "host": 1, "nic": 3, "at": "5 us", "for": "1 ms"})["step"]["seconds"] > 0
