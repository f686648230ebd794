"""Fewer bits in matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.study.remedies import Proposals, Remedy, proposals
from railyard.study.remedies.changed import retrained
from railyard.workload.training.precision import supports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.study.remedies import Waits
    from railyard.study.training.prepare import Prepared


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """FP8 where the device has units for it."""
    del waits
    training, accelerator = job.training, job.cluster.accelerator
    if training.precision in ("bf16", "fp16") and supports("fp8", accelerator):
        changed = training.replace(precision="fp8")
        yield Remedy("FP8 products", "precision", "computation", lambda: retrained(job, changed))


proposals.add("precision", Proposals("precision", propose))
