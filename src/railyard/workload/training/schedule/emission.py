"""All pipeline ranks' operations in one order, in which nothing stands before what it waits for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.errors import InputError
from railyard.workload.training.schedule.sequence import Op, Sequence

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
        awaited: int64[n], the operation of another virtual stage that each waits for, -1 where there is none.
        start_ps: int64[n], with transfers that take no time.
        finish_ps: End of the last operation.
    """

    stage: NDArray[np.int32]
    virtual_stage: NDArray[np.int32]
    micro_batch: NDArray[np.int32]
    op: NDArray[np.uint8]
    awaited: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    finish_ps: int

    def __len__(self) -> int:
        return len(self.op)


def emit(sequences: list[Sequence], vp: int, duration_ps: NDArray[np.int64]) -> Emission:
    """Runs the sequences against each other on an ideal network.

    Args:
        sequences: One a pipeline rank.
        vp: Virtual stages of a rank.
        duration_ps: int64[virtual stages, 3], time of each `Op`.

    Raises:
        InputError: The sequences wait for one another for ever.
    """
    pp = len(sequences)
    columns = [_columns(sequence, rank, pp) for rank, sequence in enumerate(sequences)]
    stage, virtual, micro, op = (np.concatenate([column[i] for column in columns]) for i in range(4))
    awaited = _awaited(virtual, micro, op, pp * vp)
    duration = duration_ps[virtual, op]
    first = np.concatenate([[0], np.cumsum([len(sequence) for sequence in sequences])])
    place, start, end = _run(first.tolist(), awaited.tolist(), duration.tolist())
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
    return Emission(stage[order], virtual[order], micro[order], op[order], needs, starts[order], finish)


def _columns(sequence: Sequence, rank: int, pp: int) -> tuple[NDArray[np.integer], ...]:
    stage = np.full(len(sequence), rank, np.int32)
    return stage, sequence.chunk * np.int32(pp) + np.int32(rank), sequence.micro_batch, sequence.op


def _awaited(
    virtual: NDArray[np.int32], micro: NDArray[np.int32], op: NDArray[np.uint8], stages: int
) -> NDArray[np.int64]:
    """For each operation the one of another stage that it waits for, -1 where there is none."""
    batches = int(micro.max(initial=0)) + 1
    where = np.full((3, stages + 1, batches), -1, np.int64)
    where[op, virtual, micro] = np.arange(len(op))
    awaited = np.full(len(op), -1, np.int64)
    forward, backward = op == Op.FORWARD, op == Op.BACKWARD
    last = backward & (virtual == stages - 1)
    awaited[forward] = np.where(virtual > 0, where[Op.FORWARD, virtual - 1, micro], -1)[forward]
    awaited[backward] = where[Op.BACKWARD, virtual + 1, micro][backward]
    awaited[last] = where[Op.FORWARD, virtual, micro][last]
    return awaited


def _run(first: list[int], awaited: list[int], duration: list[int]) -> tuple[list[int], list[int], list[int]]:
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
            need = awaited[task]
            if need >= 0:
                if end[need] < 0:
                    waiting.setdefault(need, []).append(rank)
                    break
                now = max(now, end[need])
            start[task] = now
            now += duration[task]
            end[task] = now
            place.append(task)
            if task in waiting:
                ready.extend(waiting.pop(task))
            task += 1
        at[rank], free[rank] = task, now
    return place, start, end
