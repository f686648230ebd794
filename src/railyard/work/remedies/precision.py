"""Fewer bits in matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.remedies import Proposals, Remedy, proposals
from railyard.work.training.parameters import supports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.remedies import Waits
    from railyard.work.training.prepare import Prepared


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """FP8 where the device has units for it."""
    del waits
    training, accelerator = job.training, job.cluster.accelerator
    if training.precision in ("bf16", "fp16") and supports("fp8", accelerator):
        changes = {"workload.training.precision": "fp8"}
        yield Remedy("FP8 precision", "precision", "computation", changes, "the loss converges as in 16 bits")


proposals.add("precision", Proposals("precision", propose, in_run=True))
