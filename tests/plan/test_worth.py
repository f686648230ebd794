"""What a little more is worth: against hand-computed points, the long-run law of outages, and runs made by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from railyard.ask.plan.pages import worth_page
from railyard.ask.plan.worth import ServerOutages, availability, dearer, spares_for, to_json, worth
from railyard.catalog.types import Range
from railyard.measure.cost.assumptions import carbon, grid
from railyard.work.scenario.load import from_values
from railyard.work.study import study

SCENARIO = {
    "name": "worth",
    "cluster": {
        "accelerators": 32,
        "server": "hgx-h100",
        "back_end": {"topology": "rail-optimized", "fabric": {"name": "roce", "hop_latency": "1.5 us"}},
    },
    "workload": {
        "training": {
            "model": "llama-3-8b",
            "tokens": "1 B",
            "global_batch": 32,
            "sequence": 1024,
            "parallelism": {"tp": 1, "zero": 3, "micro_batch": 1},
        }
    },
    "plan": {"worth": {"draws": 1, "hop": "4 us", "tail": "2 %", "years": 40, "grids": ["NOR", "poland"]}},
}


@pytest.fixture(scope="module")
def found():
    return worth(from_values(SCENARIO), lambda _what, _share: None)


def runs(**changes):
    draft = from_values(SCENARIO).with_values({"repeat": 1, **changes}, "by hand")
    return study.run(draft, searched=False).result.variants[0]


def test_a_microsecond_is_the_difference_of_two_runs(found):
    one, other = runs(), runs(**{"cluster.back_end.fabric.hop_latency": "5.5 us"})
    assert other.step.seconds > one.step.seconds
    assert found.hop.steps == ((one.step.seconds, other.step.seconds),)
    # Tokens of a year at one price, bought at the other.
    tokens = one.cpmt.usd_per_gpu_h.typical * 32 * 8760 / one.cpmt.typical
    assert found.hop.usd_per_year.typical == pytest.approx((other.cpmt.typical - one.cpmt.typical) * tokens / 4)
    assert found.hop.usd_per_year.low < found.hop.usd_per_year.typical < found.hop.usd_per_year.high


def test_a_tail_is_a_spread_of_a_3_09th_of_it(found):
    one, other = runs(jitter={"law": "none"}), runs(jitter={"sigma": 0.02 / 3.0902323})
    assert found.tail.steps[0] == pytest.approx((one.step.seconds, other.step.seconds), rel=1e-12)
    hourly = one.cpmt.usd_per_gpu_h.typical * 32
    expected = (other.cpmt.typical / one.cpmt.typical - 1) * hourly * 8760 / 20
    assert found.tail.usd_per_year.typical == pytest.approx(expected)


def test_the_networks_share_is_that_of_the_bill(found):
    one = runs()
    bought = {row.name: row.typical_usd for row in one.capex.components}
    network = bought["NICs"] + bought["switches"] + bought["optics and cables"]
    share = network / (sum(bought.values()) - bought["installation"])
    assert found.network.capex.typical == pytest.approx(share)
    assert found.network.joules.typical == pytest.approx(one.power.data_movement_share)
    cost = {row.name: row.typical for row in one.cpmt.breakdown}
    drawn = one.power.data_movement_share * one.power.it_w.typical
    paid = share * (cost["capital"] + cost["operations"]) + one.power.data_movement_share * cost["energy"]
    paid += drawn / one.power.provisioned_w.typical * cost["space"]
    assert found.network.usd.typical == pytest.approx(paid / one.cpmt.typical)
    assert found.network.usd_per_year == pytest.approx(paid / one.cpmt.typical * found.usd_per_year.typical)


def test_nines_cost_spares_and_give_time(found):
    spare = sum(row.typical for row in runs().cpmt.breakdown if row.name != "energy") / runs().cpmt.typical
    each = spare * found.usd_per_year.typical / 4
    for one, before in zip(found.nines[1:], found.nines, strict=False):
        assert one.usd_per_year.typical == pytest.approx(one.spares[1] * each)
        assert one.step_usd_per_year == pytest.approx((one.spares[1] - before.spares[1]) * each)
        assert one.worth_usd_per_year == pytest.approx((one.reached - before.reached) * found.usd_per_year.typical)
        assert one.reached >= one.wanted


def test_outages_are_poisson_in_the_long_run():
    # 512 servers, one outage each 4,000 h; median 28 h, nine in ten within 72 h: sigma = ln(72/28)/1.28155 = 0.73696,
    # mean 28 exp(0.27156) = 36.736 h. On the mean 512 x 36.736 / 4,000 = 4.7022 are out.
    outages = ServerOutages(512, 4000.0, 28.0, 72.0, 600, 1)
    mean = 4.7022
    out = outages.out()
    assert out.sum() == pytest.approx(1.0)
    assert out @ np.arange(len(out)) == pytest.approx(mean, rel=1e-2)
    poisson = [math.exp(-mean) * mean**count / math.factorial(count) for count in range(12)]
    assert out[:12] == pytest.approx(poisson, abs=5e-3)
    # Sums of that law: 8 spares reach 0.9493, 9 do 0.9765, 10 do 0.9901: 99 % take 10.
    assert availability(out, 9) == pytest.approx(sum(poisson[:10]), abs=5e-3)
    assert spares_for(out, 0.985, 512) == 10
    assert spares_for(out, 0.985, 16) is None


def test_the_same_outages_meet_every_number_of_spares():
    out = ServerOutages(40, 3000.0, 24.0, 60.0, 50, 3).out()
    steps = [availability(out, spares) for spares in range(len(out))]
    assert steps == sorted(steps)
    assert steps[-1] == pytest.approx(1.0)


def test_carbon_by_hand():
    # 100 kW for a year at Norway's 30.1 g/kWh: 876,000 kWh, 26.37 t; 0.9 J a token are 0.25 kWh a million: 7.525 g.
    here = carbon(grid("nor", "here"), Range(50e3, 100e3, 200e3), Range(0.9, 0.9, 0.9))
    assert here.tonnes_per_year.typical == pytest.approx(26.3676)
    assert here.tonnes_per_year.high == pytest.approx(52.7352)
    assert here.grams_per_million.typical == pytest.approx(7.525)
    assert grid("Poland", "here").g_per_kwh == 661.9
    assert grid("world", "here").g_per_kwh == 481.0


def test_dearer_by_hand():
    # $2 an hour each of 3, $0.10 a million tokens become $0.11: 10 % of $52,560 a year.
    def variant(cpmt):
        band = SimpleNamespace(low=2.0, typical=2.0, high=4.0)
        return SimpleNamespace(cpmt=SimpleNamespace(low=cpmt, typical=cpmt, high=cpmt, usd_per_gpu_h=band))

    assert dearer(variant(0.10), variant(0.11), 3) == pytest.approx((5256.0, 5256.0, 10512.0))


def test_the_page_draws_what_the_json_holds(found):
    result = to_json(found)
    drawn = worth_page(result)
    assert "1 us more in every switch" in drawn
    assert "Norway (30.1 g/kWh, 2023)" in drawn
    assert drawn.count("<svg") == 4
    assert [row["grid"] for row in result["carbon"]["grids"]] == ["Norway", "Poland"]
