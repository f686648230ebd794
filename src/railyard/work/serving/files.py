"""What the folder of a serving run holds besides the report: every request as a table, and a trace for Perfetto."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import parquet, perfetto

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.graph import Record
    from railyard.measure.serving.served import Served
    from railyard.work.serving.prepare import ServingJob


def write_variant(folder: Path, job: ServingJob, run: Record, found: Served) -> None:
    """Writes `requests.parquet`, with the figures of each request, and `trace.json`."""
    arrived = replace(run, start_ps=np.asarray(job.requests.arrival_ps, np.int64))
    figures = {name: getattr(found, name) for name in found.__dataclass_fields__}
    parquet.write_record(arrived, folder / "requests.parquet", figures={**figures, "replica": run.who})
    pool = job.deployment.pool_of_replica
    perfetto.write(arrived, folder / "trace.json", who_name=lambda one: f"{job.pools[pool[one]].role} {one}")
