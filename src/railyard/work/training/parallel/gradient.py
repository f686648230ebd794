"""Reductions of gradients over the ranks that hold the same parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind, Kind, Stream
from railyard.work.training.contention import CONTENDERS
from railyard.work.training.parallel.data import Holding, bucket_count, initial, last_of, share_before
from railyard.work.training.parallel.pieces import REDUCE, STRIDE, Pending, Step
from railyard.work.training.program import NONE
from railyard.work.training.schedule import Op
from railyard.work.training.sync.graph import LEGS, asked_of, priority_share, reduce_coded, reduce_rows, sparse_sizes

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Late reductions stand this far in front of a step, behind what storage begins with.
LATE = 16


def reduce_gradients(step: Step) -> list[Pending]:
    """Adds the reductions.

    Those that run beside the computation start when the gradients of their piece are complete. The others run on the
    compute stream: behind their piece where each micro-batch is reduced, else behind all pieces of the step.
    """
    pieces, plan = step.pieces, step.plan
    pending: list[Pending] = []
    chosen = np.flatnonzero(plan.reduces(step.emission)[pieces.operation])
    last = last_of(step.emission, plan.reduces(step.emission))[pieces.operation]
    asked = asked_of(step.training)
    if asked is not None and asked.asynchronous is not None:
        return _late(step, chosen)
    for number, holding in enumerate(plan.holdings):
        wanted = chosen[holding.trained[pieces.part[chosen]] > 0]
        open_ = _left_open(step, holding, wanted)
        order = np.where(open_, _behind(step, wanted), _order(step, wanted)) + LEGS * number
        end = _ends(step)[pieces.stage[wanted]]
        after = np.where(open_ & (end != pieces.compute[wanted]), end, NONE)
        slots = np.full(len(wanted), NONE, np.int64)
        if asked is not None and asked.compression is not None:
            counts = bucket_count(step.training, step.parts, holding.trained)
            pending += reduce_coded(step, holding, wanted, order=order, counts=counts, after=after)
        else:
            slots = _reduction(step, holding, wanted, order)
            pending += reduce_rows(step, holding, wanted, order)
            if plan.reduce_overlapped:
                step.program.wait(slots, pieces.compute[wanted])
                step.program.wait(slots, after)
                pending.append(Pending(slots, pieces.stage[wanted]))
        if holding.replicas:
            summed = np.flatnonzero(plan.reduce_each | last[wanted])
            once, scattered = wanted[summed], slots[summed]
            slots = _across_replicas(step, holding, once, _order(step, once) + LEGS * number + LEGS - 1)
            step.program.wait(slots, scattered)
            if plan.reduce_overlapped:
                pending.append(Pending(slots, pieces.stage[once]))
    return pending


def _left_open(step: Step, holding: Holding, wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which reductions start behind all passes, as the last of measured steps do: all but `gradient_overlap`.

    Reductions of every micro-batch start as soon as they may, and so do those whose rest goes under the next step.
    """
    plan = step.plan
    if not plan.reduce_overlapped or plan.reduce_each or plan.reduce_ahead or step.training.layout.zero == 3:
        return np.zeros(len(wanted), np.bool_)
    before = share_before(step.pieces.stage[wanted], holding.trained[step.pieces.part[wanted]])
    return before > step.training.software.gradient_overlap


def _ends(step: Step) -> NDArray[np.int64]:
    """int64[pp], the last slot on the compute stream of each stage's passes."""
    last = np.full(step.training.layout.pp, NONE, np.int64)
    last[step.pieces.stage] = step.pieces.end
    return last


def _late(step: Step, chosen: NDArray[np.int64]) -> list[Pending]:
    """Reductions of the step before, under all of this one: in a run of equal steps each meets exactly those."""
    pieces = step.pieces
    pending = []
    for number, holding in enumerate(step.plan.holdings):
        wanted = chosen[holding.trained[pieces.part[chosen]] > 0]
        order = np.arange(len(wanted), dtype=np.int64) - len(wanted) * (len(step.plan.holdings) - number) - LATE
        slots = _reduction(step, holding, wanted, order)
        pending.append(Pending(slots, pieces.stage[wanted]))
    return pending


def _order(step: Step, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    if step.plan.reduce_overlapped or step.plan.reduce_each:
        return step.pieces.order[wanted] + REDUCE
    return _behind(step, wanted)


def _behind(step: Step, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places behind all pieces."""
    return step.pieces.finish + step.pieces.virtual_stage[wanted].astype(np.int64) * STRIDE


def _under_backward(
    step: Step, holding: Holding, wanted: NDArray[np.int64], size: NDArray[np.int64], count: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bytes and collectives that run under backward; by priority, the rest goes under the next forward pass.

    That stands at the beginning of the step: in a run of equal steps each meets exactly the rest of the step before.
    """
    share, piece = priority_share(step, holding)
    if not piece:
        return size, count
    cut = np.maximum(count, -(-size // piece))
    ahead = np.floor(size * (1.0 - share)).astype(np.int64)
    _under_forward(step, holding, step.pieces.part[wanted], np.minimum(ahead, size - 1), cut)
    back = np.maximum(1, size - ahead)
    return back, np.maximum(1, np.ceil(cut * back / size).astype(np.int64))


def _under_forward(
    step: Step, holding: Holding, parts: NDArray[np.int64], ahead: NDArray[np.int64], cut: NDArray[np.int64]
) -> None:
    """The rest of each layer's gradients in front of the first forward pass of that layer."""
    pieces = step.pieces
    forward = np.flatnonzero((pieces.op == Op.FORWARD) & initial(step.emission)[pieces.operation])
    rest, many = np.zeros(len(step.parts.layers), np.int64), np.ones(len(step.parts.layers), np.int64)
    rest[parts], many[parts] = ahead, cut
    wanted = forward[rest[pieces.part[forward]] > 0]
    part = pieces.part[wanted]
    slots = step.program.add(
        holding.space,
        Kind.COLLECTIVE,
        Stream.PARAMETER,
        stage=pieces.stage[wanted],
        order=pieces.order[wanted],
        phase="gradient",
        op=f"reduce rest of {holding.name}",
        virtual_stage=pieces.virtual_stage[wanted],
        micro_batch=pieces.micro_batch[wanted],
        size_bytes=-(-rest[part] // many[part]),
        count=many[part],
        collective=CollectiveKind.ALL_REDUCE,
        loss_index=CONTENDERS.index("dp"),
    )
    for begun in pieces.begins():
        step.program.wait(begun[wanted], slots)


def _reduction(step: Step, holding: Holding, wanted: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    kind = CollectiveKind.REDUCE_SCATTER if step.plan.sharded else CollectiveKind.ALL_REDUCE
    return _add(step, holding, wanted, order, space=holding.space, kind=kind, op=f"reduce {holding.name}")


def _across_replicas(
    step: Step, holding: Holding, wanted: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Hybrid sharding: shards are summed over the groups that hold the same ones.

    Behind each scatter (FSDP2's `set_requires_all_reduce`, on unless switched off), in a pipeline once a step.
    """
    op = f"reduce {holding.name} shards"
    kind = CollectiveKind.ALL_REDUCE
    return _add(step, holding, wanted, order, space=holding.replicas, kind=kind, op=op, shards=holding.ranks)


def _add(
    step: Step,
    holding: Holding,
    wanted: NDArray[np.int64],
    order: NDArray[np.int64],
    *,
    space: str,
    kind: CollectiveKind,
    op: str,
    shards: int = 1,
) -> NDArray[np.int64]:
    part = step.pieces.part[wanted]
    count = bucket_count(step.training, step.parts, holding.trained)[part]
    size = sparse_sizes(step, holding, holding.trained * step.training.software.gradient_bytes)[part]
    if kind == CollectiveKind.ALL_REDUCE and shards == 1:
        size, count = _under_backward(step, holding, wanted, size, count)
    # Scatters of zero 3 share a communicator with the gathers, and so a queue; see `parameter`.
    queue = Stream.PARAMETER if step.plan.one_queue and space == holding.space else Stream.GRADIENT
    return step.program.add(
        space,
        Kind.COLLECTIVE,
        queue if step.plan.reduce_overlapped else Stream.COMPUTE,
        stage=step.pieces.stage[wanted],
        order=order,
        phase="gradient",
        op=op,
        virtual_stage=step.pieces.virtual_stage[wanted],
        micro_batch=step.pieces.micro_batch[wanted],
        size_bytes=-(-size // (count * shards)),
        count=count,
        collective=kind,
        loss_index=CONTENDERS.index("dp") if step.plan.reduce_overlapped else -1,
    )
