"""Bounds of comparisons under faults, by hand, and what breaks them."""

from __future__ import annotations

import pytest

from railyard_validation import faults
from railyard_validation.faults import compared, page


def hand(name, spines=2, bundle=4):
    """A step of 60 ms, of which a NIC needs 16."""
    return faults._Hand(name, 0.06, 0.016, spines, bundle)


def test_bounds_by_hand():
    """7 of 8 cables are 8/7 of the time, one of 4 at a quarter leaves 3.25; half of the spines is twice the time."""
    assert hand("uec", 1, 8).dead_cable().high == pytest.approx(0.06 * 8 / 7)
    assert hand("uec").slow_cable().high == pytest.approx(0.06 * 4 / 3.25)
    assert hand("spectrum-x").slow_cable().high == pytest.approx(0.24)
    assert hand("infiniband").dead_spine().high == pytest.approx(0.12)
    assert hand("roce").dead_spine().low == pytest.approx(0.032)
    assert hand("roce", spines=1).dead_spine().dies
    assert not hand("ideal", spines=1).dead_spine().dies
    assert hand("uec").slow_nic().low == pytest.approx(0.06)
    assert faults._Hand("uec", 0.04, 0.016, 2, 4).slow_nic().low == pytest.approx(0.016 / 0.3)
    assert hand("roce").dies(30.0, "").low == pytest.approx(30 + 600 + 1.3158 * 86_400 + 374 + 900)


def test_what_is_outside_is_told():
    """Two fabrics and the bound: one is faster than the crossbar, the dead one leads."""
    step = lambda seconds: {"samples": [seconds], "without_faults_s": 0.06}  # noqa: E731
    ideal = {"name": "ideal", "bound": True, "outcome": "finished", "step": step(0.07)}
    fast = {"name": "uec", "bound": False, "outcome": "finished", "step": step(0.065), "cpmt": {"typical": 2.0}}
    dead = {"name": "roce", "bound": False, "outcome": "died", "step": step(0.07), "cpmt": {"typical": 1.0}}
    verdict = {"leading": "roce", "ranking": ["roce", "uec"]}
    by_name = {one["name"]: one for one in (ideal, fast, dead)}
    bounds = hand("uec").slow_nic()
    assert list(faults._problems("slow NIC", fast, bounds, 0.0, ideal)) == [
        "its step is shorter than on a crossbar under the same fault"
    ]
    assert list(faults._problems("slow NIC", dead, bounds, 9.0, ideal)) == ["died"]
    assert list(faults._misplaced(dead, verdict, by_name)) == ["it leads, and its job dies"]
    assert list(faults._misplaced(fast, verdict, by_name)) == ["ranked behind roce"]


def test_a_slow_nic_is_inside_on_every_fabric():
    rows = compared("slow NIC", [96])
    assert [row.problems for row in rows] == [()] * 6
    assert {row.hit for row in rows} == {"1 of 96 nic"}
    assert "**6 of 6 rows are inside of their bounds.**" in page(rows)
