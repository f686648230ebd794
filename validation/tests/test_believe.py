"""The page of believe.md and the shipped record follow from the committed errors."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from railyard.measure.model_error import judged_software, record

TOOLS = Path(__file__).resolve().parents[1] / "tools"


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    yield
    for name in ("believe_page", "model_errors"):
        sys.modules.pop(name, None)


def test_the_shipped_bands_follow_from_the_committed_errors(tools):
    import model_errors

    from railyard_validation.bands import bands

    shipped = {key: asdict(error) for key, error in record().items()}
    for band in bands(model_errors.recorded()):
        assert shipped.pop((band.question, band.family)) == model_errors._row(band)
    assert not shipped


def test_the_page_is_of_the_shipped_record(tools):
    import believe_page

    assert believe_page.PAGE.read_text(encoding="utf-8") == believe_page.page()


def test_a_line_of_the_page(tools):
    import believe_page

    from railyard.measure.model_error import ModelError

    error = ModelError("power", "all", -0.104, 0.206, 0.074, 0.126, -0.05, 0.04, 1250, 3, "source")
    assert believe_page.line(error) == (
        "| power of the accelerators | all | 7 % | -10 to +21 % | -5 to +4 % | 13 % | 1,250 rows, 3 sources |"
    )


def test_a_class_is_signed_on_when_every_family_of_it_is_near(tools):
    import believe_page

    by_name = {one.forecast.short: one for one in believe_page.judged()}
    known = by_name["training time and cost of known software"]
    assert len(known.errors) == 4
    assert known.before == (min(one.low for one in known.errors), max(one.high for one in known.errors))
    signed = [name for name, one in by_name.items() if one.near(one.before)]
    assert signed == ["collectives from 64 MiB"]


def test_nobody_signs_on_three_rows(tools):
    import believe_page

    few = next(one for one in believe_page.judged() if one.forecast.question == "slowed kernels")
    assert max(-few.before[0], few.before[1]) <= believe_page.NEAR
    assert not few.near(few.before)


def test_judged_software_is_of_the_judged_runs(tools):
    import model_errors

    from railyard import catalog

    assert list(judged_software()) == model_errors.judged_software(catalog.load())
