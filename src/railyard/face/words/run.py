"""Prints results of runs of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.terminal import emit, print_parts
from railyard.work.study.presentation import presentation_of

if TYPE_CHECKING:
    from railyard.face import api


_FAILED = 3
"""Variants that did not end well and are named."""


def early(finished: api.Run) -> str:
    """Progress of a run that a signal stopped."""
    failed, there = finished.result.failed or (), finished.result.variants
    total = len(failed) + len(there)
    cuts = {one.name: getattr(one, "stopped", None) for one in there}
    cut = "; ".join(f"{name} was stopped {where}" for name, where in cuts.items() if where)
    return f"{cut or f'{len(there)} of {total} variants had ended'}; the same command goes on from here"


def failures(finished: api.Run) -> str:
    """Variants that did not end well, in a sentence; empty where all did."""
    failed = finished.result.failed or ()
    said = "; ".join(f"{one.name}: {one.error}" for one in failed[:_FAILED])
    total = len(failed) + len(finished.result.variants)
    return f"{len(failed)} of {total} variants did not end well: {said}" if failed else ""


def show(finished: api.Run, *, quiet: bool) -> None:
    """The comparison, why it came out so, and where the report is."""
    tables(finished)
    if not quiet:
        shown = presentation_of(finished.result)
        text = "\n".join([shown.why(finished.result), *shown.notes(finished.result)])
        emit(f"\n{text}\n\nreport: {finished.report_path}")


def tables(finished: api.Run) -> None:
    """The comparison and the other tables of the result."""
    for number, sheet in enumerate(presentation_of(finished.result).sheets(finished.result)):
        print_parts(["", sheet] if number else [sheet])
