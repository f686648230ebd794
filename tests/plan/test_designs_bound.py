"""A network that blocks nothing is no product: it is not chosen, and says what is left to gain."""

from __future__ import annotations

import pytest
from tests.plan.test_designs_plan import plain, planned, values

from railyard.ask.plan import judgement
from railyard.work.scenario import load

SPACE = {"fabric": ["roce", "ideal", "uec"], "oversubscription": ["1:1", "4:1"]}


def finished(**section):
    section = {"space": SPACE, "effort": {"flow": 2, "rivals": 0, "draws": 100, "layouts": 0}, **section}
    return planned(load.from_values(values(**section)))


def test_a_bound_is_not_chosen_and_says_what_is_left_to_gain():
    found = finished()
    answer = plain(found)
    assert all("ideal" not in choice.name for choice in found.choices)
    assert all("ideal" not in point["name"] for point in answer["points"])
    assert not any("ideal" in (row["best_low"] + row["best_high"]) for row in answer["tornado"])
    bound = answer["bound"]
    assert (bound["variant"].split(",")[0], bound["engine"], bound["objective"]) == ("ideal", "flow", "cpmt")
    best = answer["front"][0]["objectives"]["cpmt"]
    assert bound["ahead"] == pytest.approx((best - bound["value"]) / best)
    assert sum(engine == "flow" for _, _, engine in found.outcomes) == 3  # two products, and the bound


def test_a_space_of_bounds_alone_is_ranked():
    found = finished(space={"fabric": ["ideal"], "oversubscription": ["1:1", "4:1"]})
    assert {choice.name for choice in found.choices} == {"ideal, oversubscription 1:1", "ideal, oversubscription 4:1"}
    assert plain(found)["bound"] is None


def test_nobody_regrets_not_having_what_cannot_be_bought():
    demand = [{"name": "a"}, {"name": "b", "set": {"model": "llama-2-13b"}}]
    found = finished(demand=demand, objectives=["regret", "cpmt"], effort={"flow": 0, "draws": 100})
    bounds = [point for point in found.points if judgement.is_bound(found, point)]
    assert len(bounds) == 2
    assert not set(bounds) & set(found.regret)
    assert min(row["regret"] for row in found.regret.values()) == 0.0


def test_without_bounds_there_is_none():
    assert plain(finished(space={"fabric": ["roce", "uec"]}))["bound"] is None
