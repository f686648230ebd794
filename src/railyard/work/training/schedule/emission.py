"""All pipeline ranks' operations in one order, in which none precedes what it waits for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.work.training.schedule.sequence import Op, Sequence

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Emission:
    """The operations of all pipeline ranks, sorted by when they start on an ideal network.

    Attributes:
        stage: int32[n], pipeline rank.
        virtual_stage: int32[n], `chunk * pp + stage`: place in the model, 0 holds the embedding.
        micro_batch: int32[n].
        op: uint8[n], an `Op`.
        full: bool[n], input gradients that the weight gradients of the same pass go with.
        joins: bool[n], operations that are one chunk with the one before them on their rank: both start when both may,
            and what either sends leaves at the end of both.
        awaited: int64[n], the operation of another virtual stage that each waits for, -1 where there is none.
        start_ps: int64[n], with transfers that take no time.
        finish_ps: End of the last operation.
    """

    stage: NDArray[np.int32]
    virtual_stage: NDArray[np.int32]
    micro_batch: NDArray[np.int32]
    op: NDArray[np.uint8]
    full: NDArray[np.bool_]
    joins: NDArray[np.bool_]
    awaited: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    finish_ps: int

    def __len__(self) -> int:
        return len(self.op)

    def partners(self) -> NDArray[np.int64]:
        """int64[n]: the other operation of each chunk of two, -1 for operations by themselves."""
        found = np.full(len(self), -1, np.int64)
        order = np.argsort(self.stage, kind="stable")
        second = np.flatnonzero(self.joins[order])
        found[order[second]], found[order[second - 1]] = order[second - 1], order[second]
        return found


def emit(sequences: list[Sequence], vp: int, duration_ps: NDArray[np.int64], *, mirrored: bool = False) -> Emission:
    """Runs the sequences against each other on an ideal network.

    Args:
        sequences: One a pipeline rank.
        vp: Virtual stages of a rank.
        duration_ps: int64[virtual stages, 3], time of each `Op`.
        mirrored: The second virtual stage of a rank is that of its mirror image, in the other direction.

    Raises:
        InputError: The sequences deadlock.
    """
    pp = len(sequences)
    columns = [_columns(sequence, rank, pp) for rank, sequence in enumerate(sequences)]
    stage, virtual, micro, op = (np.concatenate([column[i] for column in columns]) for i in range(4))
    full, joins = (_flags(sequences, name) for name in ("full", "joins"))
    awaited = _awaited(virtual, micro, op, _chain(pp, vp, mirrored=mirrored))
    duration = duration_ps[virtual, op] + full * duration_ps[virtual, Op.WEIGHT]
    first = np.concatenate([[0], np.cumsum([len(sequence) for sequence in sequences])])
    place, start, end = _run(first.tolist(), awaited.tolist(), duration.tolist(), joins.tolist())
    if len(place) < len(op):
        raise InputError("the pipeline schedule waits for itself", found=f"{len(place)} of {len(op)} run")
    order = np.array(place, np.int64)
    starts = np.array(start, np.int64)
    order = order[np.argsort(starts[order], kind="stable")]
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    needs = awaited[order]
    needs = np.where(needs >= 0, position[needs], -1)
    finish = max(end, default=0)
    flags = full[order], joins[order]
    return Emission(stage[order], virtual[order], micro[order], op[order], *flags, needs, starts[order], finish)


def _flags(sequences: list[Sequence], name: str) -> NDArray[np.bool_]:
    found = [getattr(sequence, name) for sequence in sequences]
    columns = zip(found, sequences, strict=True)
    return np.concatenate([np.zeros(len(s), np.bool_) if flags is None else flags for flags, s in columns])


def _chain(pp: int, vp: int, *, mirrored: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each virtual stage the one before and the one behind it in the model, -1 where there is none."""
    total = pp * vp
    behind = np.arange(1, total + 1)
    before = np.arange(-1, total - 1)
    behind[-1] = -1
    if mirrored:  # stage p - 1 - r of the second copy is virtual stage p + r
        behind[pp - 1] = -1
        behind[pp:], before[pp:] = np.arange(pp - 1, total - 1), np.arange(pp + 1, total + 1)
        behind[pp], before[-1] = -1, -1
    return before, behind


def _columns(sequence: Sequence, rank: int, pp: int) -> tuple[NDArray[np.integer], ...]:
    stage = np.full(len(sequence), rank, np.int32)
    return stage, sequence.chunk * np.int32(pp) + np.int32(rank), sequence.micro_batch, sequence.op


def _awaited(
    virtual: NDArray[np.int32],
    micro: NDArray[np.int32],
    op: NDArray[np.uint8],
    chain: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """For each operation the one of another stage that it waits for, -1 where there is none."""
    batches = int(micro.max(initial=0)) + 1
    before, behind = chain
    where = np.full((3, len(before) + 1, batches), -1, np.int64)  # the last row is of the stage -1
    where[op, virtual, micro] = np.arange(len(op))
    awaited = np.full(len(op), -1, np.int64)
    forward, backward = op == Op.FORWARD, op == Op.BACKWARD
    last = backward & (behind[virtual] < 0)
    awaited[forward] = where[Op.FORWARD, before[virtual], micro][forward]
    awaited[backward] = where[Op.BACKWARD, behind[virtual], micro][backward]
    awaited[last] = where[Op.FORWARD, virtual, micro][last]
    return awaited


def _run(
    first: list[int], awaited: list[int], duration: list[int], joins: list[bool]
) -> tuple[list[int], list[int], list[int]]:
    """Each rank runs as far as it can, and wakes those that waited for what it has run."""
    n = first[-1]
    start, end, place = [0] * n, [-1] * n, []
    waiting: dict[int, list[int]] = {}
    at, free = first[:-1], [0] * (len(first) - 1)
    ready = deque(range(len(at)))
    while ready:
        rank = ready.popleft()
        task, stop, now = at[rank], first[rank + 1], free[rank]
        while task < stop:
            chunk = range(task, task + 1 + (task + 1 < stop and joins[task + 1]))
            needs = [awaited[each] for each in chunk if awaited[each] >= 0]
            missing = next((need for need in needs if end[need] < 0), -1)
            if missing >= 0:
                waiting.setdefault(missing, []).append(rank)
                break
            now = max(now, *(end[need] for need in needs)) if needs else now
            for each in chunk:
                start[each] = now
                now += duration[each]
            for each in chunk:
                end[each] = now
                place.append(each)
                ready.extend(waiting.pop(each, ()))
            task = chunk.stop
        at[rank], free[rank] = task, now
    return place, start, end
