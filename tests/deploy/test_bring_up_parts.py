"""Parts that arrive by themselves: what can be built when, and which of them the first job waits for."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.ask.bring_up.racks import Lead, RackSite, arrivals, drawn
from railyard.ask.bring_up.study import study

from .scenarios import draft


def site():
    """A rack of switches, two of servers whose cables lead there, one of storage without cables."""
    return RackSite(
        servers=np.array([0, 4, 4, 0]),
        accelerators=8,
        cables=np.array([0, 30, 30, 0]),
        level=np.array([1, 0, 0, 0]),
        near=((), (0,), (0,), ()),
        far=((),) * 4,
        place=np.arange(4),
    )


def test_a_lead_is_lognormal_by_its_median_and_nine_in_ten():
    # ln(60/20)/1.28155 = 0.85725: one standard deviation is a factor of exp(0.85725) = 2.3567.
    lead = Lead("switches", 20.0, 60.0)
    assert lead.drawn_d(0.0) == 20.0
    assert lead.drawn_d(1.2815515655446004) == pytest.approx(60.0)
    assert lead.drawn_d(1.0) == pytest.approx(47.13, rel=1e-3)
    assert Lead("servers", 30.0, 30.0).drawn_d(2.0) == pytest.approx(30.0)
    assert Lead("servers", 0.0, 0.0).drawn_d(2.0) == 0.0


def test_draws_of_a_part_do_not_depend_on_the_others():
    both = drawn([Lead("switches", 20.0, 60.0), Lead("cables", 5.0, 9.0)], (1, 7))
    assert drawn([Lead("cables", 5.0, 9.0)], (1, 7))["cables"] == both["cables"]
    assert both["cables"] / 5.0 != both["switches"] / 20.0


def test_what_is_there_is_built_first():
    days = {"switches": 20.0, "servers": 3.0, "cables": 9.0}
    come = arrivals(site(), [0, 1, 2, 3], np.array([0.0, 0.0, 2.0, 0.0]), days)
    assert come.order == [3, 1, 2, 0]
    assert come.built_d.tolist() == [0.0, 9.0, 9.0, 20.0]
    # Servers stand idle from the day they came, not from that on which their cables did.
    assert come.there_d.tolist() == [0.0, 3.0, 3.0, 20.0]


def test_without_parts_nothing_changes():
    come = arrivals(site(), [2, 0, 3, 1], np.array([0.0, 1.0, 1.0, 4.0]), {})
    assert come.order == [2, 0, 3, 1]
    assert come.built_d.tolist() == come.there_d.tolist() == [0.0, 1.0, 1.0, 4.0]


def test_switches_that_come_a_month_late_hold_everything_up():
    late = {"draws": 4, "rejected": "0 %", "orders": ["network-first"]}
    one = draft(64).with_values({"bring_up": {**late, "parts": [{"part": "switches", "lead": "30 d"}]}}, "x")
    plain = draft(64).with_values({"bring_up": late}, "x")
    found, before = study(one, lambda *_: None), study(plain, lambda *_: None)
    (wait,) = found.parts
    assert wait.part == "switches"
    assert wait.critical == 1.0
    assert wait.arrives_d.typical == pytest.approx(30.0)
    gained = found.orders[0].first_job_d.typical - before.orders[0].first_job_d.typical
    assert wait.first_job_d.typical == pytest.approx(gained, abs=0.2)
    # Two racks of servers and one of switches meet four crews: only the switches are waited for.
    assert gained == pytest.approx(30.0, abs=0.5)
    # All of it stands idle for so many days more at the capital of a day.
    idle = found.orders[0].idle_usd.typical - before.orders[0].idle_usd.typical
    assert wait.idle_usd.typical == pytest.approx(idle, rel=0.02)
    assert idle == pytest.approx(gained * found.capital_usd_per_d, rel=0.02)
    assert before.parts == ()
