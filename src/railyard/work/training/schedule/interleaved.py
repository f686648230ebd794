"""Interleaved 1F1B: each rank holds `vp` stretches of the model, and the pipeline fills vp times sooner."""

from __future__ import annotations

from functools import partial

from railyard.work.training.schedule.sequence import PipelineSchedule, Sequence, alternate, grouped_passes, schedules


def _sequences(pp: int, vp: int, micro_batches: int, *, paired: bool = False) -> list[Sequence]:
    passes = grouped_passes(pp, vp, micro_batches, paired=paired)
    return [alternate(passes, rank) for rank in range(pp)]


def _bubble(pp: int, _vp: int, _micro_batches: int, forward: float, grad_input: float, grad_weight: float) -> float:
    return (pp - 1) * (forward + grad_input + grad_weight)


INTERLEAVED = schedules.add(
    "interleaved",
    PipelineSchedule(
        name="interleaved",
        summary="1F1B over several virtual stages a rank; idle (p-1)/(v m) of the computing time",
        splits_backward=False,
        sequences=_sequences,
        bubble=_bubble,
        paired=partial(_sequences, paired=True),
        source="Narayanan et al., Megatron-LM (SC 2021), section 2.2.2",
    ),
)
