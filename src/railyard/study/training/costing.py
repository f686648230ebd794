"""Money and power of a training step that was simulated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from railyard.cluster.bill import bill_of
from railyard.economics.cost import JobFacts
from railyard.economics.evaluate import evaluate
from railyard.economics.parts import parts_of_rows
from railyard.measure.job import Checkpointing

if TYPE_CHECKING:
    from railyard.economics.evaluate import Economics
    from railyard.study.training.mean_step import MeanStep
    from railyard.study.training.prepare import Prepared
    from railyard.study.training.storing import Saved
    from railyard.workload.training.spec import Training


def lost_in(training: Training, step_s: float, lost_s: float, mtbf_h: float) -> float:
    """What faults take once from the tokens that are priced, s.

    A job without a token budget has no length over which to spread a loss: then it comes once in the job's mean time
    between failures, and a step bears its part of that.

    Args:
        training: The job.
        step_s: Its mean step, without that.
        lost_s: What faults take from the whole job.
        mtbf_h: Mean time between failures of the whole job.
    """
    return lost_s if training.tokens else lost_s * step_s / (mtbf_h * 3600)


def outage_s(job: Prepared, step_s: float, lost_s: float) -> float:
    """What a mean step is longer for what faults take from the whole job once, s."""
    tokens = float(job.training.tokens or job.training.step_tokens)
    return lost_in(job.training, step_s, lost_s, _mtbf_h(job)) / math.ceil(tokens / job.training.step_tokens)


def _mtbf_h(job: Prepared) -> float:
    return job.assumptions.mtbf_h.typical / job.cluster.ranks


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
        lost_s=lost_in(job.training, mean.step_s, mean.lost_s, _mtbf_h(job)),
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
