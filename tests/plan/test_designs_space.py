"""Spaces: what points they have, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.ask.plan.planned import begin
from railyard.ask.plan.space import space_of
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
        ({"space": {"fabric": ["roce", "roce"]}}, "stands twice"),
        ({"space": {"fabric": ["roce"], "cluster.back_end.fabric": ["uec"]}}, "are the same key"),
        ({"space": {"accelerators": {"from": 8, "factor": 2}}}, "no end: the range has no `to`"),
        ({"space": {"accelerators": {"from": 8, "to": float("inf"), "step": 8}}}, "no end: both ends"),
        ({"space": {"accelerators": {"from": 8, "to": 64, "step": 0}}}, "no end: a step"),
        ({"space": {"accelerators": {"from": 8, "to": 64, "factor": 1}}}, "no end: a factor"),
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
        ({"space": {"seed": [1, 2]}}, "`seed` chooses no design"),
        ({"space": {"plan.effort.flow": [1, 2]}}, "`plan.effort.flow` chooses no design"),
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
