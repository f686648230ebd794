"""What the folder of a pipeline's run holds besides the report: every request as a table, and a trace for Perfetto."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import parquet, perfetto

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.graph import Record
    from railyard.measure.serving.served import Served


def write_variant(folder: Path, journey: Record, found: Served) -> None:
    """Writes `requests.parquet`, with figures of each request, a file of visits for each stage, and `trace.json`."""
    figures = {name: getattr(found, name) for name in found.__dataclass_fields__}
    for name, visits in journey.parts.items():
        figures[f"{name}_begin_s"] = _by_request(visits, visits.start_ps, len(journey))
        figures[f"{name}_end_s"] = _by_request(visits, visits.end_ps, len(journey))
    parquet.write_record(journey, folder / "requests.parquet", figures=figures)
    perfetto.write(journey, folder / "trace.json")


def _by_request(visits: Record, time_ps: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Seconds, a row a request; NaN for those that did not come so far."""
    found = np.full(count, np.nan)
    found[visits.who] = np.where(time_ps >= 0, time_ps * 1e-12, np.nan)
    return found
