"""The planner against looking at everything, and against its own bounds."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from railyard.ask.plan.deployments import DeploymentSearch, gain, plan, search, to_json, why
from railyard.ask.plan.stages import DeploymentTrials, options
from railyard.face.words import plan as command
from railyard.kit.errors import InputError
from railyard.kit.schema import yaml
from railyard.work.scenario import load
from railyard.work.study.study import run as execute

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.work.scenario.load import Draft

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
        ({"answer": {"servers": ["hgx-h100"], "tp": [3]}}, "can be none of what the plan names"),
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
    command.serving(path, sets=[], write=tmp_path / "best.yaml", as_json=False, quiet=False)
    reported = capsys.readouterr().out
    assert "chosen" in reported
    assert "trials" in reported
    assert (tmp_path / "best.yaml").is_file()
    command.serving(path, sets=[], write=None, as_json=True, quiet=True)
    assert json.loads(capsys.readouterr().out)["plan"]["proven"]
