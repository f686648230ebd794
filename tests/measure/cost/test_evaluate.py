"""A whole evaluation on real catalogue entries: published bands, a source for every number, the result's own laws."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from railyard import catalog, cluster
from railyard.catalog import Range
from railyard.cluster import bill_of
from railyard.kit.errors import InputError
from railyard.measure.bottleneck import Bottleneck
from railyard.measure.cost.assumptions import PRICES, Assumptions
from railyard.measure.cost.capital import NETWORK_COMPONENTS, CostPart, component_of
from railyard.measure.cost.cost import JobFacts
from railyard.measure.cost.evaluate import evaluate
from railyard.measure.decompose import lockstep
from railyard.measure.job import Checkpointing
from railyard.measure.network import network_use
from railyard.measure.picture import topology_picture
from railyard.measure.result.reading import result_from
from railyard.measure.result.step import TimeShare
from railyard.measure.utilization import StepWork, tax_of, utilization
from railyard.work.training.step_runs import StepTimes

SHARES = {
    ("compute", "", "forward"): 0.25,
    ("compute", "", "backward"): 0.5,
    ("compute", "", "optimizer"): 0.02,
    ("bandwidth", "dp", "gradient"): 0.13,
    ("bubble", "pp", "forward"): 0.1,
}


@pytest.fixture(scope="module")
def facts():
    return catalog.load()


@pytest.fixture(scope="module")
def machine(facts):
    return cluster.build(cluster.ClusterSpec(accelerators=1024, server="hgx-h100"), facts)


def parts_of(machine):
    return [
        CostPart(component_of(row.kind), row.name, row.count, row.price_usd, row.power_w) for row in bill_of(machine)
    ]


@pytest.fixture
def evaluated(facts, machine, spent):
    def make(**own):
        return evaluate(
            decomposition=spent(SHARES, ranks=machine.ranks),
            accelerator=machine.accelerator,
            parts=parts_of(machine),
            job=JobFacts(15e12, 4e6, 1.0, machine.ranks, Checkpointing(10.0, 10.0)),
            assumptions=Assumptions.from_catalog(facts, own),
        )

    return make


def test_a_thousand_h100_cost_what_published_models_say(evaluated):
    """All-in $46.9k to $51.6k a GPU with its network (2024 quotes), $2.2 to $2.4 an hour with operations on top."""
    found = evaluated()
    per_gpu = found.capex.per_accelerator_usd
    assert per_gpu.low < 46_900 < per_gpu.high
    hourly = found.cpmt.usd_per_gpu_h
    assert hourly.low < 2.2 < hourly.high
    assert 1.7 < hourly.typical < 2.6
    network = sum(found.capex.line(name).typical for name in NETWORK_COMPONENTS[1:]) / 1024
    # Switches, cables and optics of two tiers: $4,248 a GPU (tech-talk-cto sheet, 2024).
    assert 2_000 < network < 9_000


def test_provisioned_and_metered_power_are_two_things(evaluated):
    """Provisioned per H100 is published as 1.73 kW with the facility's overhead, that is about 1.4 kW of IT."""
    found = evaluated()
    assert found.power.provisioned_w.typical / 1024 == pytest.approx(1730 / 1.25, rel=0.12)
    assert found.power.it_w.typical < found.power.provisioned_w.typical


def test_the_own_electricity_price_is_taken_and_said(evaluated):
    found = evaluated(electricity_usd_per_kwh=0.5)
    energy = dict(found.cpmt.parts)["energy"]
    usual = dict(evaluated().cpmt.parts)["energy"]
    assert energy.typical == pytest.approx(usual.typical * 0.5 / 0.08, rel=1e-6)
    (row,) = [row for row in found.sources if row.item == "assumption"]
    assert (row.field, row.confidence, row.value) == ("electricity_usd_per_kwh", "user", "0.5")
    assert not any(swing.parameter == "electricity" for swing in found.sensitivity)


def test_every_assumption_and_price_has_a_source(evaluated):
    found = evaluated()
    items = {row.item for row in found.sources}
    assert set(PRICES.values()) | {"reliability", "accelerator draw", "h100-sxm"} <= items
    assert all(row.source and row.value and row.year for row in found.sources)


def test_energy_per_token_is_power_over_goodput(evaluated):
    found = evaluated(mtbf_h=1e12)
    assert found.joules_per_token.typical == pytest.approx(found.power.total_w.typical / (4e6 * found.jct.goodput))
    assert found.joules_per_token.typical * found.tokens_per_s_per_mw == pytest.approx(1e6)


def test_rental_is_the_price_over_goodput(evaluated):
    found = evaluated(mtbf_h=1e12, restart_s=0.0)
    assert found.jct.goodput > 0.99
    typical = found.rental.usd_per_gpu_h.typical * 1024 / (4e6 * found.jct.goodput * 3600) * 1e6
    assert found.rental.cpmt.typical == pytest.approx(typical)


@pytest.mark.parametrize(
    ("own", "key"),
    [
        ({"electricty_usd_per_kwh": 0.1}, "electricty_usd_per_kwh"),
        ({"pue": 0.9}, "pue"),
        ({"life_years": Range(0, 4, 5)}, "life"),
        ({"operations": Range(0.05, 0.03, 0.02)}, "operations"),
        ({"installation": -0.1}, "installation"),
    ],
)
def test_assumptions_that_cannot_be_are_refused(facts, own, key):
    with pytest.raises(InputError) as caught:
        Assumptions.from_catalog(facts, own)
    assert caught.value.problems[0].key == key


@pytest.fixture
def result(evaluated, machine, spent):
    """A result made of real parts, as a run writes it."""
    from railyard.graph import Label, Record, TaskGraph

    cost, decomposition = evaluated(), spent(SHARES, ranks=machine.ranks)
    one = np.zeros(1, np.int64)
    graph = TaskGraph.of(machine.ranks, labels=[Label("forward", "x")])
    line = Record.of_tasks(graph, one, one + 10**12, tables={"links": {"bytes": np.ones(len(machine.links))}})
    use = network_use(line, machine, decomposition)
    without = {"compute": 0.77, "bubble": 0.1}
    variant = {
        "name": "roce",
        "settings": {},
        "bound": False,
        "outcome": "finished",
        "layout": {"words": "DP 1024", "parallelism": {"dp": 1024}},
        "step": StepTimes((1.0,)).section().plain(),
        "utilization": utilization(decomposition, StepWork(4e6, 1e17, 1e17, 989e12)).section().plain(),
        "time": [{key: getattr(row, key) for key in TimeShare.model_fields} for row in decomposition.rows],
        "lockstep": lockstep(decomposition).plain(),
        "jct": cost.jct.section().plain(),
        "power": cost.power.section().plain(),
        "capex": cost.capex.section().plain(),
        "cpmt": cost.section().plain(),
        "bottleneck": Bottleneck("none", "No single resource helps.").section().plain(),
        "network": use.figures.plain(),
        "memory": {"rows": []},
        "timeline": {
            "ranks": [0],
            "tracks": [{"rank": 0, "stream": "compute", "tasks": [[0.0, 1e6, 0]]}],
            "labels": [],
        },
        "topology": topology_picture(machine, use.load).plain(),
        "storage": {"data": None, "checkpoint": None},
        "collectives": [],
        "model_error": [],
        "tax": tax_of({**without, "bandwidth": 0.13}, without, without, "flow").plain(),
        "warnings": [],
        "digest": "x",
    }
    variant["timeline"]["labels"] = [{"phase": "forward", "op": "x", "group": ""}]
    words = dict.fromkeys(("version", "engine", "digest", "created"), "x")
    sources = [dict(vars(row)) for row in cost.sources]
    provenance = {**words, "seed": 0, "sources": sources, "left_out": [], "defaults": []}
    result = {
        "format": "railyard/result-1",
        "name": "t",
        "scenario": {},
        "provenance": provenance,
        "variants": [variant],
    }
    return json.loads(json.dumps(result, allow_nan=False))


def test_a_real_result_is_accepted(result):
    result_from(json.dumps(result))


def spoil(result, path, value):
    *way, last = path
    place = result["variants"][0]
    for key in way:
        place = place[key]
    if value is KeyError:
        del place[last]
    else:
        place[last] = value
    return result


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("step", "p95_s"), KeyError, "key is missing"),
        (("step", "seconds"), float("nan"), "finite number"),
        (("utilization", "gpu"), 1.4, "less than or equal to 1"),
        (("utilization", "mfu"), "0.4", "valid number"),
        (("time", 0, "share"), 0.4, "do not add up"),
        (("tax", "tokens_lost"), 0.14, "are not the tokens lost"),
        (("tax", "rest", "compute"), 0.78, "are not the step"),
        (("power", "components", 0, "typical_w"), 1.0, "do not add up"),
        (("cpmt", "low"), 1e9, "not in order"),
        (("capex", "components", 0, "typical_usd"), 1.0, "do not add up"),
        (("timeline", "tracks", 0, "tasks", 0, 2), 7, "names label 7"),
        (("network", "hot_links"), {}, "valid array"),
        (("utilization", "ranks", "max"), 3.0, "less than or equal to 1"),
        (("collectives"), None, "valid array"),
    ],
)
def test_a_wrong_result_is_refused_with_its_key(result, path, value, message):
    path = (path,) if isinstance(path, str) else path
    with pytest.raises(InputError, match=message) as caught:
        result_from(json.dumps(spoil(result, path, value)))
    assert any(f"variants[0].{path[0]}" in f"{problem.key}.{problem.message}" for problem in caught.value.problems)


def test_all_problems_are_told_at_once(result):
    del result["name"]
    result["provenance"]["seed"] = "7"
    with pytest.raises(InputError) as caught:
        result_from(json.dumps(result))
    assert {problem.key for problem in caught.value.problems} == {"result.name", "result.provenance.seed"}


def test_more_failures_never_make_it_cheaper(evaluated):
    costs = [evaluated(mtbf_h=hours).cpmt.total.typical for hours in (1e5, 3e4, 1e4)]
    assert costs == sorted(costs)


def test_a_slower_step_costs_in_proportion_but_for_power(facts, machine, spent, evaluated):
    found = evaluated(mtbf_h=1e12)
    slower = evaluate(
        decomposition=replace(spent(SHARES, ranks=machine.ranks), step_ps=2 * 10**12),
        accelerator=machine.accelerator,
        parts=parts_of(machine),
        job=JobFacts(15e12, 4e6, 2.0, machine.ranks, Checkpointing(20.0, 20.0)),
        assumptions=Assumptions.from_catalog(facts, {"mtbf_h": 1e12}),
    )
    assert slower.cpmt.total.typical == pytest.approx(2 * found.cpmt.total.typical, rel=1e-3)
