"""Money and power of a training step that was simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.bill import bill_of
from railyard.measure.cost.cost import JobFacts
from railyard.measure.cost.evaluate import evaluate
from railyard.measure.cost.parts import parts_of_rows
from railyard.measure.job import Checkpointing
from railyard.work.training.mean_step import lost_in, mtbf_h

if TYPE_CHECKING:
    from railyard.measure.cost.evaluate import Economics
    from railyard.work.training.mean_step import MeanStep
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.spec import Training
    from railyard.work.training.storing import Saved


def economics(job: Prepared, mean: MeanStep) -> Economics:
    """Money and power of a variant with that mean step.

    Raises:
        InputError: The job would never end.
    """
    facts = JobFacts(
        tokens=float(job.training.tokens or job.training.step_tokens),
        tokens_per_step=float(job.training.step_tokens),
        step_s=mean.step_s,
        accelerators=job.cluster.ranks,
        checkpointing=_checkpointing(job.training, mean.saved, mean.step_s),
        lost_s=lost_in(job.training, mean.step_s, mean.lost_s, mtbf_h(job)),
    )
    return evaluate(
        decomposition=mean.shares,
        accelerator=job.cluster.accelerator,
        parts=parts_of_rows(bill_of(job.cluster)),
        job=facts,
        assumptions=job.assumptions,
    )


def _checkpointing(training: Training, saved: Saved, step_s: float) -> Checkpointing:
    section = training.checkpoint
    if section is None:
        return Checkpointing()
    return Checkpointing(
        stall_s=saved.stall_s,
        write_s=saved.write_s,
        interval_s=section.interval_steps * step_s,
        read_s=saved.read_s,
        lost_s=section.memory_interval_steps * step_s if section.memory_copies else None,
    )
