"""Capital recovery against its definition, and the published arithmetic of an H100 an hour."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.catalog import Range
from railyard.measure.cost.assumptions import exactly
from railyard.measure.cost.capital import (
    ACCELERATORS,
    NICS,
    OPTICS,
    SERVERS,
    SWITCHES,
    CostPart,
    capex,
    capital_recovery_factor,
)


def test_ten_percent_over_four_years_is_the_known_annuity():
    assert capital_recovery_factor(0.10, 4) == pytest.approx(0.315471, abs=1e-6)


@given(interest=st.floats(1e-6, 0.5), years=st.integers(1, 40))
def test_the_payments_are_worth_the_loan(interest, years):
    """Present value of n equal payments at that interest is 1: the definition, summed term by term."""
    payment = capital_recovery_factor(interest, years)
    assert sum(payment / (1 + interest) ** year for year in range(1, years + 1)) == pytest.approx(1, rel=1e-9)


def test_without_interest_it_is_a_straight_line():
    assert capital_recovery_factor(0, 5) == 0.2
    assert capital_recovery_factor(1e-12, 5) == pytest.approx(0.2)
    assert capital_recovery_factor(5e-324, 0.5) == 2


def test_capex_adds_up_and_carries_its_ends():
    parts = [
        CostPart(ACCELERATORS, "a", 8, Range(25e3, 30e3, 36e3), exactly(0)),
        CostPart(SERVERS, "s", 1, Range(21e3, 45e3, 65e3), exactly(0)),
        CostPart(NICS, "n", 8, exactly(1700), exactly(25)),
        CostPart(SWITCHES, "leaf", 2, exactly(50e3), exactly(800)),
        CostPart(SWITCHES, "spine", 1, exactly(50e3), exactly(800)),
        CostPart(OPTICS, "dr4", 16, exactly(700), exactly(9)),
    ]
    found = capex(parts, Range(0.02, 0.03, 0.05), 8)
    hardware = 8 * 30e3 + 45e3 + 8 * 1700 + 150e3 + 16 * 700
    assert found.total_usd.typical == pytest.approx(hardware * 1.03)
    assert found.per_accelerator_usd.typical == pytest.approx(hardware * 1.03 / 8)
    low = 8 * 25e3 + 21e3 + 8 * 1700 + 150e3 + 16 * 700
    assert found.total_usd.low == pytest.approx(low * 1.02)
    lines = found.section().plain()["components"]
    assert [line["name"] for line in lines] == [
        "accelerators",
        "servers",
        "NICs",
        "switches",
        "optics and cables",
        "installation",
    ]
    assert lines[3]["count"] == 3
