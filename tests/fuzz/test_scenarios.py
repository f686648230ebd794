"""Scenarios drawn from the schema are read, or refused at the right place."""

from __future__ import annotations

import os

import pytest
from tests.fuzz.scenarios import BASES, campaign, document, places, refusal

CASES = int(os.environ.get("RAILYARD_FUZZ_CASES", "20000"))
"""Cases that are read; the run of a million that the page of robustness names set it."""


def test_every_section_has_numbers_with_ranges():
    assert len(places()) > 400
    heads = {place.path[:2] if place.path[0] == "workload" else place.path[:1] for place in places()}
    assert {("cluster",), ("economics",), ("plan",), ("tune",), ("packet",), ("faults",), ("jitter",)} <= heads
    assert {("workload", "training"), ("workload", "serving"), ("workload", "operate")} <= heads


@pytest.mark.parametrize("end", [0, -1])
def test_a_value_outside_any_range_is_refused_at_its_place(end, tmp_path):
    file, wrong = tmp_path / "case.yaml", []
    for place in places():
        beyond = place.outside()
        if not beyond:
            continue
        value = beyond[end]
        error = refusal(document(BASES["training"], [(place, value)]), file)
        found = [problem for problem in ([] if error is None else error.problems) if problem.key == place.key]
        if not any(problem.line and problem.allowed and problem.found for problem in found):
            wrong.append((place.key, value, str(error)[:200]))
    assert not wrong


def test_cases_are_read_or_refused_at_their_place(tmp_path):
    counts = campaign(CASES, 26, tmp_path)
    assert min(counts.values()) > CASES // 20
