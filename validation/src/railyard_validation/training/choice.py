"""What a run's table leaves open and its people did choose: the micro-batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.errors import InputError
from railyard.workload.training.columns import Columns
from railyard.workload.training.estimate import estimate
from railyard.workload.training.layout import check
from railyard.workload.training.memory import fits
from railyard.workload.training.pipeline_ranks import PipelineRanks
from railyard.workload.training.spec import Training

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.catalog import Model
    from railyard.model.machine import Machine
    from railyard.workload.training.spec import Layout, Precision, SoftwareProfile
    from railyard_validation.training.table import Row

_MICRO_BATCHES = (1, 2, 4, 8, 16)


def settled(
    row: Row, layout: Layout, model: Model, machine: Machine, *, software: SoftwareProfile, precision: Precision
) -> Layout:
    """The layout with the fastest micro-batch that fits, or micro-batch 1 where our memory model finds none.

    Args:
        row: Of the table, without a micro-batch.
        layout: Read off it, with micro-batch 1.
        model: Its architecture.
        machine: Its machine.
        software: Its profile.
        precision: Of its matrix products.
    """
    tried = [
        Training(model=model, layout=one, seq_len=row.integers["seq_len"], software=software, precision=precision)
        for one in _choices(row, layout, model)
    ]
    columns = Columns.of(tried, [machine.accelerator] * len(tried))
    good = [job for job, fit in zip(tried, fits(columns, PipelineRanks.of(tried)), strict=True) if fit]
    if not good:
        return layout
    return good[int(np.argmin(estimate(good, [machine] * len(good)).step_s))].layout


def _choices(row: Row, layout: Layout, model: Model) -> Iterator[Layout]:
    for micro_batch in _MICRO_BATCHES:
        one = layout.replace(micro_batch=micro_batch)
        try:
            check(model, one, row.integers["seq_len"], layout.ranks)
        except InputError:
            continue
        yield one
