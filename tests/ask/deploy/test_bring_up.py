"""A cluster while it is built: closed forms of crews and chance, orders of racks, money that stands idle."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.ask.bring_up.racks import BuildPace, Lead, RackSite, arrivals, drawn, order_of, play, site_of
from railyard.ask.bring_up.study import BringUp, DrawSpread, delivered, earning, study
from railyard.face.cli import guard
from railyard.measure.cost.capital import capital_recovery_factor
from railyard.work.scenario import load

from .scenarios import draft, planned

EXAMPLE = Path(__file__).parents[3] / "examples" / "bring-up.yaml"


def site(racks, *, cables=30, servers=4, network=0):
    """Racks of servers, and as many of switches before them, which all of those need."""
    count = racks + network
    above = tuple(range(network))
    return RackSite(
        servers=np.array([0] * network + [servers] * racks),
        accelerators=8,
        cables=np.full(count, cables),
        level=np.array([1] * network + [0] * racks),
        near=tuple(() if rack < network else above for rack in range(count)),
        far=((),) * count,
        place=np.arange(count),
    )


def pace(**more):
    usual = {"crews": 1, "install_d": 0.5, "pulls": 60.0, "repair_d": 0.0625, "burn_in_d": 3.0, "replacement_d": 14.0}
    return BuildPace(**(usual | {"miscabling": 0.0, "rejected": 0.0, "audit": True} | more))


def played(one, how, seed=0, order=None, days=None):
    order = list(range(len(one))) if order is None else order
    days = np.zeros(len(one)) if days is None else np.array(days, float)
    return play(one, how, order, days, np.random.default_rng(seed))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 7), st.integers(0, 59))
def test_equal_racks_are_built_by_rounds_of_crews(racks, crews, cables):
    """Half a day and its cables each: the last is cabled after ceil(racks / crews) of them, and burns three days."""
    built = played(site(racks, cables=cables), pace(crews=crews))
    each = 0.5 + cables / 60
    assert built.ready_d.max() == pytest.approx(-(-racks // crews) * each + 3)
    assert np.sort(built.ready_d)[0] == pytest.approx(each + 3)
    assert built.crew_d == pytest.approx(racks * each)


def test_many_cables_are_shared_by_crews():
    """600 cables at 60 a day are ten lots: four crews take 3 rounds, of which the first sets the rack up: 3.5 days."""
    one = site(1, cables=600)
    assert played(one, pace()).ready_d[0] == pytest.approx(10.5 + 3)
    assert played(one, pace(crews=4)).ready_d[0] == pytest.approx(3.5 + 3, abs=0.51)


def test_wrong_cables_take_their_mean_time():
    """40 racks of 30 cables, 2 % wrong, a sixteenth of a day each: 24 wrong ones on average, 1.5 days of a crew."""
    draws = [played(site(40), pace(miscabling=0.02), seed) for seed in range(400)]
    assert np.mean([one.wrong for one in draws]) == pytest.approx(24, abs=4 * np.sqrt(24 / 400))
    assert np.mean([one.ready_d.max() for one in draws]) == pytest.approx(
        40 + 1.5 + 3, abs=4 * 0.0625 * np.sqrt(24 / 400)
    )


def test_without_an_audit_a_rack_passes_at_once_if_no_cable_is_wrong():
    """0.98^30 = 54.5 % of the racks; the others burn in twice, with a crew between."""
    count = 4000
    built = played(site(count), pace(miscabling=0.02, audit=False, crews=count))
    once = np.isclose(built.ready_d, 4.0)
    share = 0.98**30
    assert once.mean() == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / count))
    assert built.ready_d[~once].min() == pytest.approx(4 + 0.0625 + 3)


def test_servers_wait_for_the_switches_that_they_are_cabled_to():
    """Two racks of switches after three of servers: a day each, so that burn-in begins on day five."""
    one = site(3, network=2)
    assert played(one, pace(), order=[2, 3, 4, 0, 1]).ready_d[2:] == pytest.approx([8, 8, 8])
    assert played(one, pace(), order=[0, 1, 2, 3, 4]).ready_d[2:] == pytest.approx([6, 7, 8])


def test_wrong_cables_of_switches_show_when_burn_in_would_end():
    one = site(1, network=1)
    built = played(one, pace(miscabling=1.0, audit=False))
    assert built.ready_d[0] == pytest.approx(1 + 3 + 30 / 16)
    assert built.ready_d[1] > built.ready_d[0]


def test_servers_that_fail_are_replaced_and_burn_in_again():
    built = played(site(2), pace(rejected=1.0))
    assert built.replaced.tolist() == [4, 4]
    assert built.replaced_d == pytest.approx([4 + 14 + 3, 5 + 14 + 3])


def test_a_crew_waits_for_a_delivery_and_mends_meanwhile():
    """The first rack is cabled on day one and shows its thirty wrong cables on day four, before the second comes."""
    built = played(site(2), pace(miscabling=1.0, audit=False), days=[0, 20])
    assert built.ready_d[0] == pytest.approx(4 + 30 / 16 + 3)
    assert built.ready_d[1] == pytest.approx(21 + 3 + 30 / 16 + 3)


def test_idle_is_from_delivery_to_work():
    """Two racks of 32 accelerators, there from day 0 and 20, at work on days 4 and 24: 32 times 4 and 4 days."""
    one = site(2)
    built = played(one, pace(), days=[0, 20])
    assert earning(one, built, [0, 1], np.array([0.0, 20.0]), 32) == pytest.approx((4, 4, 24, 32 * 8))
    assert earning(one, built, [0, 1], np.array([0.0, 20.0]), 33) == pytest.approx((24, 4, 24, 32 * 8))


def test_deliveries_bring_all_racks():
    assert delivered(7, [(0.0, 0.6), (21.0, 0.3), (30.0, 0.1)]).tolist() == [0] * 5 + [21] * 2
    assert delivered(10, [(0.0, 0.6), (21.0, 0.3), (30.0, 0.1)]).tolist() == [0] * 6 + [21] * 3 + [30]


@pytest.mark.parametrize(("topology", "accelerators"), [("leaf-spine", 256), ("rail-optimized", 512), ("torus", 64)])
def test_every_order_has_every_rack_and_blocks_have_first_what_they_need(topology, accelerators):
    one = site_of(planned(draft(accelerators, topology, "roce", front_end={"topology": "leaf-spine"})))
    assert one.servers.sum() * one.accelerators == accelerators
    for name in ("blocks", "network-first", "rows", "servers-first"):
        assert sorted(order_of(one, name)) == list(range(len(one)))
    if topology != "torus":
        place = {rack: at for at, rack in enumerate(order_of(one, "blocks"))}
        assert all(place[needed] < place[rack] for rack in place for needed in (*one.near[rack], *one.far[rack]))
        assert order_of(one, "servers-first")[-1] in np.flatnonzero(one.servers == 0)


def test_the_study_compares_orders_and_measures_on_the_same_draws():
    found = study(load.load(EXAMPLE, ["bring_up.draws=20"]), lambda *_: None)
    assert isinstance(found, BringUp)
    assert (found.first_job, found.racks) == (256, 35)
    by_name = {one.order: one for one in found.orders}
    assert by_name["blocks"].first_job_d.typical < by_name["network-first"].first_job_d.typical
    assert by_name["network-first"].first_job_d.typical < by_name["servers-first"].first_job_d.typical
    assert len({one.wrong for one in found.orders}) == 1
    best, measures = found.orders[0], {one.change: one for one in found.measures}
    assert measures["twice the crews"].idle_usd.typical < best.idle_usd.typical
    assert measures["no cable audit"].idle_usd.typical > best.idle_usd.typical
    assert measures["servers checked before delivery"].replaced.high == 0
    assert measures["ten times as many wrong cables"].wrong.typical == pytest.approx(10 * 12.8, rel=0.15)


def test_capital_is_the_annuity_of_the_bill():
    """At 10 and 5 % over four years: as the capital recovery factors, 0.3155 and 0.2820."""

    def daily(interest):
        sets = ["bring_up.draws=1", "bring_up.orders=[rows]", "economics.life=4 years"]
        return study(load.load(EXAMPLE, [*sets, f"economics.cost_of_capital={interest}"]), lambda *_: None)

    ratio = daily("10 %").capital_usd_per_d / daily("5 %").capital_usd_per_d
    assert ratio == pytest.approx(capital_recovery_factor(0.1, 4) / capital_recovery_factor(0.05, 4))


def test_a_tenth_of_draws_lies_below_low():
    assert DrawSpread.of(np.arange(1.0, 101.0)) == DrawSpread(10.0, 50.0, 90.0)


def test_the_command_prints_tables_and_json(capsys):
    call = ["bring-up", str(EXAMPLE), "--set", "bring_up.draws=3"]
    assert guard.run([*call, "--details"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Build in the order blocks: the first job starts after 8.9 d (")
    assert "\norder blocks  " in out
    assert "35 racks and 2,560 cables" in out
    assert guard.run([*call, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["orders"]) == 4


# Parts that arrive by themselves: what can be built when, and which of them the first job waits for.


def bring_up_parts_site():
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
    come = arrivals(bring_up_parts_site(), [0, 1, 2, 3], np.array([0.0, 0.0, 2.0, 0.0]), days)
    assert come.order == [3, 1, 2, 0]
    assert come.built_d.tolist() == [0.0, 9.0, 9.0, 20.0]
    # Servers stand idle from the day they came, not from that on which their cables did.
    assert come.there_d.tolist() == [0.0, 3.0, 3.0, 20.0]


def test_without_parts_nothing_changes():
    come = arrivals(bring_up_parts_site(), [2, 0, 3, 1], np.array([0.0, 1.0, 1.0, 4.0]), {})
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
