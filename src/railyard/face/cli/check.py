"""`railyard check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.check.check import judged
from railyard.ask.deploy.files import junit
from railyard.face.cli import signals, terminal
from railyard.face.cli.terminal import Progress, Table, emit, say
from railyard.face.report import keep_answer
from railyard.kit.errors import InputError
from railyard.kit.files import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.ask.check.check import Checked


def check(
    scenario: Path, *, sets: Sequence[str], report: Path | None, out: Path | None, as_json: bool, quiet: bool
) -> int:
    """Judges the assertions of a scenario, prints them, and gives the exit code: 1 where one does not hold.

    Raises:
        InputError: The scenario or an assertion is wrong, or the report or the answer cannot be written.
        SimulationError: The run cannot finish.
    """
    signals.ready(once=True)
    if report is not None and not report.parent.is_dir():
        raise InputError("there is no such folder", file=report.parent)
    with Progress(wanted=not quiet) as progress:
        progress("reading the scenario", 0.0)
        draft = terminal.scenario(scenario, sets)
        checked, answer = judged(draft, progress)
    if report is not None and not answer.stopped:
        several = len({one.variant for one in checked}) > 1
        write_text(report, junit(draft.title, [one.case(several=several) for one in checked]))
    failed = sum(not one.outcome.holds for one in checked)
    if as_json:
        emit(answer.text())
    else:
        _table(checked)
        if not quiet:
            say(f"{len(checked) - failed} of {len(checked)} hold")
    if out is not None:
        say(f"report: {keep_answer(answer, out)}/check.html")
    if answer.stopped:
        unwritten = "" if report is None else f", and {report} was not written"
        terminal.so_far(f"{len(checked)} assertions had been judged{unwritten}")
    return int(failed > 0)


def _table(checked: Sequence[Checked]) -> None:
    """A row for every assertion; with its variant where there are several."""
    several = len({one.variant for one in checked}) > 1
    table = Table(("assertion", *(["variant"] if several else []), "holds", "found"))
    for one in checked:
        words = "; ".join(part for part in (one.outcome.found, one.outcome.remark) if part)
        holds = "yes" if one.outcome.holds else "NO"
        table.add(one.assertion, *([one.variant] if several else []), holds, words)
    table.print()
