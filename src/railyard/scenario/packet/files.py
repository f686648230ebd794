"""The folder of a packet run: result, flows, completion times, trace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.scenario.folder import name_of, whole
from railyard.scenario.packet.result import scenario, version
from railyard.scenario.packet.trace import write_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from railyard.scenario.packet.execute import Run
    from railyard.scenario.packet.report import Report


def write_folder(
    given: Run,
    report: Report,
    result: Mapping[str, Any],
    root: Path,
    *,
    more: Callable[[Path], None] = lambda _: None,
) -> Path:
    """Writes the folder of a run, whole or not at all.

    Args:
        given: What was run: the same has the same folder.
        report: What came of it.
        result: The same as `result.json` holds it.
        root: Where the folder is put.
        more: Writes further files into the folder before it is made public.

    Returns:
        The folder.

    Raises:
        InputError: The folder cannot be made.
    """
    name = name_of(scenario(given), version())
    with whole(root, name) as folder:
        text = json.dumps(result, ensure_ascii=False, allow_nan=False, indent=1)
        (folder / "result.json").write_text(text + "\n", encoding="utf-8")
        write_parquet(report, folder / "flows.parquet")
        report.write_flows(folder / "fct.csv")
        write_trace(report, folder / "trace.json.gz")
        more(folder)
    return root / name


def write_parquet(report: Report, path: Path) -> None:
    """Writes a row a flow; times are null where a flow did not come so far."""
    import polars as pl

    flows, rows = report.flows, np.flatnonzero(report.flows.travels)
    said = {name: getattr(flows, name)[rows] for name in ("line", "source", "target", "size_bytes")}
    times = {name: getattr(report, name)[rows] for name in ("start_ps", "finish_ps", "receiver_finish_ps")}
    frame = pl.DataFrame({"flow": np.arange(1, len(rows) + 1), **said, **times})
    known = [pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name) for name in times]
    frame = frame.with_columns(known).with_columns((pl.col("finish_ps") - pl.col("start_ps")).alias("fct_ps"))
    frame.write_parquet(path)
