"""Reductions of gradients over the ranks that hold the same parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind, Kind, Stream
from railyard.workload.training.contention import CONTENDERS
from railyard.workload.training.parallel.data import Holding, bucket_count, final
from railyard.workload.training.parallel.pieces import REDUCE
from railyard.workload.training.parallel.step import Pending, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Distance between the reductions of two virtual stages behind all pieces: room for two holdings and their replicas.
STRIDE = 8


def reduce_gradients(step: Step) -> list[Pending]:
    """Adds the reductions.

    Those that run beside the computation start when the gradients of their piece are complete. The others run on the
    compute stream: behind their piece where each micro-batch is reduced, else behind all pieces of the step.
    """
    pieces, plan = step.pieces, step.plan
    pending: list[Pending] = []
    chosen = np.flatnonzero(plan.reduces(step.emission)[pieces.operation])
    last = final(step.emission)[pieces.operation]
    for number, holding in enumerate(plan.holdings):
        held = chosen[holding.parameters[pieces.part[chosen]] > 0]
        slots = _reduction(step, holding, held, _order(step, held) + 2 * number)
        if plan.reduce_beside:
            step.program.wait(slots, pieces.compute[held])
            pending.append(Pending(slots, pieces.stage[held]))
        if holding.replicas:
            once = held[last[held]]
            slots = _across_replicas(step, holding, once, _order(step, once) + 2 * number + 1)
            if plan.reduce_beside:
                pending.append(Pending(slots, pieces.stage[once]))
    return pending


def _order(step: Step, held: NDArray[np.int64]) -> NDArray[np.int64]:
    if step.plan.reduce_beside or step.plan.reduce_each:
        return step.pieces.order[held] + REDUCE
    return step.pieces.finish + step.pieces.virtual_stage[held].astype(np.int64) * STRIDE


def _reduction(step: Step, holding: Holding, held: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    kind = CollectiveKind.REDUCE_SCATTER if step.plan.sharded else CollectiveKind.ALL_REDUCE
    return _add(step, holding, held, order, space=holding.space, kind=kind, op=f"reduce {holding.name}")


def _across_replicas(
    step: Step, holding: Holding, held: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Hybrid sharding: shards are summed over the groups that hold the same ones, once a step."""
    op = f"reduce {holding.name} shards"
    kind = CollectiveKind.ALL_REDUCE
    return _add(step, holding, held, order, space=holding.replicas, kind=kind, op=op, shards=holding.ranks)


def _add(
    step: Step,
    holding: Holding,
    held: NDArray[np.int64],
    order: NDArray[np.int64],
    *,
    space: str,
    kind: CollectiveKind,
    op: str,
    shards: int = 1,
) -> NDArray[np.int64]:
    part = step.pieces.part[held]
    count = bucket_count(step.training, step.parts, holding)[part]
    size = holding.parameters[part] * step.training.software.gradient_bytes
    # Scatters of zero 3 share a communicator with the gathers, and so a queue; see `parameter`.
    queue = Stream.PARAMETER if step.plan.one_queue and space == holding.space else Stream.GRADIENT
    return step.program.add(
        space,
        Kind.COLLECTIVE,
        queue if step.plan.reduce_beside else Stream.COMPUTE,
        stage=step.pieces.stage[held],
        order=order,
        phase="gradient",
        op=op,
        virtual_stage=step.pieces.virtual_stage[held],
        micro_batch=step.pieces.micro_batch[held],
        size_bytes=-(-size // (count * shards)),
        count=count,
        collective=kind,
        beside=CONTENDERS.index("dp") if step.plan.reduce_beside else -1,
    )
