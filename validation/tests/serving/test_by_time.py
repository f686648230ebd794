"""Every serving row has a month, and forecasts of a quarter see nothing that came with it or after it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from railyard import catalog
from railyard.measure.model_error import (
    FEWEST,
    SERVING,
    measured_deployments,
    record,
    serving_error,
    serving_family,
    serving_key,
)
from railyard.work.serving.software import CONSTANTS
from railyard_validation.serving import fit as fitting
from railyard_validation.serving.cases import Case, case_of
from railyard_validation.serving.left_out import evidence_of, quarter_of
from railyard_validation.serving.table import read

TABLE = Path(__file__).resolve().parents[2] / "data/serving/measured.csv"


@pytest.fixture(scope="module")
def rows():
    return read(TABLE)


def test_every_row_has_the_month_of_its_publication_and_a_source(rows):
    assert all(re.fullmatch(r"202[56]-(0[1-9]|1[0-2])", row.get("published")) for row in rows)
    assert all(row.get("source") for row in rows)
    # Nothing is published before it is measured.
    dated = [row for row in rows if re.fullmatch(r"\d{4}-\d\d-\d\d", row.get("date"))]
    assert len(dated) > 2000
    assert all(row.get("published") >= row.get("date")[:7] for row in dated)


def test_a_later_measurement_changes_no_earlier_constant(rows):
    """The later of two quarters measured twice as slow: constants of both stay, and those of other splits do not."""
    known = catalog.load()
    cases = [case for case in (case_of(row, known) for row in rows) if isinstance(case, Case)]
    some = [case for case in cases if case.kind == "closed" and case.users <= 4 and fitting.first_s(case)]
    early, late = ([case for case in some if quarter_of(case) == quarter][:6] for quarter in ("2025-10", "2026-01"))
    seen = evidence_of([*early, *late])
    twice = np.where([quarter_of(case) == "2026-01" for case in seen.rows.cases], 2.0, 1.0)
    slower = replace(seen, told=seen.told * twice)
    for keep, same in ((np.less, True), (np.not_equal, False)):
        plain, changed = (fitting.left_out(one, quarter_of, seen.rows.cases, keep) for one in (seen, slower))
        alike = [np.array_equal(getattr(plain, name), getattr(changed, name)) for name in CONSTANTS]
        assert all(alike) is same


def test_bands_widen_with_distance():
    """Of a deployment like published ones, of a new one, and of several pools; unknown kinds have a new one's."""
    bands = record()
    for question in ("tpot", "ttft"):
        near, new = (bands[question, f"experts, one pool{suffix}"] for suffix in ("", ", new"))
        split = bands[question, "pools for prompts"]
        assert near.median < new.median
        assert near.median < split.median
    for question in SERVING:
        assert serving_error(question, experts=True, split=True, published=False).held_out == "time"
    assert serving_family(experts=False, split=False, published=False) == "dense, one pool, new"
    assert serving_key("llama-3-70b", "blackwell", "tensorrt-llm", "fp8") in measured_deployments()
    assert serving_key("llama-3-70b", "volta", "tensorrt-llm", "fp8") not in measured_deployments()


def test_a_family_of_one_row_takes_the_band_of_new_deployments() -> None:
    """One published row of tokens/s of experts in one pool says nothing of eight in ten; 43 of new ones do."""
    assert record()["throughput", "experts, one pool"].rows < FEWEST
    found = serving_error("throughput", experts=True, split=False, published=True)
    assert found == record()["throughput", "experts, one pool, new"]
    assert serving_error("tpot", experts=True, split=True, published=False).rows >= FEWEST
