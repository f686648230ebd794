"""The files of a run whose record is of tasks: Parquet, and some of its ranks for Perfetto."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.graph import parquet, perfetto

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.graph import Record


def write_timeline(folder: Path, record: Record, ranks: Sequence[int]) -> None:
    """Writes `timeline.parquet`, and `trace.json` of the given ranks."""
    parquet.write_record(record, folder / "timeline.parquet")
    perfetto.write(record, folder / "trace.json", ranks=ranks)
