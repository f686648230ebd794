"""Regret by hand: three choices, two futures with odds of 3 to 1; the largest chooses another than the expected."""

from __future__ import annotations

import numpy as np
import pytest
from tests.plan.test_designs_plan import planned as finished
from tests.plan.test_designs_plan import values

from railyard.ask.plan import confidence, judgement
from railyard.ask.plan import objectives as regret
from railyard.ask.plan.objectives import OBJECTIVES, measured_by
from railyard.ask.plan.outcome import DesignOutcome
from railyard.ask.plan.planned import begin
from railyard.ask.plan.uncertainty import DesignWorth
from railyard.work.scenario import load

COSTS = {0: (1.0, 4.0), 1: (2.0, 2.0), 2: (1.2, 3.0)}
SHARES = (0.75, 0.25)


def test_by_hand():
    late = regret.relative(list(COSTS.values()))
    assert late == pytest.approx(np.array([[0.0, 1.0], [1.0, 0.0], [0.2, 0.5]]))
    assert regret.excess(list(COSTS.values())) == pytest.approx(np.array([[0.0, 2.0], [1.0, 0.0], [0.2, 1.0]]))
    assert regret.largest(late).tolist() == pytest.approx([1.0, 1.0, 0.5])
    assert regret.expected(late, SHARES).tolist() == pytest.approx([0.25, 0.75, 0.275])


def begun(objectives: list[str]):
    demand = [{"name": "a", "weight": 3}, {"name": "b", "set": {"model": "llama-2-13b"}}]
    section = {"space": {"fabric": ["roce", "uec", "infiniband"]}, "demand": demand, "objectives": objectives}
    found = begin(load.from_values(values(**section)))[0]
    for point, costs in COSTS.items():
        for number, cost in enumerate(costs):
            figures = {"cpmt": cost, "tokens_per_s": 60.0 / cost, "capex": 5.0}
            found.outcomes[point, number, "analytic"] = DesignOutcome(
                point, number, "analytic", step_s=1.0, figures=figures
            )
    found.points = sorted(COSTS)
    judgement.judge(found)
    return found


@pytest.mark.parametrize(
    ("objectives", "best", "value"),
    [
        (["regret", "cpmt"], 2, 0.5),
        (["expected_regret", "cpmt"], 0, 0.25),
        (["regret"], 2, 0.5),  # of dollars per token where nothing else is asked for
        # Pace is 60, 15; 30, 30; 50, 20 and the most wins: 0 and 1/2; 1/2 and 0; 1/6 and 1/3.
        (["regret", "tokens_per_s"], 2, 1 / 3),
    ],
)
def test_plans_rank_by_it(objectives, best, value):
    found = begun(objectives)
    table = judgement.values(found, found.points)
    assert int(np.argmin(table[:, 0])) == best
    assert table[best, 0] == pytest.approx(value)


def test_what_constraints_cost_is_in_what_regret_is_measured_by():
    found = begun(["regret", "capex"])
    assert measured_by(found.objectives).name == "capex"
    assert judgement.looked(found, 1).value == 5.0
    assert judgement.looked(begun(["regret"]), 1).value == pytest.approx(2.0)


def test_draws_compare_designs_within_each_draw(monkeypatch):
    """Two draws: in the second all costs of the second future are halved, so that the first choice regrets less."""
    costs = np.array([[[1.0, 1.0], [4.0, 2.0]], [[2.0, 2.0], [2.0, 1.8]], [[1.2, 1.2], [3.0, 1.9]]])
    rows = {
        at: DesignWorth({"cpmt": np.tensordot(SHARES, each, 1)}, [{"cpmt": future} for future in each])
        for at, each in enumerate(costs)
    }
    monkeypatch.setattr(confidence, "worth", lambda choice, *_more: rows[choice])
    what = (OBJECTIVES["regret"], OBJECTIVES["expected_regret"])
    found = confidence.compared([0, 1, 2], {}, what, SHARES)
    assert [row["regret"].tolist() for row in found] == [
        pytest.approx([1.0, 2.0 / 1.8 - 1]),
        pytest.approx([1.0, 1.0]),
        pytest.approx([0.5, 0.2]),
    ]
    assert found[0]["expected_regret"].tolist() == pytest.approx([0.25, 0.25 * (2.0 / 1.8 - 1)])


def test_a_whole_plan_by_expected_regret():
    demand = [{"name": "a"}, {"name": "b", "weight": 2, "set": {"model": "llama-2-13b"}}]
    section = {"space": {"fabric": ["roce", "infiniband"]}, "effort": {"flow": 0, "draws": 200}}
    found = finished(load.from_values(values(**section, demand=demand, objectives=["expected_regret", "cpmt"])))
    rows = {choice.point: [row["cpmt"] for row in found.rows(choice.point)] for choice in found.choices}
    least = [min(row[demand] for row in rows.values()) for demand in (0, 1)]
    for choice in found.choices:
        late = [cost / best - 1 for cost, best in zip(rows[choice.point], least, strict=True)]
        assert choice.figures["expected_regret"] == pytest.approx(late[0] / 3 + 2 * late[1] / 3, abs=1e-12)
    assert sum(found.sure.best["expected_regret"]) == pytest.approx(1.0)
    assert found.sure.bands["expected_regret"][1, 2] > 0.0
    assert found.sure.tornado
