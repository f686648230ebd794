"""Plans under faults: designs whose job dies are listed, and chosen only where every job dies."""

from __future__ import annotations

import pytest

from railyard.ask.plan.study import plan
from railyard.work.scenario import load

PLAN = {
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
    return plan(load.from_values({**PLAN, "plan": section})).answer


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
