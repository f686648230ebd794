"""What the folder of a packet run holds besides the result: flows, completion times, trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph import parquet, perfetto

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.graph import Record
    from railyard.work.traffic.report import Report


def write_files(folder: Path, report: Report) -> None:
    """Writes every flow as Parquet and as CSV, and a trace for Perfetto."""
    sent = report.sent
    parquet.write_record(with_figures(sent), folder / "flows.parquet")
    report.write_flows(folder / "fct.csv")
    perfetto.write(sent, folder / "trace.json.gz", link_name=report.link_name)


def with_figures(sent: Record) -> Record:
    """Flows with their numbers and completion times as columns."""
    figures: dict[str, NDArray[Any]] = {
        "flow": np.arange(1, len(sent) + 1),
        "source": sent.who,
        "finish_ps": sent.end_ps,
        "fct_ps": sent.duration_ps,
    }
    return replace(sent, optional={**sent.optional, **figures})
