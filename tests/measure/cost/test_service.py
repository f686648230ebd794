"""A service whose units follow the day: DeepSeek's published day, and arithmetic that anyone can do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.catalog import Range
from railyard.kit.errors import InputError
from railyard.measure.cost.serving import (
    DAY_S,
    Day,
    PaidGoodput,
    Unit,
    mean_accelerators,
    owned,
    rented,
    service_cost,
)

DEEPSEEK = Day(608e9, 168e9, cached_share=0.563, peak=278 / 226.75)
"""open-infra-index, day 6: tokens of 24 hours, nodes at the peak and in the mean."""
PREFILL, DECODE = Unit(32, 4 * 73_700), Unit(144, 18 * 14_800)
"""The same page: EP32 and EP144, tokens/s of a node of eight."""


def test_published_rates_give_the_published_price_but_for_units_that_start_whole():
    """$0.112 per million tokens and $0.518 per million output tokens, 226.75 nodes."""
    cost = service_cost(DEEPSEEK, PREFILL, DECODE, Range(2.0, 2.0, 2.0))
    assert cost.tokens["total"].typical == pytest.approx(0.1122, rel=0.05)
    assert cost.tokens["output"].typical == pytest.approx(0.518, rel=0.05)
    nodes = sum(mean_accelerators(DEEPSEEK, tokens, unit) / 8 for tokens, unit in ((608e9, PREFILL), (168e9, DECODE)))
    assert nodes == pytest.approx(226.75, rel=0.05)
    assert cost.goodput.cached_share == 0.563


def test_units_start_whole():
    flat = Day(DAY_S * 100, 1.0)
    assert mean_accelerators(flat, flat.input_tokens, Unit(8, 100.0)) == 8
    assert mean_accelerators(flat, flat.input_tokens, Unit(8, 99.0)) == 16
    wave = Day(DAY_S * 100, 1.0, peak=2.0)
    many = mean_accelerators(wave, wave.input_tokens, Unit(1, 0.01))
    assert many == pytest.approx(100 / 0.01, rel=0.001)
    assert mean_accelerators(wave, wave.input_tokens, Unit(1, 100.0)) == pytest.approx(1.5, abs=0.02)


def test_prices_keep_their_band_and_follow_the_rent():
    cost = service_cost(DEEPSEEK, PREFILL, DECODE, Range(1.0, 2.0, 4.0)).tokens["total"]
    assert (cost.low * 2, cost.high / 2) == (pytest.approx(cost.typical), pytest.approx(cost.typical))


# Cost of tokens served, against DeepSeek's published bill and hand arithmetic.

SERVING_DAY_S = 86_400.0


def exactly(value: float) -> Range:
    return Range(value, value, value)


def bill(**other: Range) -> dict[str, Range]:
    inputs = {
        "accelerators_usd": Range(8 * 28_800, 8 * 33_800, 8 * 46_900),
        "servers_usd": exactly(80_000),
        "network_usd": exactly(40_000),
        "storage_usd": exactly(0),
        "installation": exactly(0.03),
        "cost_of_capital": exactly(0.1),
        "life_years": Range(3, 4, 6),
        "operations": exactly(0.02),
        "it_w": Range(5000, 6000, 7000),
        "pue": Range(1.1, 1.25, 1.54),
        "electricity_usd_per_kwh": Range(0.05, 0.08, 0.12),
        "provisioned_w": exactly(10_000),
        "space_usd_per_kw_month": Range(120, 180, 220),
    }
    return {**inputs, **other}


def test_deepseek_publishes_the_same_bill() -> None:
    """226.75 nodes of 8 at $2: $87,072 a day; $0.112 per million tokens of all kinds, $0.518 of output."""
    goodput = PaidGoodput(608e9, 168e9, SERVING_DAY_S, cached_share=0.563)
    cost = rented(exactly(2.0), goodput, 226.75 * 8)
    assert cost.parts[0][1].typical * 24 == pytest.approx(87_072)
    total, output = cost.tokens["total"], cost.tokens["output"]
    assert total is not None
    assert output is not None
    assert total.typical == pytest.approx(0.112, abs=0.0005)
    assert output.typical == pytest.approx(0.518, abs=0.0005)
    assert cost.usd_per_gpu_h.typical == pytest.approx(2.0)


def test_an_owner_pays_four_parts() -> None:
    cost = owned(bill(), PaidGoodput(3.6e6, 0.4e6, 3600.0), 8)
    parts = {name: band.typical for name, band in cost.parts}
    capital = (8 * 33_800 + 120_000) * 1.03
    assert parts["capital"] == pytest.approx(capital * 0.315471 / 8760, rel=1e-5)  # CRF(10 %, 4 years)
    assert parts["energy"] == pytest.approx(6 * 1.25 * 0.08)
    assert parts["space"] == pytest.approx(10 * 180 / 730)
    assert parts["operations"] == pytest.approx(capital * 0.02 / 8760)
    total = cost.tokens["total"]
    assert total is not None
    assert total.typical == pytest.approx(sum(parts.values()) / 4)  # 4 million tokens an hour
    assert total.low < total.typical < total.high


def test_metered_and_provisioned_power_are_two_quantities() -> None:
    goodput = PaidGoodput(3.6e6, 0, 3600.0)
    usual = owned(bill(), goodput, 8)
    drawn = owned(bill(it_w=exactly(12_000)), goodput, 8)
    sold = owned(bill(provisioned_w=exactly(20_000)), goodput, 8)
    by_name = [{name: band.typical for name, band in cost.parts} for cost in (usual, drawn, sold)]
    assert by_name[1]["energy"] == pytest.approx(2 * by_name[0]["energy"])
    assert by_name[1]["space"] == by_name[0]["space"]
    assert by_name[2]["space"] == pytest.approx(2 * by_name[0]["space"])
    assert by_name[2]["energy"] == by_name[0]["energy"]
    assert usual.joules_per_token == Range(5, 6, 7)  # kW over 1,000 tokens a second
    assert usual.tokens["output"] is None


def test_late_requests_cost_and_do_not_count() -> None:
    met = [True, False, True, True]
    goodput = PaidGoodput.of(met, [100, 900, 200, 100], [10, 90, 20, 10], 10.0, cached=[50, 900, 100, 50])
    assert (goodput.input_tokens, goodput.output_tokens, goodput.attainment) == (400, 40, 0.75)
    assert goodput.cached_share == 0.5
    everything = PaidGoodput.of([True] * 4, [100, 900, 200, 100], [10, 90, 20, 10], 10.0)
    strict, lax = (rented(exactly(2.0), one, 8).tokens["total"] for one in (goodput, everything))
    assert strict is not None
    assert lax is not None
    assert strict.typical == pytest.approx(lax.typical * 1430 / 440)


def test_nothing_served_well_has_no_price() -> None:
    cost = rented(exactly(2.0), PaidGoodput.of([False], [10], [10], 1.0), 8, it_w=exactly(100))
    assert set(cost.tokens.values()) == {None}


@given(st.floats(1, 1e12), st.floats(1, 1e12), st.floats(1e-3, 1e7), st.floats(0.5, 50), st.integers(1, 10**6))
def test_total_is_the_harmonic_sum(asked: float, answered: float, seconds: float, rent: float, gpus: int) -> None:
    cost = rented(Range(rent / 2, rent, rent * 2), PaidGoodput(asked, answered, seconds), gpus)
    each = [cost.tokens[kind] for kind in ("input", "output", "total")]
    inputs, outputs, total = (band.typical for band in each if band is not None)
    assert 1 / total == pytest.approx(1 / inputs + 1 / outputs)
    band = cost.tokens["total"]
    assert band is not None
    assert band.high == pytest.approx(4 * band.low)


def test_wrong_bills_are_refused() -> None:
    goodput = PaidGoodput(1, 1, 1)
    with pytest.raises(InputError, match="accelerators"):
        rented(exactly(2), goodput, 0)
    with pytest.raises(InputError, match="span of time"):
        PaidGoodput(1, 1, 0)
