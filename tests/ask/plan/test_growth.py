"""Growth: parts and cables from one cluster to the next, dollars over time, regret."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from railyard import catalog
from railyard.ask.plan import pilot
from railyard.ask.plan.build import DesignBench
from railyard.ask.plan.conclusion import conclude
from railyard.ask.plan.growth import YEAR_S, BookValues, growth, to_json
from railyard.ask.plan.growth_change import GrowthChange, Lot, cables, change, provisions
from railyard.ask.plan.memo import growth_page
from railyard.ask.plan.objectives import figures_of
from railyard.ask.plan.outcome import layout_of
from railyard.ask.plan.pilot import Beliefs, PilotTest, best, sheet
from railyard.ask.plan.planned import begin
from railyard.ask.plan.planning import DesignPlanner
from railyard.ask.plan.price import priced
from railyard.ask.plan.study import plan
from railyard.ask.plan.uncertainty import Factor, Uncertainty
from railyard.catalog.types import Range
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.topology import LeafSpine
from railyard.face.cli import guard
from railyard.face.words import accept_pilot
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.measure.cost.cost import usd_per_h
from railyard.measure.result.step import EXPOSED
from railyard.work.scenario import load
from railyard.work.study.folder import Journal
from railyard.work.study.workers import Local


def cluster(ranks: int, ratio: float = 1.0):
    network = NetworkSpec(LeafSpine(oversubscription=ratio, ports_per_leaf=32), FabricSpec("roce"))
    return build(ClusterSpec(ranks, "hgx-h100", network), catalog.load())


def test_a_cluster_that_grows_by_leafs_keeps_its_cables():
    small, large = cluster(64), cluster(96)
    made = change(small, large, rebuilt=False)
    assert made.kept + made.moved == cables(small).total()
    assert made.kept + made.laid == cables(large).total()
    assert made.kept >= 64  # every NIC stays where it is
    assert made.bought["h100-sxm"].count == 32
    assert made.bought["hgx-h100"].count == 4
    assert not made.stranded


def test_a_network_that_is_rebuilt_strands_all_but_servers_and_nics():
    made = change(cluster(64), cluster(96), rebuilt=True)
    assert made.kept == 0
    assert made.moved == cables(cluster(64)).total()
    assert made.bought["cx7-400g"].count == 32
    assert made.stranded["tomahawk-5"].count > 0
    assert "h100-sxm" not in made.stranded


def values(**more):
    training = {"model": "llama-3-8b", "global_batch": 96, "sequence": 4096, "parallelism": {"tp": 1}}
    stages = [{"name": "now", "set": {}}, {"name": "next", "at": "365 d", "set": {"accelerators": 96}}]
    return {
        "name": "g",
        "cluster": {"accelerators": 48, "server": "hgx-h100", "back_end": {"topology": "leaf-spine"}},
        "workload": {"training": training},
        "plan": {"growth": {"stages": stages, "horizon": "730 d", **more}},
    }


@pytest.fixture(scope="module")
def grown():
    return growth(load.from_values(values()))


def test_paths_pay_annuities_energy_and_space_for_their_tokens(grown):
    assert {path.name for path in grown.paths} == {"incremental", "forklift", "ahead", "beside", "rent"}
    assert all(min(path.regret[end] for path in grown.paths) == 0.0 for end in (0, 1))
    (path,) = (path for path in grown.paths if path.name == "incremental")
    first, second = path.steps
    typical = grown.stages[0].priced.typical
    bought = first.change.usd(first.change.bought.values()) * (1 + typical["installation"])
    assert first.capital_usd == pytest.approx(bought)
    life = typical["life_years"]
    yearly = typical["cost_of_capital"] / (1 - (1 + typical["cost_of_capital"]) ** -life)
    assert first.charged_usd == pytest.approx(bought * yearly * 2 / (1 + typical["cost_of_capital"]))
    assert first.tokens == pytest.approx(grown.stages[0].priced.tokens_per_s * YEAR_S)
    assert second.stopped_s == pytest.approx(second.change.moved * 600 / 8)
    paid = first.charged_usd + second.charged_usd + first.running_usd + second.running_usd
    assert path.futures[1] == pytest.approx(paid / (first.tokens + second.tokens) * 1e6)


def test_the_command_prints_json(tmp_path, capsys):
    file = tmp_path / "g.yaml"
    file.write_text(yaml.to_text(values()), encoding="utf-8")
    assert guard.run(["plan", "growth", str(file), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [stage["accelerators"] for stage in printed["stages"]] == [48, 96]
    assert printed["paths"][0]["regret_by_future"]


def test_a_second_fabric_beside_the_first_touches_nothing(grown):
    (path,) = (path for path in grown.paths if path.name == "beside")
    first, second = path.steps
    assert second.change.moved == second.stopped_s == second.stranded_usd == 0
    assert second.change.bought["h100-sxm"].count == 48  # 96 less the 48 that are there
    assert second.change.laid == first.change.laid  # the same network once more
    assert grown.left_out == ()


def test_what_adds_nothing_has_no_second_fabric():
    shrunk = values()
    shrunk["plan"]["growth"]["stages"][1]["set"] = {"topology": "three-tier"}
    found = growth(load.from_values(shrunk))
    assert [name for name, _ in found.left_out] == ["beside"]
    assert "adds no accelerators" in found.left_out[0][1]


def test_what_is_stranded_is_written_off_the_oldest_first():
    def lot(count, usd=100.0):
        return {"s": Lot("s", "switches", count, Range(usd, usd, usd))}

    books = BookValues()
    assert books.changed(GrowthChange(lot(3), {}, 0, 0, 0), 0.0, 4.0) == 0.0
    assert books.changed(GrowthChange(lot(2), {}, 0, 0, 0), YEAR_S, 4.0) == 0.0
    # After two years 3 are worth half, 2 three quarters: of four that go, 3 x 50 + 1 x 75.
    assert books.changed(GrowthChange({}, lot(4), 0, 0, 0), 2 * YEAR_S, 4.0) == pytest.approx(225.0)
    # The last one is worth nothing after its life.
    assert books.changed(GrowthChange({}, lot(1), 0, 0, 0), 5 * YEAR_S, 4.0) == 0.0


def test_a_forklift_writes_off_three_quarters_after_a_year_of_four(grown):
    (path,) = (path for path in grown.paths if path.name == "forklift")
    assert path.steps[1].written_off_usd == pytest.approx(0.75 * path.steps[1].stranded_usd)


def test_accelerators_that_are_replaced_are_stranded_whatever_network_was_bought_ahead():
    other = values()
    other["plan"]["growth"]["stages"][1]["set"] = {"accelerators": 96, "server": "hgx-h200"}
    found = growth(load.from_values(other))
    (path,) = (path for path in found.paths if path.name == "ahead")
    assert path.steps[1].change.stranded["h100-sxm"].count == 48


def test_the_page_names_every_path(grown):
    drawn = growth_page("g", "Path rent has the least regret.", to_json(grown))
    assert '<p class="verdict">Path rent has the least regret.</p>' in drawn
    assert all(f">{path.name}" in drawn for path in grown.paths)
    assert drawn.count('class="bars"') == len(grown.stages) + 1


def test_too_much_stands_idle_and_too_little_is_rented(grown):
    """48 and 96 accelerators by hand: idle ones cost all but their energy, missing ones the rent of the larger job."""
    small, large = grown.stages
    rows = {one.built: one for one in provisions((small, large))}
    hourly = usd_per_h(large.priced.typical)
    share = small.priced.tokens_per_s / large.priced.tokens_per_s
    idle = (sum(hourly.values()) - hourly["energy"] * (1 - share)) * 8760
    assert rows["next"].usd_per_year == pytest.approx((idle, sum(hourly.values()) * 8760))
    own = sum(usd_per_h(small.priced.typical).values())
    rent = large.cluster.accelerator.rental_usd_per_h.typical * 96 * (1 - share)
    assert rows["now"].usd_per_year == pytest.approx((own * 8760, (own + rent) * 8760))
    least = [min(row.usd_per_year[demand] for row in rows.values()) for demand in (0, 1)]
    for row in rows.values():
        late = tuple(usd - best for usd, best in zip(row.usd_per_year, least, strict=True))
        assert row.regret_usd == pytest.approx(late)
        assert row.bound_usd == max(row.regret_usd)


# A pilot's sheet: flips against the plan run again with other steps, conditioning against its closed forms.

PLAN: dict[str, Any] = {
    "name": "p",
    "cluster": {"accelerators": 64, "server": "hgx-h100", "back_end": {"topology": "leaf-spine"}},
    "workload": {
        "training": {
            "model": "llama-3-8b",
            "global_batch": 64,
            "sequence": 4096,
            "tokens": "1 T",
            "parallelism": {"tp": 2, "pp": 1},
        }
    },
    "plan": {"space": {"fabric": ["roce", "infiniband"]}, "effort": {"flow": 2, "rivals": 0, "draws": 400}},
}


def worked_out(draft):
    begun, section = begin(draft)
    return DesignPlanner.of(draft, begun, section, Local(1), Journal(None)).run()


@pytest.fixture(scope="module")
def found():
    planned = worked_out(load.from_values(PLAN))
    return sheet(planned, None, lambda _what, _share: None)


def row(found, name: str):
    return next(one for one in found.rows if one[0].name == name)


def again(found, share_of_error: float) -> str:
    """The best design where the engine had found the exposed part of steps on RoCE so much longer."""
    planned = replace(found.planned, outcomes=dict(found.planned.outcomes))
    bench = DesignBench(planned.space)
    for choice in planned.choices:
        if "roce" not in choice.name:
            continue
        outcome = choice.outcomes[0]
        slower = 1.0 + outcome.share(*EXPOSED) * share_of_error
        design = bench.design(choice.point)
        training = design.jobs[0].replace(layout=layout_of(outcome.layouts[0]))
        longer = replace(outcome, step_s=outcome.step_s * slower)
        seated = choice.hardware[0]
        paid = priced(seated.cluster, training, longer, seated.parts, design.assumptions, delivery_s=0.0)
        planned.outcomes[choice.point, 0, outcome.engine] = replace(longer, figures=figures_of(paid))
    conclude(planned, draws=400, seed=0, rivals=0)
    return min(planned.choices, key=lambda choice: choice.figures[planned.objectives[0].name]).name


def test_the_plan_run_again_on_both_sides_of_a_flip_has_another_best_design(found):
    """A busbw of b instead of the p predicted makes what the job waits for on that network p / b as long.

    A flip is where typical costs cross; next to it both are equal within error, and expected regret decides.
    """
    trial, (flip, *_) = row(found, "all-reduce-roce")
    assert (found.planned.choices[0].name, found.planned.choices[flip.choice].name) == ("roce", "infiniband")
    assert not flip.above
    assert flip.value < trial.predicted
    assert again(found, trial.predicted / (flip.value * 1.02) - 1.0) == "roce"
    assert again(found, trial.predicted / (flip.value * 0.98) - 1.0) == "infiniband"


def test_the_chance_of_a_flip_is_the_normal_tail(found):
    trial, (flip, *_) = row(found, "all-reduce-roce")
    factor = found.planned.choices[0].missed[0][2].factor
    tail = 0.5 * math.erfc(trial.error(flip.value) / (factor.high / 1.2816) / math.sqrt(2))
    assert flip.chance == pytest.approx(tail, rel=0.02)
    low, high = (trial.value(sign * factor.high) for sign in (1, -1))
    shown = accept_pilot._row(found, trial, ())
    assert (shown["low"], shown["high"]) == pytest.approx((low, high))


def test_a_pod_is_the_same_job_on_fewer_servers(found):
    """Two servers: 8 of 32 replicas, a quarter of the batch; a step of it takes about as long as one of the design."""
    trial, _ = row(found, "step-h100-sxm-1")
    assert (trial.servers, trial.ranks) == (2, 16)
    assert "--tensor-model-parallel-size 2" in trial.command
    assert "--global-batch-size 16" in trial.command
    assert trial.predicted == pytest.approx(found.planned.choices[0].outcomes[0].step_s, rel=0.1)
    larger = sheet(found.planned, 4, lambda _what, _share: None)
    assert {trial.servers for trial, _ in larger.rows} == {4}
    with pytest.raises(InputError, match="no pod of 3 servers"):
        sheet(found.planned, 3, lambda _what, _share: None)


def test_a_result_as_expected_leaves_the_plan_and_one_beyond_the_flip_changes_it(found, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(accept_pilot, "worked_out", lambda *_args, **_kept: found.planned)
    monkeypatch.setattr(accept_pilot, "sheet", lambda *_args: found)
    plan, results = tmp_path / "plan.yaml", tmp_path / "results.csv"
    plan.write_text(json.dumps(PLAN))

    def told(*lines: str) -> dict[str, Any]:
        results.write_text("\n".join(["test,value", *lines]) + "\n")
        assert guard.run(["accept", str(plan), "--pilot", "--results", str(results), "--json", "-q"]) == 0
        return json.loads(capsys.readouterr().out)

    trial, (flip, *_) = row(found, "all-reduce-roce")
    for value, best_now in (
        (trial.predicted, "roce"),
        (flip.value * 1.001, "roce"),
        (flip.value * 0.999, "infiniband"),
    ):
        said = told(f"all-reduce-roce,{value}", "write-roce,390")["results"]
        assert (said["before"], said["after"], said["changed"]) == ("roce", best_now, best_now != "roce")
    factor = next(one for one in said["factors"] if one["factor"] == "collectives on roce")
    assert factor["moved"] == pytest.approx(trial.error(flip.value * 0.999))
    assert factor["spread_after"] == pytest.approx(0.0, abs=1e-9)
    roce = next(one for one in said["designs"] if one["variant"] == "roce")
    after, before = (roce[when]["p90"] / roce[when]["p10"] for when in ("after", "before"))
    assert after < before  # as shares: the measured collectives also moved the figure itself
    assert guard.run(["accept", str(plan), "--pilot"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Buy roce, unless all-reduce-")
    assert max(map(len, lines)) <= 100
    assert guard.run(["accept", str(plan), "--pilot", "--results", str(results)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Buy infiniband, not roce: after 2 results its cpmt is ")
    assert max(map(len, lines)) <= 100
    results.write_text("test,value\nall-reduce-roc,300\n")
    assert guard.run(["accept", str(plan), "--pilot", "--results", str(results), "-q"]) == 2
    assert "no such test" in capsys.readouterr().err


def test_several_results_are_conditioned_at_once():
    """Two independent normal factors of 0.1 and 0.2; their sum is 0.1 above its mean: each takes its part of that.

    Variances 0.01 and 0.04: a fifth and four fifths; what is left of each is 0.01 x 0.04 / 0.05.
    """
    half = (0.1 * 1.2816, 0.2 * 1.2816)
    doubts = Uncertainty(
        {n: Factor(n, "model", 0.03 - h, 0.03, 0.03 + h) for n, h in zip("ab", half, strict=True)}, (0, 0)
    )
    beliefs = Beliefs.of(doubts)
    total = PilotTest("t", "step", 0, 1, 8, "s", rate=False, predicted=2.0, weights={"a": 1.0, "b": 1.0})
    assert beliefs.spread(total) == pytest.approx((0.06, math.sqrt(0.05)))
    moved = beliefs.moved([total], [0.16])
    assert moved == pytest.approx({"a": 0.02, "b": 0.08})
    after = beliefs.given([total], [0.16])
    assert np.diag(after.covariance) == pytest.approx([0.008, 0.008])
    assert beliefs.spread(total)[1] > 1e6 * after.spread(total)[1]
    drawn = beliefs.redrawn(doubts.sampled(4000, 1), [total], [0.16])
    assert drawn["a"] + drawn["b"] == pytest.approx(np.full(4000, 0.16))
    assert drawn["a"].mean() == pytest.approx(0.05, abs=0.005)
    assert drawn["a"].std() == pytest.approx(math.sqrt(0.008), rel=0.05)
    alone = replace(total, weights={"a": 1.0})
    both = beliefs.moved([total, alone], [0.16, 0.05])
    assert both == pytest.approx({"a": 0.02, "b": 0.08})
    assert total.value(total.error(2.3)) == pytest.approx(2.3)
    assert replace(total, rate=True).error(1.0) == pytest.approx(math.log(2))


def test_designs_that_miss_a_constraint_after_a_result_are_not_recommended(found):
    """A step that is so much longer that the deadline is missed: the design with the shorter one is left."""
    from railyard.ask.plan.objectives import Constraint

    first, second = found.planned.choices[:2]
    limit = max(first.figures["step"], second.figures["step"]) * 1.01
    bound = replace(found.planned, constraints=(Constraint("at_most.step", "step", limit),))
    moved = {"collectives on roce": np.array([0.0, 0.1])}
    assert best(bound, moved).tolist() == [0, 1]
    assert best(found.planned, {"collectives on roce": np.array([0.01])}).tolist() == [0]


def test_a_service_is_run_by_one_replica_of_each_pool_at_its_part_of_the_rate():
    served = {
        "model": "llama-3-8b",
        "requests": {"synthetic": {"rate": 15, "input": 900, "output": 130, "count": 150}},
        "pools": {"prefill": {"tp": 4, "replicas": 2}, "decode": {"tp": 4}},
    }
    draft = load.from_values({**PLAN, "workload": {"serving": served}})
    words = pilot._vllm(draft.scenario.serving, 2).split(" & ")
    assert words[:2] == ["vllm serve llama-3-8b --tensor-parallel-size 4"] * 2
    assert words[2].endswith("--random-input-len 900 --random-output-len 130 --request-rate 7.5")


# Plans under faults: designs whose job dies are listed, and chosen only where every job dies.

FAULTS_PLAN = {
    "name": "planned",
    "cluster": {
        "accelerators": 32,
        "server": "hgx-h100",
        "back_end": {"topology": {"kind": "leaf-spine", "ports_per_leaf": 8}, "fabric": "uec"},
    },
    "workload": {
        "training": {
            "model": "llama-3.2-1b",
            "tokens": "20 B",
            "global_batch": 32,
            "sequence": 2048,
            "parallelism": {"tp": 1, "zero": 3, "micro_batch": 1, "recompute": "none"},
        }
    },
    "faults": [{"kind": "switch-down", "switch": "spine 0", "at": "1 ms"}],
}
SPINES = "cluster.back_end.topology.spines"


def answer(spines, **effort):
    section = {"space": {SPINES: spines}, "objectives": ["cpmt"], "effort": {"layouts": 0, "draws": 100, **effort}}
    return plan(load.from_values({**FAULTS_PLAN, "plan": section})).answer


@pytest.mark.parametrize("flow", [0, 2])
def test_a_design_whose_job_dies_is_listed_and_not_chosen(flow):
    """30 s, 10 min, 1.32 d, 374 s and a quarter of an hour of work again."""
    found = answer([1, 4], flow=flow)
    assert [row.settings[SPINES] for row in (*found.front, *found.runners_up)] == [4]
    assert found.front[0].outcome == "finished"
    (dead,) = found.ended
    assert (dead.settings[SPINES], dead.fault) == (1, "switch-down: spine 0")
    assert dead.lost_s == pytest.approx(4.096e-6 * 2**20 * 7 + 600 + 1.3158 * 86_400 + 374 + 900, rel=1e-3)
    assert dead.value > found.front[0].objectives["cpmt"]


def test_where_every_job_dies_designs_are_ranked_with_what_they_lose():
    found = answer([1], flow=1)
    (row,) = found.front
    assert row.outcome == "died"
    assert [one.settings[SPINES] for one in found.ended] == [1]
