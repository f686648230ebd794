"""Kernels beside collectives, against what was measured elsewhere, and the band that follows."""

from __future__ import annotations

import math

import pytest

from railyard import catalog
from railyard.measure.model_error import slowed_error
from railyard_validation.training.slowdowns import slowdowns


@pytest.fixture(scope="module")
def found():
    return slowdowns(catalog.load())


def test_overlap_slows_computation_as_was_measured(found):
    mean, most, _ = found
    assert 1 / (1 - mean.predicted) == pytest.approx(1.189, abs=0.04)
    assert 1.30 < 1 / (1 - most.predicted) < 1.42


def test_a_full_wave_beside_24_units_needs_a_second_one(found):
    """80 % of peak falls to 47 %; the share of the units alone would leave 65 %."""
    assert 39 < 80 * (1 - found[-1].predicted) < 58


def test_the_band_of_slowed_kernels_spans_them(found):
    errors = [math.log(one.measured / one.predicted) for one in found]
    band = slowed_error()
    assert math.log1p(band.high) == pytest.approx(max(errors), abs=2e-4)
    assert math.log1p(band.low) == pytest.approx(min(*errors, 0.0), abs=2e-4)
    assert (band.rows, band.sources, band.held_out) == (3, 2, "source")
