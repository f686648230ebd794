"""What the folder of a packet run holds besides the result: flows, completion times, trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.study.traffic.trace import write_trace

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.study.traffic.report import Report


def write_files(folder: Path, report: Report) -> None:
    """Writes every flow as Parquet and as CSV, and a trace for Perfetto."""
    write_parquet(report, folder / "flows.parquet")
    report.write_flows(folder / "fct.csv")
    write_trace(report, folder / "trace.json.gz")


def write_parquet(report: Report, path: Path) -> None:
    """Writes a row a flow; times are null where a flow did not come so far."""
    import polars as pl

    flows, rows = report.flows, np.flatnonzero(report.flows.travels)
    columns = {name: getattr(flows, name)[rows] for name in ("line", "source", "target", "size_bytes")}
    times = {name: getattr(report, name)[rows] for name in ("start_ps", "finish_ps", "receiver_finish_ps")}
    frame = pl.DataFrame({"flow": np.arange(1, len(rows) + 1), **columns, **times})
    known = [pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name) for name in times]
    frame = frame.with_columns(known).with_columns((pl.col("finish_ps") - pl.col("start_ps")).alias("fct_ps"))
    frame.write_parquet(path)
