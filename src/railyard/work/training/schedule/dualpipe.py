"""DualPipe: micro-batches enter at both ends, and each rank computes one of either direction in one overlapped chunk.

Rank r holds stage r for the one direction and stage p - 1 - r for the other, so every stage is held twice. In the
middle of a step a forward pass of one direction and a backward pass of the other are one chunk, in which the all-to-all
of each runs under the computation of the other; what it received at its start it sends on at its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.work.training.schedule.sequence import Op, PipelineSchedule, Sequence, schedules

if TYPE_CHECKING:
    from collections.abc import Iterator

# (operation, direction as the rank's own half of the pipeline sees it, is a whole backward pass, joins the one before)
Step = tuple[Op, int, bool, bool]

_FULL, _INPUT = True, False


def _steps(pp: int, micro_batches: int, rank: int) -> Iterator[Step]:
    """The eight stretches of a step; counts depend on the distance to the nearer end."""
    half, near = pp // 2, min(rank, pp - 1 - rank)
    middle, rest = near == half - 1, half - near - 1
    for _ in range(2 * rest):
        yield _forward(0)
    for _ in range(near + 1):
        yield _forward(0)
        yield _forward(1)
    for _ in range(rest):
        yield _backward(1, _INPUT)
        yield _weight()
        yield _forward(1)
    for turn in range(micro_batches // 2 - pp + near + 1):
        yield from (_forward(0), _backward(1, _FULL)) if middle and turn == 0 else _pair(0, 1)
        yield from _pair(1, 0)
    for _ in range(rest):
        yield _backward(1, _FULL)
        yield from _pair(1, 0)
    yield from _drain(near, rest)


def _drain(near: int, rest: int) -> Iterator[Step]:
    put_off = False
    for turn in range(near + 1):
        last = turn == (near + 1) // 2
        put_off |= last and near % 2 == 1
        yield _backward(1, not put_off)
        put_off |= last and near % 2 == 0
        yield _backward(0, not put_off)
    for _ in range(rest):
        yield _weight()
        yield _backward(0, _INPUT)
    for _ in range(near + 1):
        yield _weight()


def _forward(direction: int) -> Step:
    return Op.FORWARD, direction, False, False


def _backward(direction: int, full: bool) -> Step:
    return Op.BACKWARD, direction, full, False


def _weight() -> Step:
    return Op.WEIGHT, -1, False, False


def _pair(forward: int, backward: int) -> tuple[Step, Step]:
    return _forward(forward), (Op.BACKWARD, backward, True, True)


def _sequence(pp: int, micro_batches: int, rank: int) -> Sequence:
    """Micro-batches of each direction in turn; put-off weight gradients come first in, first out."""
    done = {(op, chunk): 0 for op in (Op.FORWARD, Op.BACKWARD) for chunk in (0, 1)}
    put_off: list[tuple[int, int]] = []
    rows: list[tuple[int, int, int, bool, bool]] = []
    for op, direction, full, joins in _steps(pp, micro_batches, rank):
        if op is Op.WEIGHT:
            chunk, micro = put_off.pop(0)
        else:
            chunk = direction ^ int(rank >= pp // 2)
            micro = chunk * (micro_batches // 2) + done[op, chunk]
            done[op, chunk] += 1
            if op is Op.BACKWARD and not full:
                put_off.append((chunk, micro))
        rows.append((op, chunk, micro, full, joins))
    op_, chunk_, micro_, full_, joins_ = zip(*rows, strict=True)
    return Sequence(
        np.array(op_, np.uint8),
        np.array(chunk_, np.int32),
        np.array(micro_, np.int32),
        full=np.array(full_, np.bool_),
        joins=np.array(joins_, np.bool_),
    )


def _sequences(pp: int, vp: int, micro_batches: int) -> list[Sequence]:
    for wrong, key, found, allowed in (
        (vp != 1, "vp", vp, "1: a rank holds a stage of each direction"),
        (pp % 2 != 0, "pp", pp, "an even number of stages"),
        (micro_batches % 2 != 0 or micro_batches < 2 * pp, "micro_batches", micro_batches, f"even, at least {2 * pp}"),
    ):
        if wrong:
            raise InputError("DualPipe runs in both directions at once", key=key, found=found, allowed=allowed)
    return [_sequence(pp, micro_batches, rank) for rank in range(pp)]


def _bubble(pp: int, _vp: int, _micro_batches: int, forward: float, grad_input: float, grad_weight: float) -> float:
    backward = grad_input + grad_weight
    return (pp / 2 - 1) * (forward + backward + backward - 3 * grad_weight)


DUALPIPE = schedules.add(
    "dualpipe",
    PipelineSchedule(
        name="dualpipe",
        summary="Both directions at once, forward and backward overlapped; idle (p/2-1)(F&B+B-3W), parameters twice",
        splits_backward=True,
        sequences=_sequences,
        bubble=_bubble,
        source="DeepSeek-V3 technical report (arXiv 2412.19437), section 3.2.1 and table 2; deepseek-ai/DualPipe",
        mirrored=True,
    ),
)
