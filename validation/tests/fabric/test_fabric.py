"""`railyard validate fabric`: its quick figures agree, its verdicts follow its ranges, its words are kind."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from railyard.face.cli.guard import run as railyard
from railyard_validation.fabric import FIGURES, validate_fabric
from railyard_validation.fabric.figure import Case

QUICK = ("F3", "F7")
OFF = {"F7": ["5 x hgx-h200"]}
"""Misses its range since 18 constants stand for all collectives: in-switch synchronization takes the shared part of
64-rank domains in servers of eight too."""


@pytest.fixture(scope="module")
def report():
    return validate_fabric(QUICK)


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_figure_agrees(report, name):
    rows = [row for row in report.rows if row.figure == name]
    assert rows
    assert [row.case for row in rows if row.status != "ok"] == OFF.get(name, [])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["F1", "F2", "F12"])
def test_a_long_figure_agrees(name):
    assert {row.status for row in validate_fabric([name]).rows} <= {"ok", "shown", "not built"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "off"), [("F4", 1), ("F8", 0), ("F10", 0), ("F11", 1)])
def test_no_more_rows_are_off_than_the_page_says(name, off):
    assert validate_fabric([name]).counts()["off"] <= off


def test_every_figure_of_the_list_is_there(report):
    assert list(report.to_dict()["figures"]) == list(QUICK)
    assert set(FIGURES) == {*(f"F{number}" for number in (1, 2, 3, 4, 7, 8, 10, 11, 12, 13, 14, 15))}
    assert all(each.claim and each.scenario and each.source for each in FIGURES.values())


@pytest.mark.parametrize(("found", "status"), [(97.1, "ok"), (96.9, "off"), (103.0, "ok"), (103.1, "off")])
def test_a_verdict_follows_the_tolerance(found, status):
    assert Case("F0", "", "us").relative(100, found, by=0.03).status == status
    assert Case("F0", "", "%").absolute(100, found, by=3).status == status


def test_an_open_range_has_one_end():
    assert Case("F0", "", "us").between("", 5, low=4).status == "ok"
    assert Case("F0", "", "us").between("", 5, high=4).status == "off"


def test_the_command_prints_json(capsys):
    assert railyard(["validate", "fabric", "--figure", "f3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["figure"] for row in found["rows"]} == {"F3"}
    assert found["summary"]["off"] == 0


def test_another_figure_is_refused_with_those_there_are(capsys):
    assert railyard(["validate", "fabric", "--figure", "F99"]) == 2
    assert "F11" in capsys.readouterr().err


# Random variants of the trials of fabrics: three of each, those that are quick.

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
