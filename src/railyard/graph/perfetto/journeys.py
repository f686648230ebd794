"""Requests through stages for eyes: each stage is a process, and a request a span in every stage that it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.graph.perfetto.tasks import event, metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.graph.record import Record

MOST_REQUESTS = 2_000
_US = 1e-6


def events(record: Record) -> Iterator[str]:
    """Every event of the trace, as JSON.

    Args:
        record: Of journeys, a part a stage.
    """
    for process, (name, visits) in enumerate(record.parts.items()):
        yield metadata("process_name", process, 0, "name", name)
        for visit in np.flatnonzero(visits.ended & (visits.who < MOST_REQUESTS)).tolist():
            row = int(visits.who[visit])
            span = {"cat": name, "id": row, "pid": process, "tid": 0, "name": f"request {row}"}
            yield event(**span, ph="b", ts=float(visits.start_ps[visit]) * _US, args={"request": row})
            yield event(**span, ph="e", ts=float(visits.end_ps[visit]) * _US)
