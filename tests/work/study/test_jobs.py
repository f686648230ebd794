"""Several jobs on one cluster: alone, together, what each costs the others, and errors at the key of a job."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from railyard.face import api
from railyard.graph import Job
from railyard.measure.result.reading import Result
from railyard.work.jobs.prepare import prepare
from railyard.work.scenario import load
from railyard.work.scenario.load import expand
from railyard.work.study.study import prepare as study_prepare

TRAINING = {"model": "llama-3.2-1b", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 1, "zero": 1}}
SERVING = {
    "model": "llama-3-8b",
    "precision": "fp8",
    "requests": {"synthetic": {"count": 300, "rate": 120, "input": 4096, "output": 16}},
    "pools": {"prefill": {"replicas": 4, "tp": 2}, "decode": {"replicas": 4, "tp": 2}},
    "slo": {"ttft": "1 s", "tpot": "50 ms"},
}


def scenario(*jobs, accelerators=32, fabric="roce"):
    topology = {"kind": "leaf-spine", "oversubscription": "4:1", "ports_per_leaf": 16}
    return {
        "name": "shared",
        "cluster": {
            "accelerators": accelerators,
            "server": "hgx-h100",
            "back_end": {"topology": topology, "fabric": fabric},
        },
        "workload": {"jobs": list(jobs)},
    }


def job(name, accelerators=16, placement="spread", **work):
    return {"name": name, "accelerators": accelerators, "placement": placement, **(work or {"training": TRAINING})}


def run(values):
    result = api.run(values, out=None).result.plain()
    Result.model_validate(json.loads(json.dumps(result)), strict=False)
    return result["variants"][0]


def by_name(variant):
    return {one["name"]: one for one in variant["jobs"]}


def test_two_jobs_across_the_spines_slow_each_other():
    variant = run(scenario(job("a"), job("b")))
    for one in variant["jobs"]:
        assert one["leafs"] == 2
        assert one["alone"]["steps"] >= 2
        assert one["slowdown"] > 1.005
        assert one["together"]["exposed_s"] > one["alone"]["exposed_s"]
        (cost,) = one["costs"]
        assert cost["share"] == pytest.approx(one["slowdown"] - 1, abs=1e-12)
        assert one["together"]["usd_per_mtoken"]["typical"] > one["alone"]["usd_per_mtoken"]["typical"]
        # Without a scale-out network a job takes the same step, whoever else is there.
        alone, together = one["alone"], one["together"]
        free_s = [figure["step_s"] * (1 - figure["tax"]["tokens_lost"]) for figure in (alone, together)]
        assert free_s == pytest.approx([alone["tax"]["step_without_scale_out_s"]] * 2)
        assert together["tax"]["tokens_lost"] > alone["tax"]["tokens_lost"] > 0
    assert variant["rounds"] == {"count": 1, "moved": 0.0, "agree": True}


def test_jobs_on_leafs_of_their_own_cost_each_other_nothing():
    variant = run(scenario(job("a", placement="packed"), job("b", placement="packed")))
    for one in variant["jobs"]:
        assert one["leafs"] == 1
        assert one["slowdown"] == 1.0
        assert one["alone"]["step_s"] == one["together"]["step_s"]
        assert one["costs"][0]["seconds"] == 0.0


def test_serving_and_training_settle():
    variant = run(scenario(job("train"), job("chat", serving=SERVING)))
    chat, train = by_name(variant)["chat"], by_name(variant)["train"]
    assert chat["together"]["transfers"] > 10
    # Each transfer against itself alone; means differ as well by which requests a transfer carries.
    # Requests that have come wait a schedule for their blocks, which moves later ones to other replicas: 7 % here.
    assert chat["together"]["transfer_slowdown"] > 1.05
    # Transfers take 5 ms more, of a mean of half a second to the first token.
    assert chat["together"]["ttft_s"]["mean"] == pytest.approx(chat["alone"]["ttft_s"]["mean"], abs=0.005)
    assert chat["together"]["tpot_s"]["p50"] == pytest.approx(chat["alone"]["tpot_s"]["p50"], rel=0.2)
    assert train["slowdown"] > 1.0
    assert variant["rounds"]["count"] >= 2
    assert variant["rounds"]["moved"] < 0.05
    assert variant["rounds"]["agree"] == (not variant["warnings"])


def test_a_job_that_has_the_cluster_takes_the_step_of_the_one_job_form():
    """The step of a job, run alone on the machine, has the digest of the scenario with one job."""
    values = scenario(job("a", 32, "scattered", training={**TRAINING, "global_batch": 32}))
    values["cluster"]["placement_seed"] = 0
    (shared,) = prepare(expand(load.from_values(values)))
    tenant = shared.tenants[0]
    found = shared.engine.simulate([Job(tenant.step, tenant.placement)], shared.machine, policy=shared.policy)
    one = copy.deepcopy(values)
    one["workload"] = {"training": {**TRAINING, "global_batch": 32}}
    one["cluster"]["placement"] = "scattered"
    alone = api.run(one, out=None).result.plain()["variants"][0]
    assert found.makespan_ps * 1e-12 == alone["step"]["samples"][0]
    assert found.digest() == alone["digest"]


def test_a_later_start_is_waited_for():
    variant = run(scenario(job("a"), {**job("b"), "start": "200 ms"}))
    assert by_name(variant)["b"]["start_s"] == 0.2
    assert by_name(variant)["b"]["together"]["step_s"] < 0.2


# Jobs of tenants: placed on their tenant's accelerators, with its class; others on what nobody has.

TENANTS = [
    {"name": "blue", "servers": "1-2", "traffic_class": 3},
    {"name": "green", "servers": "0"},
]


def placed(*jobs, tenants=TENANTS):
    step = {"model": "llama-3.2-1b", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 1, "micro_batch": 1}}
    cluster = {"accelerators": 32, "server": "hgx-h100"}
    if tenants:
        cluster["tenancy"] = {"by": "evpn", "tenants": tenants}
    work = [
        {"name": f"job{number}", "accelerators": count, "training": step} | ({"tenant": name} if name else {})
        for number, (count, name) in enumerate(jobs)
    ]
    draft = load.from_values({"name": "shared", "cluster": cluster, "workload": {"jobs": work}})
    return [(np.unique(one.placement // 8)).tolist() for one in study_prepare(draft)[0].tenants]


def test_jobs_are_where_their_tenants_are():
    assert placed((16, "blue"), (8, "green"), (8, None)) == [[1, 2], [0], [3]]
