"""Random variants of the trials of fabrics: three of each, those that are quick."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "tools/trial_variants.py"
SPEC = importlib.util.spec_from_file_location("trial_variants", FILE)
assert SPEC is not None
trials = importlib.util.module_from_spec(SPEC)
assert SPEC.loader is not None
SPEC.loader.exec_module(trials)


@pytest.mark.parametrize("number", [100, 101, 102])
@pytest.mark.parametrize("trial", ["refusals", "incast", "bit-errors"])
def test_variants_hold(trial: str, number: int) -> None:
    found = trials.variant(trial, number)
    assert found["held"], found
