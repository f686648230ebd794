"""Progress of a plan: the part of its time that is over, on a clock that the test turns."""

from __future__ import annotations

import math

import pytest

from railyard.ask.trials import USUAL_S, Ahead


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
