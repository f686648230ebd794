"""`run` tries what `explain` tries, and its bottleneck agrees with its breakdown."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import railyard
from railyard import api
from railyard.api import words
from railyard.study.remedies import proposals
from railyard.study.training import trying
from railyard.study.training.fastest import Fastest

EXAMPLES = Path(__file__).parents[2] / "examples"

COLLIDING = {
    "name": "colliding",
    "cluster": {
        "accelerators": 32,
        "server": "hgx-h100",
        "placement": "scattered",
        "back_end": {"topology": {"kind": "leaf-spine", "ports_per_leaf": 8}, "fabric": {"name": "roce", "qps": 1}},
    },
    "workload": {
        "training": {
            "model": "llama-3.2-1b",
            "tokens": "1 B",
            "global_batch": 32,
            "sequence": 2048,
            "parallelism": {"zero": 3},
        }
    },
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return api.run(COLLIDING, out=tmp_path_factory.mktemp("runs"))


def test_the_run_tries_fabrics_queue_pairs_placements_and_a_layout(run):
    (variant,) = run.result.steps
    families = {row.family for row in variant.bottleneck.changes}
    assert {"fabric", "queue pairs", "placement"} <= families <= {"fabric", "queue pairs", "placement", "layout"}
    gains = [row.gain for row in variant.bottleneck.changes]
    assert gains == sorted(gains, reverse=True)
    for row in variant.bottleneck.changes:
        assert row.gain == pytest.approx(1 - row.step_seconds / variant.step.seconds)
    bound = next(row for row in variant.bottleneck.changes if row.bound)
    assert bound.name == "fabric ideal"
    assert bound.gain > 0.1


def test_explain_gives_the_same_figures(run):
    (variant,) = run.result.steps
    explained = {one.name: one for one in railyard.explain(run.folder).remedies}
    for row in variant.bottleneck.changes:
        assert explained[row.name].step_s == pytest.approx(row.step_seconds, rel=1e-9)
        assert explained[row.name].gain == pytest.approx(row.gain, rel=1e-6)


def test_what_is_tried_is_what_a_scenario_with_it_gives(run):
    """Each of the figures is that of a run of its own."""
    (variant,) = run.result.steps
    rows = {row.name: row.step_seconds for row in variant.bottleneck.changes}
    cluster = COLLIDING["cluster"]
    for name, changed in {
        "placement packed": {**cluster, "placement": "packed"},
        "4 queue pairs": {**cluster, "back_end": {**cluster["back_end"], "fabric": {"name": "roce", "qps": 4}}},
        "fabric uec": {**cluster, "back_end": {**cluster["back_end"], "fabric": "uec"}},
    }.items():
        (alone,) = api.run({**COLLIDING, "cluster": changed}, out=None).result.steps
        assert alone.step.seconds == pytest.approx(rows[name], rel=1e-9)


def test_where_the_network_costs_nothing_nothing_is_tried():
    plain = {**COLLIDING["workload"]["training"], "global_batch": 1024, "parallelism": {"zero": 1}}
    scenario = {
        **COLLIDING,
        "cluster": {**COLLIDING["cluster"], "placement": "packed"},
        "workload": {"training": plain},
    }
    (variant,) = api.run(scenario, out=None).result.steps
    assert variant.bottleneck.network_gain < trying.WORTH
    assert variant.bottleneck.changes is None


def test_a_layout_that_was_searched_is_not_written_out_into_another_search(monkeypatch):
    """With `auto`, another fabric keeps the layout."""
    training = {**COLLIDING["workload"]["training"], "parallelism": "auto"}
    scenario = {**COLLIDING, "workload": {"training": training}}
    searches = []
    once = Fastest._searched
    monkeypatch.setattr(Fastest, "_searched", lambda self, found: searches.append(1) or once(self, found))
    monkeypatch.setattr(trying, "WORTH", -1.0)
    (variant,) = api.run(scenario, out=None).result.steps
    assert len(searches) == 1
    assert "layout" not in {row.family for row in variant.bottleneck.changes}
    assert all(row.gain <= 0.2 for row in variant.bottleneck.changes)


def test_every_kind_of_remedy_is_registered():
    assert proposals.names() == [
        "fabric", "layout", "other layout", "placement", "precision", "queue pairs", "software"
    ]  # fmt: skip


CAUSES = {
    "contention in the network": ("contention", "contention"),
    "for bandwidth of the network": ("bandwidth", "bandwidth|round trips|NIC rate|scale-up|leaf|spine|core|torus|long"),
    "for latency of the network": ("latency", "latency"),
    "for stragglers": ("straggler", "stragglers"),
    "the pipeline's bubble": ("bubble", "pipeline bubble"),
    "for data": ("data", "data loading"),
    "for checkpoints": ("checkpoint", "checkpoints"),
    "for computations elsewhere": ("dependency", "computations elsewhere"),
}


def agrees(variant):
    """The sentence names the largest wait and its share, the table that or a resource that saves more."""
    shares = {}
    for part in variant.time:
        shares[part.cause] = shares.get(part.cause, 0.0) + part.share
    cell = [float(part) for part in re.findall(r"([0-9.]+) %", words.exposed_cell(variant))]
    assert 100 * variant.utilization.gpu + sum(cell) == pytest.approx(100, abs=0.4)
    shares.pop("compute", None)
    found = re.search(r"The largest wait is ([^,]+), ([0-9.]+)% of the step", variant.bottleneck.headline)
    largest = max(shares, key=shares.__getitem__, default="")
    if found is None:
        assert not largest or shares[largest] < 0.005
        return
    cause, names = CAUSES[found.group(1)]
    assert cause == largest
    assert float(found.group(2)) == pytest.approx(100 * shares[largest], abs=0.051)
    saved = {row.resource: row.gain for row in variant.bottleneck.ranking}
    if variant.bottleneck.name in saved and saved[variant.bottleneck.name] >= shares[largest]:
        assert saved[variant.bottleneck.name] == max(saved.values())
    elif max(saved.values()) < shares[largest]:
        assert re.search(names, variant.bottleneck.name), (variant.bottleneck.name, cause)


def drawn(seed):
    draw = random.Random(seed)
    layout = draw.choice([{"zero": 3}, {"tp": 2, "pp": 2}, {"pp": 4}, {"tp": 4}, {"tp": 8, "micro_batch": 2}])
    topology = {"kind": draw.choice(["leaf-spine", "rail-optimized"])}
    if topology["kind"] == "leaf-spine":
        topology |= {"ports_per_leaf": 8, "oversubscription": draw.choice(["1:1", "2:1", "4:1"])}
    fabric = draw.choice(["roce", "infiniband", "uec", "ideal"])
    faults = [{"kind": "slow-accelerator", "rank": 3, "factor": 0.7}] if draw.random() < 0.2 else []
    return {
        **COLLIDING,
        "seed": seed,
        "cluster": {
            "accelerators": 16,
            "server": "hgx-h100",
            "placement": draw.choice(["packed", "scattered"]),
            "back_end": {"topology": topology, "fabric": fabric},
        },
        "workload": {"training": {**COLLIDING["workload"]["training"], "global_batch": 16, "parallelism": layout}},
        "faults": faults,
    }


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 200))])
def test_the_bottleneck_agrees_with_the_breakdown(seed):
    (variant,) = api.run(drawn(seed), out=None).result.steps
    agrees(variant)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_bottleneck_of_every_example_agrees(path):
    for variant in api.run(path, out=None).result.steps:
        agrees(variant)
