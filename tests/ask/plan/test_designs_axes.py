"""Axes of a space: NICs of a server, storage, sites. Each is a key of a scenario; a point costs what its run does."""

from __future__ import annotations

import copy
import itertools
import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from railyard.ask.plan import evaluate
from railyard.ask.plan.build import DesignBench
from railyard.ask.plan.deployments import DeploymentSearch, gain, plan, search, to_json, why
from railyard.ask.plan.evaluate import sweep
from railyard.ask.plan.planned import begin
from railyard.ask.plan.planning import DesignPlanner
from railyard.ask.plan.space import one_design, space_of
from railyard.ask.plan.stages import DeploymentTrials, options
from railyard.ask.plan.uncertainty import Uncertainty
from railyard.catalog import load as catalog
from railyard.cluster.spec import overridden
from railyard.face.cli import guard
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.work.scenario import load
from railyard.work.study import study
from railyard.work.study.folder import Journal
from railyard.work.study.study import run as execute
from railyard.work.study.workers import Local

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.work.scenario.load import Draft

STORE = "nvme-file-server"
BASE: dict[str, Any] = {
    "name": "p",
    "cluster": {
        **{"accelerators": 32, "server": "hgx-h100", "front_end": {}},
        "back_end": {"topology": "leaf-spine", "fabric": "roce"},
    },
    "workload": {
        "training": {
            **{"model": "llama-3-8b", "global_batch": 32, "sequence": 4096, "tokens": "1 T"},
            "parallelism": {"tp": 2, "pp": 1},
        }
    },
    "economics": {
        "electricity": "$0.09/kWh",
        "sites": {
            "north": {"electricity": "$0.05/kWh", "pue": 1.1, "grid": "Norway"},
            "south": {"pue": 1.4, "space": "$250/kW-month", "grid": "Poland"},
        },
    },
}
SPACE = {"nics": [3, 8], "site": ["north", "south"], "storage": [None, {"name": STORE, "servers": 3}]}


def values(space: dict[str, Any] | None = None, **section: Any) -> dict[str, Any]:
    return {**copy.deepcopy(BASE), "plan": {"space": space or SPACE, **section}}


def closed(space, points):
    found = {one.point: one for one in sweep(DesignBench(space), [(point, 0) for point in points], frozenset())}
    assert not [one.error for one in found.values() if one.error]
    return [found[point] for point in points]


@pytest.mark.parametrize("point", range(8))
def test_a_point_is_the_closed_form_of_its_own_scenario(point):
    space = space_of(load.from_values(values()))
    mine = closed(space, range(8))[point]
    (alone,) = closed(one_design(space.draft(point, 0)), [0])
    assert (mine.step_s, dict(mine.figures)) == (alone.step_s, dict(alone.figures))


@pytest.mark.parametrize("point", [1, 6])
def test_a_point_costs_what_its_run_does(point):
    """3 NICs at the north site with storage, 8 at the south site without."""
    space = space_of(load.from_values(values()))
    (outcome,) = closed(space, [point])
    task = {"plan": {"digest": f"axes-{point}", "values": values(), "folder": "."}}
    ran = evaluate.ran({**task, "point": point, "demand": 0, "engine": "flow", "layout": outcome.layouts[0]})
    run = study.run(space.draft(point, 0)).result.variants[0]
    assert ran["step_s"] == pytest.approx(run.step.seconds, rel=1e-9)
    assert ran["figures"]["cpmt"] == pytest.approx(run.cpmt.typical, rel=1e-9)
    assert ran["figures"]["capex"] == pytest.approx(run.capex.total_usd.typical, rel=1e-9)
    assert ran["figures"]["power"] == pytest.approx(run.power.total_w.typical, rel=1e-9)
    assert outcome.figures["capex"] == pytest.approx(ran["figures"]["capex"], rel=1e-12)
    assert outcome.step_s == pytest.approx(ran["step_s"], rel=0.05)
    # Norway 30.7 g and Poland 661.9 g a kWh, 3.6 MJ each.
    grams = 661.9 if point == 6 else space_grid(space, point)
    joules = ran["figures"]["power"] / ran["figures"]["tokens_per_s"]
    assert ran["figures"]["carbon"] == pytest.approx(joules / 3.6e6 * grams * 1e6, rel=1e-9)


def space_grid(space, point):
    return DesignBench(space).design(point).assumptions.grid.g_per_kwh


def test_servers_have_as_many_nics_as_the_space_says():
    space = space_of(load.from_values(values({"nics": [3, 8, 16]})))
    for point, nics in enumerate((3, 8, 16)):
        hardware = DesignBench(space).hardware(point)
        (row,) = (row for row in hardware.parts if row.name == "cx7-400g")
        assert row.count == 4 * nics
        assert hardware.cluster.plans["back_end"].nics == nics
    assert DesignBench(space).hardware(0).cluster.back_end.port_of_rank[:8, 0].tolist() == [0, 0, 0, 1, 1, 1, 2, 2]


@pytest.mark.parametrize("nics", [1, 2, 3, 4, 5, 8])
def test_ranks_that_share_a_nic_wait_for_one_another_as_flow_has_it(nics):
    """Of 5 NICs one serves two accelerators, as of 4: the busiest says how long it takes."""
    given = values({"nics": [nics]})
    (outcome,) = closed(space_of(load.from_values(given)), [0])
    task = {"plan": {"digest": f"shared-{nics}", "values": given, "folder": "."}}
    ran = evaluate.ran({**task, "point": 0, "demand": 0, "engine": "flow", "layout": outcome.layouts[0]})
    assert outcome.step_s == pytest.approx(ran["step_s"], rel=0.02)


def test_fewer_nics_lie_in_both_memory_domains():
    entry = catalog().server("hgx-h100")
    found = {nics: overridden(entry, {"nics": nics}, "server").nic_numa for nics in (2, 3, 8, 10)}
    assert found == {2: (0, 1), 3: (0, 0, 1), 8: (0, 0, 0, 0, 1, 1, 1, 1), 10: (0, 0, 0, 0, 0, 1, 1, 1, 1, 1)}


def test_what_a_site_does_not_say_is_as_elsewhere():
    space = space_of(load.from_values(values({"site": ["north", "south"]})))
    north, south = (DesignBench(space).design(point).assumptions for point in (0, 1))
    assert (north.electricity_usd_per_kwh.typical, south.electricity_usd_per_kwh.typical) == (0.05, 0.09)
    assert (north.pue.typical, south.pue.typical) == (1.1, 1.4)
    assert south.space_usd_per_kw_month.typical == 250.0
    assert (north.site, north.grid.name, south.grid.name) == ("north", "Norway", "Poland")


def finished(given: dict[str, Any]):
    begun, section = begin(load.from_values(given))
    return DesignPlanner.of(load.from_values(given), begun, section, Local(1), Journal(None)).run()


def test_sites_keep_their_prices_in_every_draw():
    """A band at one site is not drawn for the other, and what only one site leaves open moves it alone."""
    given = values({"site": ["north", "south"]}, objectives=["cpmt", "carbon"], effort={"flow": 0, "draws": 200})
    given["economics"]["sites"]["north"]["electricity"] = {
        **{"low": "$0.04/kWh", "typical": "$0.05/kWh", "high": "$0.06/kWh"}
    }
    found = finished(given)
    assert [choice.name for choice in found.choices] == ["site north", "site south"]
    names = Uncertainty.of(found.choices, (0.0, 0.0)).factors
    assert names["electricity at north"].high == 0.06
    assert "electricity at south" not in names
    assert "electricity" not in names
    assert "space at north" in names  # the catalogue's band; the south site's is a price
    assert "space at south" not in names
    bands = found.sure.bands["cpmt"]
    assert bands[0, 1] < bands[1, 1]
    assert found.sure.best["carbon"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("software", "low", "high"), [("megatron-2025", -0.0751, 0.1265), (None, -0.0388, 0.4624)])
def test_a_step_errs_more_where_its_software_is_not_named(software, low, high):
    """As in a run, by `measure/model_error`: dense, 16 bits; whether published runs said what they ran or not."""
    given = values({"site": ["north", "south"]}, effort={"flow": 0, "draws": 100})
    if software is not None:
        given["workload"]["training"]["software"] = {"profile": software}
    found = finished(given)
    factor = next(one for name, one in Uncertainty.of(found.choices, (0.0, 0.0)).factors.items() if "step of" in name)
    assert (math.expm1(factor.low), math.expm1(factor.high)) == pytest.approx((low, high), rel=1e-3)


def test_carbon_needs_a_grid_at_every_site():
    given = values({"site": ["north", "south"]}, objectives=["cpmt", "carbon"])
    begin(load.from_values(given))
    del given["economics"]["sites"]["south"]["grid"]
    with pytest.raises(InputError, match="no engine gives `carbon` without a grid"):
        begin(load.from_values(given))
    given["economics"]["grid"] = "France"
    begin(load.from_values(given))


def late(tmp_path, delivery: dict[str, str] | None = None, **constraints: str):
    """Switches of Broadcom 140 days after the order by the catalogue, NVIDIA's 20, servers 60."""
    parts = tmp_path / "parts.yaml"
    lead = "{{value: {} d, source: a quotation, year: 2026, confidence: vendor}}"
    rows = [("switches", "tomahawk-5", 140), ("switches", "quantum-2-qm9700", 20), ("servers", "hgx-h100", 60)]
    text: dict[str, str] = {}
    for kind, name, days in rows:
        text[kind] = text.get(kind, f"{kind}:\n") + f"  {name}: {{lead_time: {lead.format(days)}}}\n"
    parts.write_text("".join(text.values()), encoding="utf-8")
    more = {"effort": {"flow": 0, "draws": 100}, "objectives": ["cpmt", "delivery"]}
    given = values({"fabric": ["roce", "infiniband"]}, **more)
    given["plan"] |= {"delivery": delivery or {}, "constraints": constraints}
    del given["cluster"]["front_end"]
    return {**given, "catalog": str(parts)}


def test_lead_times_of_the_catalogue_bound_deliveries(tmp_path):
    found = finished(late(tmp_path))
    days = {choice.name: choice.figures["delivery"] / 86400 for choice in found.choices}
    assert days == {"roce": 140.0, "infiniband": 60.0}
    assert [choice.name for choice in finished(late(tmp_path, delivered="61 d")).choices] == ["infiniband"]
    with pytest.raises(InputError, match=r"no design keeps `delivered`: delivery is at least 60\.0 days"):
        finished(late(tmp_path, delivered="59 d"))


def test_what_the_plan_says_of_a_part_holds(tmp_path):
    found = finished(late(tmp_path, delivery={"tomahawk-5": "30 d", "hgx-h100": "45 d"}))
    assert {choice.name: choice.figures["delivery"] / 86400 for choice in found.choices} == {
        **{"roce": 45.0, "infiniband": 45.0}
    }
    found = finished(late(tmp_path, delivery={"Broadcom": "200 d"}))
    assert max(choice.figures["delivery"] for choice in found.choices) == 200 * 86400.0


# The planner against looking at everything, and against its own bounds.

ASKED = {"rate": 8, "input": {"mean": 1500, "p99": 6000}, "output": {"mean": 100, "p99": 300}, "count": 60}


def draft(choices: dict[str, Any], slo: dict[str, Any], **further: Any) -> Draft:
    stages = {
        "rank": {"kind": "rerank", "model": "bge-m3", "server": "l40s-8", "tokens": 300, "items": 10},
        "answer": {"kind": "model", "model": "llama-3-8b", "pools": {"both": {"replicas": 1}}},
    }
    pipeline = {"requests": {"synthetic": ASKED}, "stages": stages, "slo": slo}
    return load.from_values(
        {
            "name": "p",
            "cluster": {"accelerators": 128, "server": "hgx-h100"},
            "workload": {"pipeline": pipeline},
            "plan": {"stages": choices, **further},
        }
    )


SMALL = {
    "rank": {"servers": ["cpu-xeon-8592", "l40s-8"], "most": 1},
    "answer": {"servers": ["hgx-h100", "l40s-8"], "layouts": ["together", "apart"], "most": 2},
}


def searched(found: Draft) -> tuple[DeploymentTrials, DeploymentSearch]:
    trials = DeploymentTrials(found)
    requests = trials.job([(one[0], (1,) * len(one[0].pools)) for one in options(found.scenario).values()]).requests
    tokens = float(requests.input_tokens.sum() + requests.output_tokens.sum()) / requests.duration_s * 3600
    return trials, search(trials, options(found.scenario), tokens_per_h=tokens, most=2000, report=lambda *_: None)


@pytest.mark.parametrize("slo", [{"ttft": "500 ms", "tpot": "20 ms"}])
def test_nothing_that_looking_at_everything_finds_is_cheaper(slo: dict[str, str]) -> None:
    whole = draft(SMALL, slo)
    _, found = searched(whole)
    trials, target = DeploymentTrials(whole), whole.scenario.pipeline.slo.attainment
    scores = []
    for picked in itertools.product(*options(whole.scenario).values()):
        counts = [itertools.product(range(1, option.most + 1), repeat=len(option.pools)) for option in picked]
        for replicas in itertools.product(*counts):
            trial = trials.full_trial(tuple(zip(picked, replicas, strict=True)))
            if trial.attainment >= target:
                scores.append(trial.score)
    assert found.proven
    assert found.best is not None
    assert found.best.trial.score == pytest.approx(min(scores), rel=1e-12)


def test_no_deployment_beats_its_bound() -> None:
    trials, found = searched(draft(SMALL, {"ttft": "1 s", "tpot": "60 ms"}))
    assert found.plans
    for one in [*found.plans, *found.missed]:
        for option, replicas in one.choice:
            assert one.trial.score >= found.bounds[option]
            assert all(count >= least for count, least in zip(replicas, trials.alone(option).least, strict=True))


def test_every_option_has_its_reason_and_the_plan_is_the_same_again() -> None:
    whole = draft(SMALL, {"ttft": "1 s", "tpot": "60 ms"}, link_rates=["5 Gb/s", "400 Gb/s"])
    planned = plan(whole, lambda *_: None)
    rows = [row for name in planned.stages for row in why(planned, name)]
    assert len(rows) == sum(len(listed) for listed in planned.stages.values())
    assert all(row.verdict for row in rows)
    assert [row.stage for row in rows if row.verdict == "chosen"] == ["rank", "answer"]
    assert json.dumps(to_json(planned)) == json.dumps(to_json(plan(whole, lambda *_: None)))
    slow, fast = (gain(row) for row in planned.rates)
    assert slow is None or (fast is not None and slow <= fast + 0.02)


def test_what_is_written_runs_with_the_figures_of_the_plan(tmp_path: Path) -> None:
    planned = plan(draft(SMALL, {"ttft": "1 s", "tpot": "60 ms"}), lambda *_: None)
    path = tmp_path / "best.yaml"
    path.write_text(planned.best_yaml, encoding="utf-8")
    again = execute(load.load(path)).result.plain()["variants"][0]["serving"]
    assert again["cpmt"] == planned.full[0].serving.cpmt.plain()
    assert again["slo"]["attainment"] == pytest.approx(planned.found.best.trial.attainment if planned.found.best else 0)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"anser": {}}, "did you mean"),
        ({"rank": {"layouts": ["apart"]}}, "only models have layouts"),
        ({"rank": {"speculative": [None]}}, "only models use speculative decoding"),
        ({"answer": {"servers": ["hgx-h100"], "tp": [3]}}, "has no possible option"),
    ],
)
def test_a_wrong_plan_is_refused(choices: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan(draft(choices, {"ttft": "1 ms"} if "answer" in choices else {"ttft": "1 s"}), lambda *_: None)


def test_a_scenario_without_a_plan_is_refused() -> None:
    values = load.dump(draft({}, {"ttft": "1 s"}).scenario)
    del values["plan"]
    with pytest.raises(InputError, match="nothing to plan"):
        plan(load.from_values(values), lambda *_: None)


def test_the_command_prints_plans_and_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(yaml.to_text(load.dump(draft(SMALL, {"ttft": "1 s", "tpot": "60 ms"}).scenario)), encoding="utf-8")
    assert guard.run(["plan", "serving", str(path), "--details", "--write", str(tmp_path / "best.yaml")]) == 0
    reported = capsys.readouterr().out
    assert reported.startswith("Deploy ")
    assert "chosen" in reported
    assert "trials" in reported
    assert (tmp_path / "best.yaml").is_file()
    assert guard.run(["plan", "serving", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["proven"]
