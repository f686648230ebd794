"""What the folder of a pipeline's run holds besides the report: every request as a table, and a trace for Perfetto.

In the trace each stage is a track of its own, and a request a span in every stage that it takes, with arrows between.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from railyard.engine.stages import Journey
    from railyard.graph.request_table import RequestTable
    from railyard.measure.serving.served import Served

MOST_REQUESTS = 2_000
_US = 1e-6


def write_variant(folder: Path, journey: Journey[RequestTable], found: Served) -> None:
    """Writes `requests.parquet` and `trace.json`."""
    import polars as pl

    columns = {name: getattr(found, name) for name in found.__dataclass_fields__}
    for visit in journey.visits:
        begin, end = np.full((2, len(found)), np.nan)
        if visit.passed is not None:
            begin[visit.rows] = visit.begin.at_ps[visit.rows] * 1e-12
            end[visit.rows] = np.where(visit.passed.end_ps >= 0, visit.passed.end_ps * 1e-12, np.nan)
        columns |= {f"{visit.name}_begin_s": begin, f"{visit.name}_end_s": end}
    pl.DataFrame(columns).write_parquet(folder / "requests.parquet")
    events = {"traceEvents": list(_events(journey)), "displayTimeUnit": "ms"}
    (folder / "trace.json").write_text(json.dumps(events, separators=(",", ":")), encoding="utf-8")


def _events(journey: Journey[RequestTable]) -> Iterator[dict[str, Any]]:
    for number, visit in enumerate(journey.visits):
        yield {"ph": "M", "name": "process_name", "pid": number, "tid": 0, "args": {"name": visit.name}}
        if visit.passed is None:
            continue
        for place, row in enumerate(visit.rows.tolist()):
            end = int(visit.passed.end_ps[place])
            if row >= MOST_REQUESTS or end < 0:
                continue
            span = {"cat": visit.name, "id": row, "pid": number, "tid": 0, "name": f"request {row}"}
            yield {**span, "ph": "b", "ts": float(visit.begin.at_ps[row]) * _US, "args": {"request": row}}
            yield {**span, "ph": "e", "ts": float(end) * _US}
