"""`railyard export`: what happened in a run, in a file format for another program."""

from __future__ import annotations

from pathlib import Path

from railyard.face.cli.messages import say
from railyard.graph.exporter import exporters
from railyard.graph.parquet import read_record
from railyard.kit.errors import InputError

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
