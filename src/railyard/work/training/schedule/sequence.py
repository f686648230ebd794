"""What a pipeline rank does, one operation after another, and the pieces that schedules are put together from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray


class Op(IntEnum):
    """An operation of one virtual stage on one micro-batch."""

    FORWARD = 0
    BACKWARD = 1  # the whole backward pass, or the gradient of the input alone where the schedule splits it
    WEIGHT = 2  # the gradient of the weights, where the schedule splits the backward pass


@dataclass(frozen=True)
class Sequence:
    """The operations of one pipeline rank in the order of their execution.

    Attributes:
        op: uint8[n], an `Op`.
        chunk: int32[n], which of the rank's virtual stages; stage `chunk * pp + rank` of the model.
        micro_batch: int32[n].
        full: bool[n], input gradients that the weight gradients of the same pass go with; None: none, unless the
            schedule splits no backward pass at all.
        joins: bool[n], operations that are one overlapped chunk with the one before; None: none.
    """

    op: NDArray[np.uint8]
    chunk: NDArray[np.int32]
    micro_batch: NDArray[np.int32]
    full: NDArray[np.bool_] | None = None
    joins: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.op)


@dataclass(frozen=True)
class PipelineSchedule:
    """A pipeline schedule: this record is its registration, its documentation and its test subject.

    Attributes:
        splits_backward: Whether the gradients of input and weights are separate operations.
        sequences: (pp, vp, micro-batches) -> the sequence of every pipeline rank.
        bubble: (pp, vp, micro-batches, forward, input, weight) -> idle time of a rank in one step when every stage
            takes the same time and transfers take none; the three times are those of ONE virtual stage on one
            micro-batch, and the answer is in their unit. Exact for `micro-batches` a multiple of `pp`.
        paired: The same sequences with each forward pass joined to the backward pass of another micro-batch, so that
            what either exchanges hides under the other; None where a schedule has such pairs by itself, or cannot.
        mirrored: Every rank holds two stages, its own and that of its mirror image in the pipeline, and micro-batches
            run in both directions. `chunk` then is the direction.
    """

    name: str
    summary: str
    splits_backward: bool
    sequences: Callable[[int, int, int], list[Sequence]]
    bubble: Callable[[int, int, int, float, float, float], float]
    source: str
    paired: Callable[[int, int, int], list[Sequence]] | None = None
    mirrored: bool = False


schedules: Registry[PipelineSchedule] = Registry("pipeline schedule", package="railyard.work.training.schedule")


@dataclass(frozen=True)
class Passes:
    """The order in which a rank goes through its chunks and micro-batches, forward and backward.

    Attributes:
        chunk: int32[n], virtual stage of the k-th forward pass; the k-th backward pass is of `vp - 1 - chunk[k]`.
        micro_batch: int32[n], of the k-th forward and of the k-th backward pass.
        vp: Virtual stages of a rank.
        warm_up: Forward passes of each rank before its first backward pass.
        paired: Behind the warm-up each forward pass is one chunk with the backward pass that follows it.
    """

    chunk: NDArray[np.int32]
    micro_batch: NDArray[np.int32]
    vp: int
    warm_up: list[int]
    paired: bool = False


def plain_passes(pp: int, micro_batches: int, *, paired: bool = False) -> Passes:
    """One virtual stage a rank: rank r is `pp - 1 - r` forward passes ahead of its backward passes.

    Paired, what a forward pass gives leaves with the end of its chunk, so that a micro-batch takes a whole chunk from
    rank to rank, and rank r must be `2 (pp - 1 - r) + 1` ahead.
    """
    micro = np.arange(micro_batches, dtype=np.int32)
    ahead = [2 * (pp - 1 - rank) + 1 if paired else pp - 1 - rank for rank in range(pp)]
    return Passes(np.zeros_like(micro), micro, 1, [min(many, micro_batches) for many in ahead], paired)


def grouped_passes(pp: int, vp: int, micro_batches: int, *, paired: bool = False) -> Passes:
    """Micro-batches go through all chunks of a rank in groups of `pp`, as in Megatron-LM.

    Rank r runs `2 (pp - 1 - r) + (vp - 1) g` forward passes ahead, g being the size of the first group. Megatron-LM
    wants an integer of groups. Where it is none, the first group takes the remainder too: a later group larger
    than the first, or one smaller than `pp`, would make a rank wait for itself. Fewer micro-batches than ranks all run
    forward first, for the same reason. Paired, each is one further ahead, as in Megatron-LM's
    `overlap-moe-expert-parallel-comm`.
    """
    first = pp + micro_batches % pp if micro_batches >= pp else micro_batches
    starts = [0, *range(first, micro_batches, pp)]
    ends = [*starts[1:], micro_batches]
    groups = [np.arange(start, end, dtype=np.int32) for start, end in zip(starts, ends, strict=True)]
    micro = np.concatenate([np.tile(group, vp) for group in groups])
    chunk = np.concatenate([np.repeat(np.arange(vp, dtype=np.int32), len(group)) for group in groups])
    total = vp * micro_batches
    ahead = (vp - 1) * first if micro_batches >= pp else total
    warm_up = [min(2 * (pp - 1 - rank) + ahead + paired, total) for rank in range(pp)]
    return Passes(chunk, micro, vp, warm_up, paired)


def alternate(passes: Passes, rank: int) -> Sequence:
    """Warm-up, then one forward and one backward pass in turn, then the backward passes that are left."""
    total, warm = len(passes.chunk), passes.warm_up[rank]
    steady = total - warm
    number = np.arange(total)
    # The position of a pass: before it run all passes of its own direction with smaller numbers, and of the other
    # direction those that the alternation has let through.
    forward_at = number + np.maximum(number - warm, 0)
    backward_at = number + np.minimum(number + 1, steady) + warm
    op = np.empty(2 * total, np.uint8)
    chunk = np.empty(2 * total, np.int32)
    micro = np.empty(2 * total, np.int32)
    op[forward_at], op[backward_at] = Op.FORWARD, Op.BACKWARD
    chunk[forward_at], chunk[backward_at] = passes.chunk, passes.vp - 1 - passes.chunk
    micro[forward_at], micro[backward_at] = passes.micro_batch, passes.micro_batch
    joins = np.zeros(2 * total, np.bool_)
    joins[backward_at[:steady]] = passes.paired
    return Sequence(op, chunk, micro, joins=joins)


def with_weights(sequence: Sequence, lag: int) -> Sequence:
    """The same sequence with the weight gradients behind the input gradients, `lag` of them.

    Input gradient k >= lag is followed by weight gradient k - lag; what is left runs at the end.
    """
    inputs = np.flatnonzero(sequence.op == Op.BACKWARD)
    after = np.concatenate([inputs[lag:], np.full(min(lag, len(inputs)), len(sequence), np.int64)])
    at = after + np.where(after < len(sequence), 1, 0)
    return Sequence(
        np.insert(sequence.op, at, np.uint8(Op.WEIGHT)),
        np.insert(sequence.chunk, at, sequence.chunk[inputs]),
        np.insert(sequence.micro_batch, at, sequence.micro_batch[inputs]),
        joins=None if sequence.joins is None else np.insert(sequence.joins, at, False),
    )


def _one_forward_one_backward_sequences(
    pp: int, vp: int, micro_batches: int, *, paired: bool = False
) -> list[Sequence]:
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


def _filling_bubble(
    pp: int, _vp: int, _micro_batches: int, forward: float, grad_input: float, grad_weight: float
) -> float:
    """Bubble of schedules that fill and drain stage by stage."""
    return (pp - 1) * (forward + grad_input + grad_weight)


ONE_FORWARD_ONE_BACKWARD = schedules.add(
    "1f1b",
    PipelineSchedule(
        name="1f1b",
        summary="One forward, one backward pass in turn; idle (p-1)/m of the computing time",
        splits_backward=False,
        sequences=_one_forward_one_backward_sequences,
        bubble=_filling_bubble,
        paired=partial(_one_forward_one_backward_sequences, paired=True),
        source="Narayanan et al., PipeDream-2BW (2020) and Megatron-LM (SC 2021), section 2.2.1",
    ),
)


def _interleaved_sequences(pp: int, vp: int, micro_batches: int, *, paired: bool = False) -> list[Sequence]:
    passes = grouped_passes(pp, vp, micro_batches, paired=paired)
    return [alternate(passes, rank) for rank in range(pp)]


INTERLEAVED = schedules.add(
    "interleaved",
    PipelineSchedule(
        name="interleaved",
        summary="1F1B over several virtual stages a rank; idle (p-1)/(v m) of the computing time",
        splits_backward=False,
        sequences=_interleaved_sequences,
        bubble=_filling_bubble,
        paired=partial(_interleaved_sequences, paired=True),
        source="Narayanan et al., Megatron-LM (SC 2021), section 2.2.2",
    ),
)


def _zero_bubble_sequences(pp: int, vp: int, micro_batches: int, *, paired: bool = False) -> list[Sequence]:
    given = (pp, micro_batches) if vp == 1 else (pp, vp, micro_batches)
    passes = (plain_passes if vp == 1 else grouped_passes)(*given, paired=paired)
    return [with_weights(alternate(passes, rank), rank) for rank in range(pp)]


def _zero_bubble_bubble(
    pp: int, _vp: int, _micro_batches: int, forward: float, grad_input: float, grad_weight: float
) -> float:
    return (pp - 1) * (forward + grad_input - grad_weight)


ZERO_BUBBLE = schedules.add(
    "zero-bubble",
    PipelineSchedule(
        name="zero-bubble",
        summary="1F1B with weight gradients put off (ZB-H1); idle (p-1)(F+B-W), memory as 1F1B",
        splits_backward=True,
        sequences=_zero_bubble_sequences,
        bubble=_zero_bubble_bubble,
        paired=partial(_zero_bubble_sequences, paired=True),
        source="Qi et al., Zero Bubble Pipeline Parallelism (ICLR 2024), section 3 and Table 2",
    ),
)


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


def _dualpipe_sequences(pp: int, vp: int, micro_batches: int) -> list[Sequence]:
    for wrong, key, found, allowed in (
        (vp != 1, "vp", vp, "1: a rank holds a stage of each direction"),
        (pp % 2 != 0, "pp", pp, "an even number of stages"),
        (micro_batches % 2 != 0 or micro_batches < 2 * pp, "micro_batches", micro_batches, f"even, at least {2 * pp}"),
    ):
        if wrong:
            raise InputError("DualPipe runs in both directions at once", key=key, found=found, allowed=allowed)
    return [_sequence(pp, micro_batches, rank) for rank in range(pp)]


def _dualpipe_bubble(
    pp: int, _vp: int, _micro_batches: int, forward: float, grad_input: float, grad_weight: float
) -> float:
    backward = grad_input + grad_weight
    return (pp / 2 - 1) * (forward + backward + backward - 3 * grad_weight)


DUALPIPE = schedules.add(
    "dualpipe",
    PipelineSchedule(
        name="dualpipe",
        summary="Both directions at once, forward and backward overlapped; idle (p/2-1)(F&B+B-3W), parameters twice",
        splits_backward=True,
        sequences=_dualpipe_sequences,
        bubble=_dualpipe_bubble,
        source="DeepSeek-V3 technical report (arXiv 2412.19437), section 3.2.1 and table 2; deepseek-ai/DualPipe",
        mirrored=True,
    ),
)
