"""`railyard run`, and how any result is printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from railyard.face.terminal import Table, emit, say
from railyard.graph.exporter import exporters
from railyard.graph.parquet import read_record
from railyard.kit.errors import InputError
from railyard.work.study.presentation import presentation_of

if TYPE_CHECKING:
    from railyard.face import api


_RECORDS = ("timeline.parquet", "flows.parquet", "requests.parquet")
"""Records in folders of runs: of tasks, of flows, of requests."""


def export(run: Path, *, name: str, out: Path | None, quiet: bool) -> None:
    """Writes the record of a run.

    Raises:
        InputError: There is no such run or exporter, or the file cannot be written.
    """
    try:
        exporter = exporters.get(name)
    except InputError as error:
        raise error.located(key="--as") from None
    path = out or Path(f"{run.stem}{exporter.suffix}")
    record = read_record(_file_of(run))
    try:
        exporter.write(record, path)
    except OSError as error:
        raise InputError(f"the file cannot be written: {error.strerror}", file=path, key="--out") from None
    if not quiet:
        say(f"wrote {path}")


def _file_of(run: Path) -> Path:
    """The record of a folder, or the file itself."""
    if not run.is_dir():
        return run
    found = [run / name for name in _RECORDS if (run / name).is_file()]
    if not found:
        raise InputError("the folder holds no record of a run", file=run, allowed=_RECORDS)
    return found[0]


_FAILED = 3
"""Variants that did not end well and are named."""


def early(finished: api.Run) -> str:
    """How far a run came that a signal stopped."""
    failed, there = finished.result.failed or (), finished.result.variants
    total = len(failed) + len(there)
    cut = "; ".join(f"{one.name} was stopped {one.stopped}" for one in finished.result.operated if one.stopped)
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
        if number:
            emit("")
        if sheet.title:
            emit(sheet.title)
        table = Table(sheet.headings, sheet.to_right, turn=True)
        for cells in sheet.rows:
            table.add(*cells)
        table.print()
