"""Bands of left-out errors, by hand."""

from __future__ import annotations

import math

import pytest

from railyard_validation.bands import Miss, bands


def miss(error, source="s", group="g", family="f", question="step"):
    return Miss(question, family, source, group, error, "source")


def of(errors, **same):
    (found,) = bands([miss(error, **same) for error in errors])
    return found


def test_nine_rows_reach_to_their_ends():
    """Of nine rows the tenth is the new one: nine of ten times it is below the highest. ln 1.25 is 25 % more time."""
    errors = [math.log(1.0 + share) for share in (-0.2, -0.1, -0.05, 0.0, 0.02, 0.04, 0.1, 0.15, 0.25)]
    found = of(errors)
    assert (found.low, found.high) == pytest.approx((-0.2, 0.25))
    assert found.median == pytest.approx(0.1)
    assert (found.rows, found.sources, found.held_out) == (9, 1, "source")


def test_nineteen_rows_leave_out_one_at_each_end():
    """0.9 x (19 + 1) = 18: the eighteenth of nineteen."""
    found = of([step / 100 for step in range(-9, 10)])
    assert found.high == pytest.approx(math.expm1(0.08))
    assert found.low == pytest.approx(math.expm1(-0.08))


def test_a_band_holds_the_prediction():
    """Measurements that were all slower than predicted do not say that the prediction is impossible."""
    assert of([0.1, 0.2, 0.3, 0.4, 0.5]).low == 0.0


def test_a_large_source_does_not_drown_a_small_one():
    """300 rows of one source weigh as 30: of 40 in all, ten others at 0.5 are a quarter and make the high end."""
    large = [miss(0.0, source="large", group=str(number)) for number in range(300)]
    small = [miss(0.5, source="small", group=str(number)) for number in range(10)]
    (found,) = bands([*large, *small])
    assert found.high == pytest.approx(math.expm1(0.5))
    assert found.sources == 2


def test_what_rows_share_cancels_in_their_difference():
    """All rows of a group err by 0.30 and by 0, 0.01, 0.02, 0.03 besides: of six pairs 1, 1, 1, 2, 2, 3 hundredths.

    0.8 x (6 + 1) / 6 of them is the sixth.
    """
    found = of([0.30, 0.31, 0.32, 0.33])
    assert found.between == pytest.approx(math.expm1(0.03))
    assert found.high > 0.35


def test_with_too_few_pairs_nothing_cancels():
    """Three rows are three pairs: as if independent, sqrt(2) of the wider end."""
    assert of([0.1, 0.1, 0.1]).between == pytest.approx(math.expm1(math.sqrt(2.0) * 0.1))


def test_rows_of_other_groups_are_no_pairs():
    rows = [miss(0.1 * number, group=str(number)) for number in range(6)]
    (found,) = bands(rows)
    assert found.between == pytest.approx(math.expm1(math.sqrt(2.0) * 0.5))


def test_questions_and_families_are_apart():
    found = bands([miss(0.1), miss(0.2, family="other"), miss(0.3, question="tpot")])
    assert [(one.question, one.family) for one in found] == [("step", "f"), ("step", "other"), ("tpot", "f")]


def test_three_runs_of_the_same_owner_take_out_what_they_share():
    """Five rows that all err by 0.2 are right after calibration; with three rows nobody has three others."""
    found = of([0.2] * 5)
    assert (found.calibrated_low, found.calibrated_high) == pytest.approx((0.0, 0.0), abs=1e-12)
    assert of([0.2] * 3).calibrated_high == pytest.approx(math.expm1(0.2))


def test_one_odd_run_among_three_does_not_mislead():
    """Of 0, 0, 0, 0 and 0.3 the last is judged by the others: 0.3; the rest by a median that is 0 whoever is drawn."""
    found = of([0.0, 0.0, 0.0, 0.0, 0.3])
    assert found.calibrated_high == pytest.approx(math.expm1(0.3))
    assert found.calibrated_low == 0.0
