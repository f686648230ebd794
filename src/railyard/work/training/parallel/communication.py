"""Pipeline parallelism: activations go to the next stage, their gradients to the stage before, rank to rank.

Each rank sends to the rank of the same tp, cp and dp place; under sequence parallelism its share of the activation.
A send leaves the compute stream free; the receiving operation waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind, Kind, Stream
from railyard.work.training.parallel.data import Holding, bucket_count, initial, last_of, share_before
from railyard.work.training.parallel.pieces import GATHER, REDUCE, SEND, STRIDE, Pending, StepBuilder
from railyard.work.training.passes import CONTENDERS
from railyard.work.training.schedule import Op
from railyard.work.training.slots import NONE
from railyard.work.training.sync.graph import (
    LEGS,
    asked_of,
    decode_gathered,
    gathered,
    priority_share,
    reduce_coded,
    reduce_rows,
    sparse_sizes,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.training.parallel.pieces import Pieces, StepBuilder
    from railyard.work.training.schedule import Emission
    from railyard.work.training.slots import StepProgram


# Late reductions stand this far in front of a step, behind what storage begins with.
LATE = 16


def reduce_gradients(step: StepBuilder) -> list[Pending]:
    """Adds the reductions.

    Those that overlap computation start when the gradients of their piece are complete. The others run on the compute
    stream: after their piece if each micro-batch is reduced, otherwise after all pieces of the step.
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
        open_ = _gradient_left_open(step, holding, wanted)
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


def _gradient_left_open(step: StepBuilder, holding: Holding, wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Reductions that start after all passes, as the last of measured steps do: all but `gradient_overlap`.

    Reductions of every micro-batch start as soon as possible, and so do those whose rest overlaps the next step.
    """
    plan = step.plan
    if not plan.reduce_overlapped or plan.reduce_each or plan.reduce_ahead or step.training.layout.zero == 3:
        return np.zeros(len(wanted), np.bool_)
    before = share_before(step.pieces.stage[wanted], holding.trained[step.pieces.part[wanted]])
    return before > step.training.software.gradient_overlap


def _ends(step: StepBuilder) -> NDArray[np.int64]:
    """int64[pp], the last slot on the compute stream of each stage's passes."""
    last = np.full(step.training.layout.pp, NONE, np.int64)
    last[step.pieces.stage] = step.pieces.end
    return last


def _late(step: StepBuilder, chosen: NDArray[np.int64]) -> list[Pending]:
    """Reductions of the previous step, under all of this one: in a run of equal steps each step has exactly those."""
    pieces = step.pieces
    pending = []
    for number, holding in enumerate(step.plan.holdings):
        wanted = chosen[holding.trained[pieces.part[chosen]] > 0]
        order = np.arange(len(wanted), dtype=np.int64) - len(wanted) * (len(step.plan.holdings) - number) - LATE
        slots = _reduction(step, holding, wanted, order)
        pending.append(Pending(slots, pieces.stage[wanted]))
    return pending


def _order(step: StepBuilder, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    if step.plan.reduce_overlapped or step.plan.reduce_each:
        return step.pieces.order[wanted] + REDUCE
    return _behind(step, wanted)


def _behind(step: StepBuilder, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places behind all pieces."""
    return step.pieces.finish + step.pieces.virtual_stage[wanted].astype(np.int64) * STRIDE


def _under_backward(
    step: StepBuilder, holding: Holding, wanted: NDArray[np.int64], size: NDArray[np.int64], count: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bytes and collectives that run under backward; by priority, the rest overlaps the next forward pass.

    They are at the start of the step: in a run of equal steps each gets exactly the rest of the previous step.
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
    step: StepBuilder, holding: Holding, parts: NDArray[np.int64], ahead: NDArray[np.int64], cut: NDArray[np.int64]
) -> None:
    """The rest of each layer's gradients before the first forward pass of that layer."""
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
        **pieces.at(wanted),
        order=pieces.order[wanted],
        phase="gradient",
        op=f"reduce rest of {holding.name}",
        size_bytes=-(-rest[part] // many[part]),
        count=many[part],
        collective=CollectiveKind.ALL_REDUCE,
        loss_index=CONTENDERS.index("dp"),
    )
    for begun in pieces.begins():
        step.program.wait(begun[wanted], slots)


def _reduction(
    step: StepBuilder, holding: Holding, wanted: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    kind = CollectiveKind.REDUCE_SCATTER if step.plan.sharded else CollectiveKind.ALL_REDUCE
    return _gradient_add(step, holding, wanted, order, space=holding.space, kind=kind, op=f"reduce {holding.name}")


def _across_replicas(
    step: StepBuilder, holding: Holding, wanted: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Hybrid sharding: shards are summed over the groups that have the same ones.

    Behind each scatter (FSDP2's `set_requires_all_reduce`, on unless switched off), in a pipeline once a step.
    """
    op = f"reduce {holding.name} shards"
    kind = CollectiveKind.ALL_REDUCE
    return _gradient_add(step, holding, wanted, order, space=holding.replicas, kind=kind, op=op, shards=holding.ranks)


def _gradient_add(
    step: StepBuilder,
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
        **step.pieces.at(wanted),
        order=order,
        phase="gradient",
        op=op,
        size_bytes=-(-size // (count * shards)),
        count=count,
        collective=kind,
        loss_index=CONTENDERS.index("dp") if step.plan.reduce_overlapped else -1,
    )


# Parameters travel in 16 bits, whatever the precision of the products.
PARAMETER_BYTES = 2
# Layers gathered ahead of the one that computes: the implicit prefetch of PyTorch FSDP2 (torch.distributed.fsdp).
PREFETCH = 1
# Of a layer, what a software has to gather ahead for the layer to count as gathered ahead: graphs gather whole ones.
_AHEAD = 0.5


def gather_for_passes(step: StepBuilder) -> None:
    """Adds the gathers that passes wait for."""
    pieces, plan, asked = step.pieces, step.plan, asked_of(step.training)
    chosen = np.flatnonzero(plan.gathers(step.emission)[pieces.operation])
    for number, holding in enumerate(plan.holdings):
        wanted = chosen[holding.parameters[pieces.part[chosen]] > 0]
        slots, open_ = np.full(len(wanted), NONE, np.int64), _left_open(step, holding, wanted)
        order = np.where(open_, _begins(step)[pieces.stage[wanted]], _issued(step, wanted))
        for backward in (False, True):
            here = np.flatnonzero((pieces.op[wanted] == Op.BACKWARD) == backward)
            if len(here):
                slots[here] = _gather(step, holding, wanted[here], number, order[here])
        if asked is not None and asked.asynchronous is not None:
            continue
        if not plan.gather_overlapped:
            continue
        for begun in pieces.begins():
            step.program.wait(begun[wanted], slots)
        if step.training.layout.zero == 3:
            step.program.wait(slots, _ahead(pieces.stage[wanted], pieces.compute[wanted], _prefetch(step) + 1))
        first = _firsts(step)[pieces.stage[wanted]]
        for begun in pieces.begins():
            step.program.wait(begun[first], np.where(open_ & (first != wanted), slots, NONE))


def _left_open(step: StepBuilder, holding: Holding, wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Gathers of a whole step that its first pass waits for, as in measured steps: all but `gradient_overlap`."""
    pieces = step.pieces
    if step.training.layout.zero == 3 or not step.plan.gather_overlapped:
        return np.zeros(len(wanted), np.bool_)
    before = share_before(pieces.stage[wanted], holding.parameters[pieces.part[wanted]])
    return before < 1.0 - step.training.software.gradient_overlap


def _firsts(step: StepBuilder) -> NDArray[np.int64]:
    """int64[pp], the first piece of each stage."""
    first = np.zeros(step.training.layout.pp, np.int64)
    first[step.pieces.stage[::-1]] = np.arange(len(step.pieces))[::-1]
    return first


def _begins(step: StepBuilder) -> NDArray[np.int64]:
    """int64[pp], the place of that piece."""
    return step.pieces.order[_firsts(step)]


def _prefetch(step: StepBuilder) -> int:
    """Layers gathered ahead: none where the software gathers less than half of one."""
    ahead = step.training.software.prefetch_parameters
    held = sum(int(holding.parameters[: step.parts.stages].max()) for holding in step.plan.holdings)
    layer = held / max(int(step.parts.layers[: step.parts.stages].max()), 1)
    return 0 if 0 < ahead < _AHEAD * layer else PREFETCH


def _issued(step: StepBuilder, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of the piece under which each gather runs: under zero 3 the one before on its stage."""
    pieces = step.pieces
    if step.training.layout.zero < 3 or not step.plan.gather_overlapped or not _prefetch(step):
        return pieces.order[wanted]
    before = pieces.before[wanted]
    return pieces.order[np.where(before >= 0, before, wanted)]


def _gather(
    step: StepBuilder, holding: Holding, wanted: NDArray[np.int64], number: int, order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The gathers for some pieces, all of them forward or all backward, at their places, and what decodes them."""
    pieces = step.pieces
    share, space = gathered(step, holding, pieces.op[wanted])
    slots = _add(
        step, holding, pieces.part[wanted], order=order + GATHER + number, space=space, share=share, **pieces.at(wanted)
    )
    decode_gathered(step, holding, wanted, slots, share=share, place=GATHER + 4 + number)
    return slots


def _ahead(stage: NDArray[np.int32], compute: NDArray[np.int64], distance: int) -> NDArray[np.int64]:
    """For each gather, the computation `distance` gathers earlier on its stage, which must end before it may start."""
    awaited = np.full(len(stage), NONE, np.int64)
    order = np.argsort(stage, kind="stable")
    later, earlier = order[distance:], order[:-distance]
    same = stage[later] == stage[earlier]
    awaited[later[same]] = compute[earlier[same]]
    return awaited


def gather_behind_optimizer(step: StepBuilder, order: int) -> None:
    """Adds the gathers that end a step, one a virtual stage, on the compute stream."""
    if not step.plan.gather_end:
        return
    stages = np.arange(step.parts.stages)
    for number, holding in enumerate(step.plan.holdings):
        wanted = stages[holding.parameters[stages] > 0]
        _add(
            step, holding, wanted, stage=wanted % step.training.layout.pp, order=order + wanted * 2 + number,
            virtual_stage=wanted, micro_batch=np.full(len(wanted), -1), share=gathered(step, holding, None)[0],
        )  # fmt: skip


def _add(
    step: StepBuilder,
    holding: Holding,
    part: NDArray[np.int64],
    *,
    stage: NDArray[np.integer],
    order: NDArray[np.int64],
    virtual_stage: NDArray[np.integer],
    micro_batch: NDArray[np.integer],
    space: str = "",
    share: float = 1.0,
) -> NDArray[np.int64]:
    count = bucket_count(step.training, step.parts, holding.trained)[part]
    if step.training.layout.zero == 3:
        count = count * step.training.software.shard_messages
    size = np.ceil(holding.parameters[part] * PARAMETER_BYTES * share).astype(np.int64)
    overlapped = step.plan.gather_overlapped and not step.plan.gather_end
    return step.program.add(
        space or holding.space,
        Kind.COLLECTIVE,
        Stream.PARAMETER if overlapped else Stream.COMPUTE,
        stage=stage,
        order=order,
        phase="parameter",
        op=f"gather {holding.name}",
        virtual_stage=virtual_stage,
        micro_batch=micro_batch,
        size_bytes=-(-size // count),
        count=count,
        collective=CollectiveKind.ALL_GATHER,
        loss_index=CONTENDERS.index("dp") if overlapped else -1,
    )


_STREAMS = {Op.FORWARD: (Stream.FORWARD, "send activation"), Op.BACKWARD: (Stream.BACKWARD, "send gradient")}


def connect(program: StepProgram, pieces: Pieces, emission: Emission, size_bytes: int) -> None:
    """Adds the transfers between stages, and lets each operation wait for what it needs."""
    receiver = np.flatnonzero(emission.awaited >= 0)
    sender = emission.awaited[receiver]
    apart = emission.stage[receiver] != emission.stage[sender]
    receiver, sender = receiver[apart], sender[apart]
    first, last = np.flatnonzero(pieces.first), np.flatnonzero(pieces.last)
    partner = emission.partners()
    ends = np.maximum(partner, np.arange(len(partner)))
    for op, (stream, name) in _STREAMS.items():
        chosen = emission.op[sender] == op
        source, target = last[sender[chosen]], first[receiver[chosen]]
        if not source.size:
            continue
        of_sender, of_receiver = partner[sender[chosen]], partner[receiver[chosen]]
        earlier = (of_receiver >= 0) & (of_receiver < receiver[chosen])
        slots = program.add(
            "rank",
            Kind.TRANSFER,
            stream,
            **pieces.at(source),
            order=pieces.order[last[ends[sender[chosen]]]] + SEND + op,
            phase="pipeline",
            op=name,
            size_bytes=size_bytes,
            peer=pieces.stage[target],
        )
        for done in (pieces.end, *pieces.overlapped_ends()):
            program.wait(slots, done[source])
            program.wait(slots, _where(of_sender >= 0, done[last[of_sender]]))
        for begun in pieces.begins():
            program.wait(begun[target], slots)
            # A pair starts together, with the earlier one.
            program.wait(_where(earlier, begun[first[of_receiver]]), slots)


def _where(chosen: NDArray[np.bool_], slots: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(chosen, slots, NONE)
