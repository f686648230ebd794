"""Keys and values of a space that no scenario has are refused before anything is computed."""

from __future__ import annotations

import pytest

from railyard.ask.plan.planned import begin
from railyard.kit.errors import InputError
from railyard.work.scenario import load

PLAN = {
    "name": "p",
    "cluster": {"accelerators": 64, "server": "hgx-h100", "back_end": {"topology": "leaf-spine", "fabric": "roce"}},
    "workload": {"training": {"model": "llama-3-8b", "global_batch": 64, "sequence": 4096, "tokens": "1 T"}},
}


def begun(**space):
    return begin(load.from_values({**PLAN, "plan": {"space": space, "objectives": ["cpmt"]}}))[0].space


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"fabricc": ["roce", "uec"]}, "unknown key `fabricc`; did you mean `fabric`"),
        ({"accelerators": {"from": 8, "too": 64, "step": 8}}, "allowed: factor, from, step, to"),
        ({"oversubscription": ["1:1"], "fabric": ["roce", "uce"]}, "did you mean `uec`"),
        ({"server": ["hgx-h100", "hgx-h10"]}, "did you mean `hgx-h100`"),
        ({"model": ["llama-3-9b"]}, "no model `llama-3-9b`"),
        ({"topology": ["leafspine"], "fabric": ["roce", "uec"]}, "did you mean `leaf-spine`"),
        ({"parallelism": [{"tp": 2}, {"tpp": 4}]}, "did you mean `tp`"),
        ({"oversubscription": ["1:1", "4-1"]}, "unknown unit"),
    ],
)
def test_what_is_misspelt_is_refused_with_the_right_word(space, words):
    with pytest.raises(InputError) as found:
        begun(**space)
    assert words in str(found.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"modell": "llama-3-8b"}, "unknown key `modell`; did you mean `model`"),
        ({"model": "llama-3-9b"}, "no model `llama-3-9b`"),
        ({"fabric": "uec"}, "the demand `a` sets `fabric`, which the space chooses"),
    ],
)
def test_a_demand_is_read_before_anything_is_computed(given, words):
    plan = {"space": {"fabric": ["roce", "uec"]}, "demand": [{"name": "a", "set": given}]}
    with pytest.raises(InputError) as found:
        begin(load.from_values({**PLAN, "plan": plan}))
    assert words in str(found.value)


def test_what_some_neighbours_do_not_have_stays():
    """A dragonfly has no oversubscription: that pair is a design that cannot be, the key is none that nobody has."""
    space = begun(topology=["dragonfly", "leaf-spine"], oversubscription=["1:1", "2:1"])
    assert space.size == 4
    assert begun(accelerators={"from": 8, "to": 400, "step": 8}).size == 50
