"""Spaces: what points they have, and which are refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ask.plan.test_designs_plan import plain, planned, values

from railyard.ask.plan import judgement
from railyard.ask.plan.planned import begin
from railyard.ask.plan.space import space_of
from railyard.ask.trials import USUAL_S, Ahead
from railyard.kit.errors import InputError
from railyard.work.scenario import load


def draft(**plan: Any):
    return load.from_values(
        {
            "name": "p",
            "cluster": {"accelerators": 64, "server": "hgx-h100"},
            "workload": {
                "training": {
                    "model": "llama-3-8b",
                    "global_batch": 64,
                    "sequence": 4096,
                    "tokens": "1 T",
                    "parallelism": {"tp": 1},
                }
            },
            "plan": plan,
        }
    )


def test_points_are_all_combinations_in_order_of_the_keys():
    space = space_of(draft(space={"fabric": ["roce", "uec"], "accelerators": [64, 128, 192]}))
    assert space.size == 6
    assert [space.place(point) for point in (0, 1, 5)] == [(0, 0), (0, 1), (1, 2)]
    assert space.settings(4) == {"fabric": "uec", "accelerators": 128}
    assert space.name(4) == "uec, accelerators 128"


def test_what_lies_below_another_key_is_set_after_it():
    space = space_of(draft(space={"oversubscription": ["4:1"], "topology": ["leaf-spine", "three-tier"]}))
    written = space.draft(1, 0).scenario.cluster.back_end.topology
    assert (written.kind, written.oversubscription) == ("three-tier", 4.0)


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ({"from": 32, "to": 96, "step": 32}, [32, 64, 96]),
        ({"from": 32, "to": 300, "factor": 3}, [32, 96, 288]),
        ({"from": "100 Gb/s", "to": "400 Gb/s", "factor": 2}, ["100 Gb/s", "200 Gb/s", "400 Gb/s"]),
        ({"from": "$0.05/kWh", "to": "$0.15/kWh", "step": "$0.05/kWh"}, ["$0.05/kWh", "$0.1/kWh", "$0.15/kWh"]),
        ({"from": 0.1, "to": 0.3, "step": 0.1}, [0.1, 0.2, 0.3]),
    ],
)
def test_ranges_are_written_out_with_their_unit(written, values):
    space = space_of(draft(space={"accelerators": written}))
    assert [node.plain() for node in space.values[0]] == values


@given(st.integers(1, 50), st.integers(0, 200), st.integers(1, 40))
def test_a_range_of_steps_is_pythons(low, more, step):
    space = space_of(draft(space={"accelerators": {"from": low, "to": low + more, "step": step}}))
    assert [node.plain() for node in space.values[0]] == list(range(low, low + more + 1, step))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"space": {}}, "the space is empty"),
        ({"space": {"fabric": []}}, "there are no values"),
        ({"space": {"fabric": ["roce", "roce"]}}, "appears twice"),
        ({"space": {"fabric": ["roce"], "cluster.back_end.fabric": ["uec"]}}, "are the same key"),
        ({"space": {"accelerators": {"from": 8, "factor": 2}}}, "the range is endless: it has no `to`"),
        ({"space": {"accelerators": {"from": 8, "to": float("inf"), "step": 8}}}, "expected a finite number, got inf"),
        ({"space": {"accelerators": {"from": 8, "to": "1e400", "step": 8}}}, "endless: both ends"),
        ({"space": {"accelerators": {"from": 8, "to": 64, "step": 0}}}, "endless: its step"),
        ({"space": {"accelerators": {"from": 8, "to": 64, "factor": 1}}}, "endless: its factor"),
        ({"space": {"accelerators": {"from": 8, "to": 64}}}, "either a `step` or a `factor`"),
        ({"space": {"accelerators": {"from": 64, "to": 8, "step": 8}}}, "from the smaller"),
        ({"space": {"link_rate": {"from": "100 Gb/s", "to": "50 GB/s", "factor": 2}}}, "one unit"),
        ({"space": {"accelerators": {"from": 1, "to": 10**6, "step": 1}}}, "1,000,000 values"),
        ({"space": {"accelerators": "64"}}, "expected a list"),
        ({"space": {"fabric": ["roce"]}, "demand": [{"name": "a"}, {"name": "a"}]}, "the same name"),
        ({"space": {"fabric": ["roce"]}, "objectives": ["ttft"]}, "it is a figure of serving"),
        ({"space": {"fabric": ["roce"]}, "objectives": ["cmpt"]}, "did you mean `cpmt`"),
        ({"space": {"fabric": ["roce"]}, "objectives": ["regret"]}, "compares demands"),
        ({"space": {"fabric": ["roce"]}, "constraints": {"exclude": ["Nvidea"]}}, "did you mean `NVIDIA`"),
        ({"space": {"fabric": ["roce"]}, "constraints": {"at_most": {"stp": 1.0}}}, "did you mean `step`"),
        (
            {"space": {"fabric": ["roce"]}, "constraints": {"at_most": {"mfu": 0.3}, "at_least": {"mfu": 0.4}}},
            "contradicts `at_most.mfu: 0.3`",
        ),
        ({"stages": {"a": {}}}, "railyard plan serving"),
        ({"space": {"seed": [1, 2]}}, "`seed` does not change the design"),
        ({"space": {"plan.effort.flow": [1, 2]}}, "`plan.effort.flow` does not change the design"),
    ],
)
def test_what_is_no_space_is_refused_with_its_key(plan, words):
    with pytest.raises(InputError) as error:
        begin(draft(**plan))
    assert words in str(error.value)


def test_a_job_without_end_is_never_done():
    one = draft(space={"fabric": ["roce"]}, objectives=["jct"])
    values = one.tree.plain()
    del values["workload"]["training"]["tokens"]
    with pytest.raises(InputError, match="no engine gives `jct` of a job without end"):
        begin(load.from_values(values))


def test_demands_take_the_place_of_what_is_written():
    space = space_of(
        draft(
            space={"fabric": ["roce"]},
            demand=[{"name": "small", "weight": 3}, {"name": "large", "set": {"model": "llama-3-70b"}}],
        )
    )
    assert [one.share for one in space.demands] == [0.75, 0.25]
    assert [space.draft(0, demand).scenario.training.model for demand in (0, 1)] == ["llama-3-8b", "llama-3-70b"]


# Progress of a plan: the part of its time that is over, on a clock that the test turns.


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_closed_form_is_not_all_of_a_plan():
    """Three tasks of 2 s, then four runs of 7 s that were taken for 5: 6 s of 26, then 13 of 34."""
    clock = Clock()
    ahead = Ahead([("closed form", 3), ("flow", 4)], clock)
    ahead.step()
    for _ in range(3):
        clock.now += 2.0
        ahead.ended("closed form")
    assert ahead.share(math.inf) == pytest.approx(6.0 / (6.0 + 4 * USUAL_S["flow"]))
    ahead.step()
    clock.now += 7.0
    ahead.ended("flow")
    assert ahead.share(math.inf) == pytest.approx(13.0 / (13.0 + 3 * 7.0))


def test_a_pace_that_was_seen_is_taken_for_the_next():
    clock = Clock()
    ahead = Ahead([("flow", 2), ("flow", 5)], clock)
    ahead.step()
    clock.now += 30.0
    ahead.ended("flow")
    assert ahead.share(math.inf) == pytest.approx(30.0 / (30.0 + 6 * 30.0))
    ahead.step()  # the other run of the first step is not made
    assert ahead.share(math.inf) == pytest.approx(30.0 / (30.0 + 5 * 30.0))


def test_it_never_goes_back_and_ends_when_the_time_is_spent():
    clock = Clock()
    ahead = Ahead([("packet", 3)], clock)
    ahead.step()
    clock.now += 15.0
    early = ahead.share(110.0 + 50.0)
    assert early == pytest.approx(15.0 / 60.0)
    clock.now += 45.0
    ahead.ended("packet")
    assert ahead.share(math.inf) == pytest.approx(60.0 / 180.0)
    clock.now += 0.1
    assert ahead.share(math.inf) >= 60.0 / 180.0
    assert ahead.share(100.0) < 1.0


# A network that blocks nothing is no product: it is not chosen, and says what is left to gain.

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
    assert {choice.name for choice in found.choices} == {"ideal, any oversubscription"}
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


# Keys and values of a space that no scenario has are refused before anything is computed.

PLAN = {
    "name": "p",
    "cluster": {"accelerators": 64, "server": "hgx-h100", "back_end": {"topology": "leaf-spine", "fabric": "roce"}},
    "workload": {"training": {"model": "llama-3-8b", "global_batch": 64, "sequence": 4096, "tokens": "1 T"}},
}


def begun(**space):
    return begin(load.from_values({**PLAN, "plan": {"space": space, "objectives": ["cpmt"]}}))[0].space


def test_what_some_neighbours_do_not_have_stays():
    """A dragonfly has no oversubscription: that pair is a design that cannot be, the key is none that nobody has."""
    space = begun(topology=["dragonfly", "leaf-spine"], oversubscription=["1:1", "2:1"])
    assert space.size == 4
    assert begun(accelerators={"from": 8, "to": 400, "step": 8}).size == 50
