"""Scenarios drawn from the schema are read, or refused at the right place."""

from __future__ import annotations

import os

import pytest
from tests.fuzz.scenarios import BASES, campaign, document, places, refusal, runs

CASES, RUNS = (int(os.environ.get(f"RAILYARD_FUZZ_{name}", most)) for name, most in (("CASES", 20_000), ("RUNS", 300)))
"""Cases that are read and scenarios that are run by `make test-all`; set them for a longer search."""


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
        error = refusal(document(BASES["training"], [(place, beyond[end])]), file)
        found = [problem for problem in ([] if error is None else error.problems) if problem.key == place.key]
        if not any(problem.line and problem.allowed and problem.found for problem in found):
            wrong.append((place.key, beyond[end], str(error)[:200]))
    assert not wrong


def test_cases_are_read_or_refused_at_their_place(tmp_path):
    counts = campaign(1500, 26, tmp_path)
    assert min(counts.values()) > 75


def test_values_inside_their_ranges_run_or_are_refused_at_their_place(tmp_path):
    assert runs(12, 26, tmp_path)["finished"] > 3


@pytest.mark.slow
def test_many_cases_are_read_or_refused_at_their_place(tmp_path):
    campaign(CASES, 27, tmp_path)


@pytest.mark.slow
def test_many_values_inside_their_ranges_run_or_are_refused_at_their_place(tmp_path):
    runs(RUNS, 27, tmp_path)
