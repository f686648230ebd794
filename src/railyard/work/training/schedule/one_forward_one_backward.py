"""1F1B: after a warm-up, each rank runs one forward and one backward pass in turn.

Of four ranks the first runs F0 F1 F2 F3, waits, then B0 F4 B1 F5 B2 ..., the last waits, then F0 B0 F1 B1 F2 B2 ...
"""

from __future__ import annotations

from functools import partial

from railyard.kit.errors import InputError
from railyard.work.training.schedule.sequence import PipelineSchedule, Sequence, alternate, plain_passes, schedules


def _sequences(pp: int, vp: int, micro_batches: int, *, paired: bool = False) -> list[Sequence]:
    if vp != 1:
        raise InputError(
            "the 1F1B schedule has one virtual stage a rank",
            key="vp",
            found=vp,
            allowed=1,
            hint="the schedule `interleaved` has several",
        )
    passes = plain_passes(pp, micro_batches, paired=paired)
    return [alternate(passes, rank) for rank in range(pp)]


def _bubble(pp: int, _vp: int, _micro_batches: int, forward: float, grad_input: float, grad_weight: float) -> float:
    return (pp - 1) * (forward + grad_input + grad_weight)


ONE_FORWARD_ONE_BACKWARD = schedules.add(
    "1f1b",
    PipelineSchedule(
        name="1f1b",
        summary="One forward, one backward pass in turn; idle (p-1)/m of the computing time",
        splits_backward=False,
        sequences=_sequences,
        bubble=_bubble,
        paired=partial(_sequences, paired=True),
        source="Narayanan et al., PipeDream-2BW (2020) and Megatron-LM (SC 2021), section 2.2.1",
    ),
)
