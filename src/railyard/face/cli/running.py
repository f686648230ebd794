"""`railyard run`, and how any result is printed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from railyard.face import api
from railyard.face.api import background, compared, layouts, operated, wide, words
from railyard.face.cli import messages, signals
from railyard.face.cli.progress import Progress
from railyard.face.cli.tables import Table, emit
from railyard.kit.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from railyard.face.api.operated import Sheet
    from railyard.measure.result.result import Result

_FAILED = 3
"""Variants that did not end well and are named."""


def run(
    scenario: Path,
    *,
    sets: Sequence[str],
    varies: Sequence[str],
    engine: str | None,
    out: Path,
    as_json: bool,
    quiet: bool,
    ray: str | None = None,
) -> None:
    """Runs a scenario and prints the comparison, or the result as JSON.

    Raises:
        InputError: The scenario is wrong.
        SimulationError: The run cannot finish, or a variant could not; those that could are printed and kept.
    """
    from railyard.work.study.workers import workers

    signals.ready(once=True)
    pool = None if ray is None else partial(workers, ray)
    with Progress(wanted=not quiet) as progress:
        progress("reading the scenario", 0.0)
        finished = api.execute(
            messages.scenario(scenario, sets), varies, engine=engine, pool=pool, out=out, progress=progress
        )
    tell(finished, as_json=as_json, quiet=quiet)
    failed = finished.result.failed or ()
    total = len(failed) + len(finished.result.variants)
    if signals.came():
        early = "; ".join(f"{one.name} was stopped {one.stopped}" for one in finished.result.operated if one.stopped)
        ended = early or f"{total - len(failed)} of {total} variants had ended"
        messages.so_far(f"{ended}; the same command goes on from here")
    if failed:
        said = "; ".join(f"{one.name}: {one.error}" for one in failed[:_FAILED])
        raise SimulationError(f"{len(failed)} of {total} variants did not end well: {said}")


def tell(finished: api.Run, *, as_json: bool, quiet: bool) -> None:
    """The comparison, why it came out so, and where the report is; or the result as JSON."""
    if as_json:
        emit(finished.result.text())
        return
    show(finished)
    if not quiet:
        text = "\n".join([words.why(finished.result), *words.notes(finished.result)])
        emit(f"\n{text}\n\nreport: {finished.report_path}")


def _sheets(sheets: Iterator[Sheet]) -> None:
    """Tables one below the other."""
    for number, sheet in enumerate(sheets):
        if number:
            emit("")
        _table(compared.Comparison(sheet.headings, range(1, len(sheet.headings)), sheet.rows))


def show(finished: api.Run) -> None:
    """The comparison as tables."""
    result = finished.result
    if operated.are_operated(result):
        _sheets(operated.sheets(result))
        return
    if wide.are_wide(result):
        _sheets(wide.sheets(result))
        return
    _table(compared.comparison(result))
    if "runs" not in result.scenario:  # of kept runs each has been shown with its layouts when it was run
        _layouts(result)
    if rows := list(background.rows(result)):
        emit("")
        _table(compared.Comparison(background.HEADINGS, background.RIGHT, rows))


def _layouts(result: Result) -> None:
    for variant in result.steps:
        if lines := layouts.rows(variant):
            emit(f"\n{layouts.title(variant, alone=len(result.steps) == 1)}")
            _table(compared.Comparison(layouts.HEADINGS, layouts.RIGHT, list(lines)))


def _table(found: compared.Comparison) -> None:
    table = Table(found.headings, found.right, turn=True)
    for cells in found.rows:
        table.add(*cells)
    table.print()
