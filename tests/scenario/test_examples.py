"""Every example is valid; the small ones run, and the claims that are made with the others hold."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from railyard.work.operate.prepare import prepare as prepare_jobs
from railyard.work.scenario import load
from railyard.work.scenario.variants import expand
from railyard.work.study.study import prepare
from railyard.work.study.study import run as execute

EXAMPLES = Path(__file__).parents[2] / "examples"
OTHERS = {
    EXAMPLES / "packet" / "my_fabric.yaml",  # tests/packet_user tries it
    EXAMPLES / "operate" / "kueue.yaml",  # objects of Kubernetes: tests/operate places them
    EXAMPLES / "plugin" / "star.yaml",  # needs the topology of its plugin, whose own tests run it
}
"""No scenarios that can be run as they are."""
FILES = sorted(set(EXAMPLES.rglob("*.yaml")) - OTHERS)
QUICK = ["first.yaml", "straggler.yaml", "hf-config/own-model.yaml", "designed.yaml"]


def name_of(path):
    return str(path.relative_to(EXAMPLES))


def waiting(variant):
    """Share of the step that the network makes the GPUs wait."""
    causes = ("bandwidth", "latency", "contention", "straggler")
    return sum(part["share"] for part in variant["time"] if part["cause"] in causes)


def test_there_are_examples():
    assert {"first.yaml", "llama3-70b-1024-h100.yaml", "as-built.yaml"} <= {name_of(path) for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_an_example_can_be_run_as_it_is(path):
    """Reads, builds every cluster, fits every layout: all that can be wrong in a scenario."""
    draft = load.load(path)
    jobs = [prepare_jobs(one) for one in expand(draft)] if draft.kind == "operate" else prepare(draft)
    assert len({job.variant.name for job in jobs}) == len(jobs)
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=railyard.kit.schema.json"


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_example_runs(name):
    result = execute(load.load(EXAMPLES / name)).result.plain()
    assert all(variant["utilization"]["gpu"] > 0.5 for variant in result["variants"])


def test_the_template_of_init_is_an_example_too():
    from railyard.face.verbs.init import template
    from railyard.kit.schema import yaml

    draft = load.from_values(
        yaml.parse_mapping(template(), "template").plain(), {"accelerators": 64, "global_batch": 64}
    )
    assert len(execute(draft).result.plain()["variants"]) == 3


def test_lockstep_multiplies_lateness_by_the_cluster():
    """9,999 GPUs wait 20 us for one: 0.2 GPU-seconds."""
    result = execute(load.load(EXAMPLES / "lockstep.yaml")).result.plain()
    lockstep = result["variants"][0]["lockstep"]
    assert lockstep["gpu_seconds_lost_to_stragglers"] == pytest.approx(9_999 * 20e-6, rel=1e-6)
    assert lockstep["worst_ranks"][0]["rank"] == 17


def test_oversubscription_is_felt_and_the_tier_named():
    draft = load.load(EXAMPLES / "oversubscription.yaml", ["compare.vary={oversubscription: [1:1, 8:1]}"])
    full, thin = execute(draft).result.plain()["variants"]
    assert waiting(full) < 0.02
    assert waiting(thin) > 0.08
    assert thin["network"]["saturated_tier"] == "leaf-spine"
    assert thin["capex"]["total_usd"]["typical"] < full["capex"]["total_usd"]["typical"]


@pytest.mark.slow
def test_designing_the_network_for_the_job_ends_the_wait():
    """In the median of the draws 14 to 25 % of the step is waiting at first, on the designed fabric less than 5 %."""
    variants = execute(load.load(EXAMPLES / "as-built.yaml")).result.plain()["variants"]
    assert len(set(variants[0]["step"]["samples"])) == 5
    waits = [waiting(variant) for variant in variants]
    assert 0.14 < waits[0] < 0.25
    assert waits[-1] < 0.05
    assert all(after <= before + 0.005 for before, after in itertools.pairwise(waits))
    busy = [variant["utilization"]["gpu"] for variant in variants]
    # WHY not a figure: what GPUs no longer wait for, they work, however long a step takes.
    assert busy[-1] - busy[0] == pytest.approx(waits[0] - waits[-1], abs=0.005)
    assert variants[-1]["jct"]["seconds"] < 0.8 * variants[0]["jct"]["seconds"]
    assert variants[-1]["cpmt"]["typical"] < variants[0]["cpmt"]["typical"]
    assert all(variant["capex"]["total_usd"]["typical"] > 0 for variant in variants)
    assert variants[0]["network"]["saturated_tier"] == "leaf-spine"
