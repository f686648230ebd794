"""The interval between checkpoints that makes the job shortest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.remedies import Proposals, Remedy, proposals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.remedies import Waits
    from railyard.work.training.prepare import Prepared


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """Daly's interval, where the job keeps another."""
    section, steps = job.training.checkpoint, waits.best_interval_steps
    if section is None or steps is None or steps == section.interval_steps:
        return
    changes = {"workload.training.checkpoint.interval_steps": steps}
    yield Remedy(f"a checkpoint every {steps:,} steps", "checkpoint interval", "checkpoints", changes)


proposals.add("checkpoint interval", Proposals("checkpoint interval", propose, in_run=True))
