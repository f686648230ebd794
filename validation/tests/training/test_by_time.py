"""Forecasts of later runs see nothing that came with them or after them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

from railyard import catalog
from railyard.work.training import profiles
from railyard_validation.bands import Miss, later
from railyard_validation.training.by_time import CUTS, forecasts, published
from railyard_validation.training.cases import read_cases
from railyard_validation.training.fit import fit, refitted, scored, smallest_scale

DATA = Path(__file__).resolve().parents[2] / "data/training"


@pytest.fixture(scope="module")
def cases():
    found, _ = read_cases(DATA / "runs.csv", catalog.load())
    return [case for case in found if scored(case)]


def test_every_run_says_when_it_was_published():
    for name in ("runs.csv", "runs_single_node.csv", "strangers.csv", "mlperf_v6.csv"):
        cases, _ = read_cases(DATA / name, catalog.load())
        assert all("2015-01" < published(case) < "2027-01" for case in cases)


def test_a_later_measurement_changes_no_earlier_forecast(cases):
    """Everything from July 2025 on measured twice as long: forecasts of what came before stay as they are."""
    early = [case for case in cases if published(case) < "2024-07"]
    late = [case for case in cases if "2025-07" <= published(case) < "2026-01"][:20]
    slower = [dataclasses.replace(case, measured=2 * case.measured) for case in late]
    plain = {one.case.row.id: one.predicted for one in forecasts(early + late, named=True)}
    changed = {one.case.row.id: one.predicted for one in forecasts(early + slower, named=True)}
    assert plain == changed
    assert len(plain) > 60


def test_software_of_the_same_half_year_is_not_known(cases):
    new = [case for case in cases if published(case) >= "2026-01" and "megatron-2026" in case.training.software.name]
    older = [case for case in cases if published(case) < "2026-01"]
    one = next(one for one in forecasts([*older, new[0]], named=True) if one.case.row.id == new[0].row.id)
    values = fit(smallest_scale(older)).values
    taken = profiles.assemble(values)["megatron-2025/" + new[0].training.software.architecture]
    assert one.case.training.software.name == "megatron-2025"
    assert one.cut == "2026-01"
    assert one.case.training == refitted([new[0]], {profiles.key_of(new[0].training.software): taken})[0].training


def test_bands_of_a_half_year_are_read_off_the_ones_before():
    """Twenty earlier rows within 10 % give a band of about that; a later row of twice the time lies outside."""
    early = [Miss("step", "a", f"S, {CUTS[0]}", "g", (-1) ** n * n / 200, "time") for n in range(20)]
    new = [Miss("step", "a", f"T, {CUTS[1]}", "g", error, "time") for error in (0.05, math.log(2.0))]
    (found,) = later(early + new)
    assert (found.part, found.rows, found.inside) == (CUTS[1], 2, 0.5)
    assert 0.15 < found.width < 0.21
    assert found.mean == pytest.approx((1 - math.exp(-0.05) + 0.5) / 2)
    assert found.score == pytest.approx(found.width + 10 * (1.0 - found.width / 2) / 2, abs=0.1)
