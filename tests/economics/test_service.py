"""A service whose units follow the day: DeepSeek's published day, and arithmetic that anyone can do."""

from __future__ import annotations

import pytest

from railyard.catalog import Range
from railyard.measure.cost.serving import DAY_S, Day, Unit, mean_accelerators, service_cost

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
