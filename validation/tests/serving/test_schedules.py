"""The serving engine's iterations against those that vLLM's own scheduler made of the same traces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from railyard_validation.serving.schedule_cases import FRESH, SEEDS, draw
from railyard_validation.serving.schedules import ours, recorded
from railyard_validation.serving.schedules_page import DATA, text

FOLDER = Path(__file__).parent / "data"
THEIRS = {seed: answer for file in DATA for seed, answer in recorded(FOLDER / file).items()}
CUT = 2775
"""Its context ends one token behind a request, where vLLM cuts guesses: the engine knows no longest context."""


def test_every_case_is_recorded():
    assert set(THEIRS) == {*SEEDS, *FRESH}


@pytest.mark.parametrize("seed", sorted(set(THEIRS) - {CUT}))
def test_batches_are_those_of_vllm(seed):
    found = ours(draw(seed))
    assert found.iterations == THEIRS[seed].iterations
    assert found.equals(THEIRS[seed])


def test_the_case_that_differs_does_so_where_the_context_ends():
    found, theirs = ours(draw(CUT)), THEIRS[CUT]
    at = found.same(theirs)
    assert found.iterations[at].replace("20:3", "20:2") == theirs.iterations[at]
    request = draw(CUT).requests[20]
    assert request.input + request.output == draw(CUT).max_batched_tokens - 1


def test_another_budget_is_not_equal():
    case = draw(SEEDS[0])
    assert not ours(replace(case, max_batched_tokens=case.max_batched_tokens - 1)).equals(THEIRS[SEEDS[0]])


def test_the_page_is_fresh():
    page = Path(__file__).parents[3] / "docs/validation/serving-schedules.md"
    assert page.read_text(encoding="utf-8") == text(FOLDER)
