"""ZB-H1: the gradient of the weights waits until a rank would be idle.

Only the gradient of the input is awaited by the stage before. Rank r lets its weight gradients fall r behind, so that
every rank holds as many micro-batches as the first rank of 1F1B does, and runs the rest while the pipeline drains.
"""

from __future__ import annotations

from functools import partial

from railyard.work.training.schedule.sequence import (
    PipelineSchedule,
    Sequence,
    alternate,
    grouped_passes,
    plain_passes,
    schedules,
    with_weights,
)


def _sequences(pp: int, vp: int, micro_batches: int, *, paired: bool = False) -> list[Sequence]:
    plain = vp == 1
    passes = (
        plain_passes(pp, micro_batches, paired=paired)
        if plain
        else grouped_passes(pp, vp, micro_batches, paired=paired)
    )
    return [with_weights(alternate(passes, rank), rank) for rank in range(pp)]


def _bubble(pp: int, _vp: int, _micro_batches: int, forward: float, grad_input: float, grad_weight: float) -> float:
    return (pp - 1) * (forward + grad_input - grad_weight)


ZERO_BUBBLE = schedules.add(
    "zero-bubble",
    PipelineSchedule(
        name="zero-bubble",
        summary="1F1B with weight gradients put off (ZB-H1); idle (p-1)(F+B-W), memory as 1F1B",
        splits_backward=True,
        sequences=_sequences,
        bubble=_bubble,
        paired=partial(_sequences, paired=True),
        source="Qi et al., Zero Bubble Pipeline Parallelism (ICLR 2024), section 3 and Table 2",
    ),
)
