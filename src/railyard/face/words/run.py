"""Prints results of runs of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.terminal import emit, print_parts, wrapped
from railyard.work.study.presentation import presentation_of

if TYPE_CHECKING:
    from railyard.face import api
    from railyard.measure.result.reading import Result


_NOTES = 2
"""Notes that are printed without `--details`."""
_FAILED = 3
"""Variants that failed and are named."""


def early(finished: api.Run) -> str:
    """Progress of a run that a signal stopped."""
    failed, there = finished.result.failed or (), finished.result.variants
    total = len(failed) + len(there)
    cuts = {one.name: getattr(one, "stopped", None) for one in there}
    cut = "; ".join(f"{name} was stopped {where}" for name, where in cuts.items() if where)
    return f"{cut or f'{len(there)} of {total} variants had ended'}; the same command continues from here"


def failures(finished: api.Run) -> str:
    """Variants that failed, in a sentence; empty where all did."""
    failed = finished.result.failed or ()
    said = "; ".join(f"{one.name}: {one.error}" for one in failed[:_FAILED])
    total = len(failed) + len(finished.result.variants)
    return f"{len(failed)} of {total} variants failed: {said}" if failed else ""


def show(finished: api.Run, *, quiet: bool, details: bool) -> None:
    """The comparison, the reasons for its verdict, notes, and where the report is.

    Args:
        finished: The run.
        quiet: Whether only tables are printed.
        details: Whether all columns and tables are.
    """
    result, shown = finished.result, presentation_of(finished.result)
    _tables(result, details=details)
    if not quiet:
        notes = shown.notes(result)
        hidden = 0 if details else len(notes) - _NOTES
        more = [f"note: {hidden} more with --details and in the report"] if hidden > 1 else []
        lines = [*shown.why(result), *(notes[:_NOTES] if more else notes), *more]
        emit("\n".join(["", *map(wrapped, lines), "", f"report: {finished.report_path}"]))


def first_line(finished: api.Run) -> str:
    """The answer in one sentence."""
    return presentation_of(finished.result).verdict(finished.result)


def _tables(result: Result, *, details: bool) -> None:
    """The comparison, and with `details` the other tables of the result."""
    shown = presentation_of(result)
    sheets = [*shown.sheets(result), *(shown.details(result) if details else ())]
    for number, sheet in enumerate(sheets):
        print_parts(["", sheet] if number else [sheet])
