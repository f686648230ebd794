"""Keys and values of a space that no scenario has are refused before anything is computed."""

from __future__ import annotations

from railyard.ask.plan.planned import begin
from railyard.work.scenario import load

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
