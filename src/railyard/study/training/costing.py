"""Money and power of a training step that was simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.bill import bill_of
from railyard.economics.cost import JobFacts
from railyard.economics.evaluate import evaluate
from railyard.economics.parts import parts_of_rows
from railyard.measure.job import Checkpointing

if TYPE_CHECKING:
    from railyard.economics.evaluate import Economics
    from railyard.measure.decompose import Decomposition
    from railyard.study.training.prepare import Prepared
    from railyard.study.training.storing import Saved
    from railyard.workload.training.spec import Training


def waited_for_data_s(decomposition: Decomposition) -> float:
    """Seconds of a step in which ranks wait for their samples, mean over ranks."""
    return sum(row.seconds for row in decomposition.rows if row.cause == "data")


def lost_in(job: Prepared, step_s: float, lost_s: float) -> float:
    """What faults take once from the tokens that are priced, s.

    A job without a token budget has no length over which to spread a loss: then it comes once in the job's mean time
    between failures, and a step bears its part of that.
    """
    if job.training.tokens:
        return lost_s
    return lost_s * step_s / (job.assumptions.mtbf_h.typical * 3600 / job.cluster.ranks)


def economics(
    job: Prepared, saved: Saved, decomposition: Decomposition, step_s: float, lost_s: float = 0.0
) -> Economics:
    """Money and power of a variant whose step takes so long, in seconds.

    Args:
        job: The variant.
        saved: What a checkpoint takes.
        decomposition: How its step is spent.
        step_s: Mean step, without what faults take once.
        lost_s: That, of the whole job.

    Raises:
        InputError: The job would never end.
    """
    facts = JobFacts(
        tokens=float(job.training.tokens or job.training.step_tokens),
        tokens_per_step=float(job.training.step_tokens),
        step_s=step_s,
        accelerators=job.cluster.ranks,
        checkpointing=_checkpointing(job.training, saved, step_s),
        lost_s=lost_in(job, step_s, lost_s),
    )
    return evaluate(
        decomposition=decomposition,
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
