"""Predicted against published peak memory, row by row of a table of measured training runs.

What was published differs in what it counts, and each is compared with the same quantity of the model: the peak of what
the framework allocates (Megatron and what is built on it), or the peak of what its allocator holds from the device,
which is more (torchtitan logs `reserved_bytes.all.peak`). Published figures are those of the fullest rank, but for
MLPerf: its logger prints what rank 0 has, which holds the embedding and a layer less.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.work.training.memory import memory
from railyard_validation.training import table as tables
from railyard_validation.training.cases import is_wrong, job_of
from railyard_validation.training.compare import TrainingReport, TrainingResult, skipped

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.catalog import Catalog
    from railyard_validation.training.table import Row

_GIB = 2.0**30
# What a figure counts, where it is not the allocated peak, by what the framework calls itself.
_RESERVED = "torchtitan"


def validate_memory(table: Path, catalog: Catalog) -> TrainingReport:
    """Predicts the peak memory of every run of a table for which one was published.

    Args:
        table: CSV with the columns of `runs.csv`; rows without `mem_gib` are no part of it.
        catalog: For devices and models.

    Raises:
        InputError: The table cannot be read, or has no row with a measured peak.
    """
    rows = [row for row in tables.read(table) if row.get("mem_gib")]
    if not rows:
        raise InputError("no row of the table has a measured peak", file=table, key="mem_gib")
    return TrainingReport(str(table), "memory", tuple(_result(row, catalog) for row in rows))


def _result(row: Row, catalog: Catalog) -> TrainingResult:
    try:
        training, machine, defaults = job_of(row, catalog)
        measured, metric = _measured(row)
    except InputError as error:
        return skipped(row, error.problems[0].headline(), bad=is_wrong(error))
    stages = memory(training, machine.accelerator).rows
    stages = stages[:1] if "rank 0" in metric else stages
    held = max(stage.allocator_bytes if "reserved" in metric else stage.allocated_bytes for stage in stages)
    predicted = held / _GIB
    if not math.isfinite(predicted) or predicted <= 0:
        return skipped(row, "the model gives no finite memory for this configuration")
    return TrainingResult(
        id=row.id,
        line=row.line,
        source=row.get("source_doc"),
        tier=row.get("tier", "A"),
        status="ok",
        metric=metric,
        measured=measured,
        predicted=predicted,
        error=(predicted - measured) / measured,
        profile=training.software.name,
        defaults=defaults,
    )


def _measured(row: Row) -> tuple[float, str]:
    """GiB, and what they count."""
    value = row.real.get("mem_gib")
    if not value:
        raise InputError("the measured peak is zero", key="mem_gib")
    decimal = re.search(
        r"mem(ory)? column is GB|allocated GB|in GB\b", f"{row.get('notes')};{row.get('metric_reported')}"
    )
    gib = value * 1e9 / _GIB if decimal else value
    counted = "reserved by the allocator" if _RESERVED in row.get("framework") else "allocated"
    rank = "rank 0" if "MLPerf" in row.get("source_doc") else "fullest rank"
    return gib, f"peak GiB {counted}, {rank}" + (" (published in GB)" if decimal else "")
