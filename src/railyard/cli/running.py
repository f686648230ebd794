"""`railyard run` and `railyard compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard import api
from railyard.api import background, compared, layouts, operated, words
from railyard.cli.progress import Progress
from railyard.cli.tables import Table, emit
from railyard.errors import InputError
from railyard.scenario import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.result.result import Result


def run(
    scenario: Path,
    *,
    sets: Sequence[str],
    varies: Sequence[str],
    engine: str | None,
    out: Path,
    as_json: bool,
    quiet: bool,
) -> None:
    """Runs a scenario and prints the comparison, or the result as JSON.

    Raises:
        InputError: The scenario is wrong.
        SimulationError: The run cannot finish.
    """
    with Progress(wanted=not quiet) as progress:
        progress("reading the scenario", 0.0)
        finished = api.execute(load.load(scenario, sets), varies, engine=engine, out=out, progress=progress)
    if as_json:
        emit(finished.result.text())
        return
    show(finished)
    if not quiet:
        text = "\n".join([words.why(finished.result), *words.notes(finished.result)])
        emit(f"\n{text}\n\nreport: {finished.report_path}")


def compare(
    scenario: Path,
    *,
    sets: Sequence[str],
    varies: Sequence[str],
    engine: str | None,
    out: Path,
    as_json: bool,
    quiet: bool,
) -> None:
    """Runs every combination of the varied values.

    Raises:
        InputError: Nothing is varied, or the scenario is wrong.
        SimulationError: The run cannot finish.
    """
    given = load.load(scenario, sets).scenario.compare
    if not (varies or given.vary or given.variants or given.steps):
        raise InputError("there is nothing to compare", hint="give for example `--vary fabric=roce,infiniband,ideal`")
    run(scenario, sets=sets, varies=varies, engine=engine, out=out, as_json=as_json, quiet=quiet)


def _sheets(result: Result) -> None:
    """The tables of a cluster in time."""
    for number, sheet in enumerate(operated.sheets(result)):
        if number:
            emit("")
        table = Table(sheet.headings, range(1, len(sheet.headings)), turn=True)
        for cells in sheet.rows:
            table.add(*cells)
        table.print()


def show(finished: api.Run) -> None:
    """The comparison as a table."""
    result = finished.result
    if operated.are_operated(result):
        _sheets(result)
        return
    found = compared.comparison(result)
    table = Table(found.headings, found.right, turn=True)
    for cells in found.rows:
        table.add(*cells)
    table.print()
    for variant in result.steps:
        if lines := layouts.rows(variant):
            table = Table(layouts.HEADINGS, layouts.RIGHT, turn=True)
            for line in lines:
                table.add(*line)
            emit(f"\n{layouts.title(variant, alone=len(result.steps) == 1)}")
            table.print()
    if beside := list(background.rows(result)):
        table = Table(background.HEADINGS, background.RIGHT, turn=True)
        for cells in beside:
            table.add(*cells)
        emit("")
        table.print()
