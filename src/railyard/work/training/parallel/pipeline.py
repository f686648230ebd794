"""Pipeline parallelism: activations go to the next stage, their gradients to the stage before, rank to rank.

Each rank sends to the rank of the same tp, cp and dp place; under sequence parallelism its share of the activation.
A send leaves the compute stream free; the receiving operation waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind, Kind, Stream
from railyard.work.training.contention import CONTENDERS
from railyard.work.training.parallel.data import Holding, bucket_count, share_before
from railyard.work.training.parallel.pieces import GATHER, SEND
from railyard.work.training.program import NONE
from railyard.work.training.schedule import Op
from railyard.work.training.sync.graph import asked_of, decode_gathered, gathered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.training.parallel.pieces import Pieces, Step
    from railyard.work.training.program import Program
    from railyard.work.training.schedule import Emission


# Parameters travel in 16 bits, whatever the precision of the products.
PARAMETER_BYTES = 2
# Layers gathered ahead of the one that computes: the implicit prefetch of PyTorch FSDP2 (torch.distributed.fsdp).
PREFETCH = 1
# Of a layer, what a software has to gather ahead for the layer to count as gathered ahead: graphs gather whole ones.
_AHEAD = 0.5


def gather_for_passes(step: Step) -> None:
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


def _left_open(step: Step, holding: Holding, wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Gathers of a whole step that its first pass waits for, as in measured steps: all but `gradient_overlap`."""
    pieces = step.pieces
    if step.training.layout.zero == 3 or not step.plan.gather_overlapped:
        return np.zeros(len(wanted), np.bool_)
    before = share_before(pieces.stage[wanted], holding.parameters[pieces.part[wanted]])
    return before < 1.0 - step.training.software.gradient_overlap


def _firsts(step: Step) -> NDArray[np.int64]:
    """int64[pp], the first piece of each stage."""
    first = np.zeros(step.training.layout.pp, np.int64)
    first[step.pieces.stage[::-1]] = np.arange(len(step.pieces))[::-1]
    return first


def _begins(step: Step) -> NDArray[np.int64]:
    """int64[pp], the place of that piece."""
    return step.pieces.order[_firsts(step)]


def _prefetch(step: Step) -> int:
    """Layers gathered ahead: none where the software gathers less than half of one."""
    ahead = step.training.software.prefetch_parameters
    held = sum(int(holding.parameters[: step.parts.stages].max()) for holding in step.plan.holdings)
    layer = held / max(int(step.parts.layers[: step.parts.stages].max()), 1)
    return 0 if 0 < ahead < _AHEAD * layer else PREFETCH


def _issued(step: Step, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of the piece under which each gather runs: under zero 3 the one before on its stage."""
    pieces = step.pieces
    if step.training.layout.zero < 3 or not step.plan.gather_overlapped or not _prefetch(step):
        return pieces.order[wanted]
    before = pieces.before[wanted]
    return pieces.order[np.where(before >= 0, before, wanted)]


def _gather(
    step: Step, holding: Holding, wanted: NDArray[np.int64], number: int, order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The gathers for some pieces, all of them forward or all backward, at their places, and what decodes them."""
    pieces = step.pieces
    share, space = gathered(step, holding, pieces.op[wanted])
    slots = _add(
        step, holding, pieces.part[wanted], stage=pieces.stage[wanted], order=order + GATHER + number,
        virtual_stage=pieces.virtual_stage[wanted], micro_batch=pieces.micro_batch[wanted], space=space, share=share,
    )  # fmt: skip
    decode_gathered(step, holding, wanted, slots, share=share, place=GATHER + 4 + number)
    return slots


def _ahead(stage: NDArray[np.int32], compute: NDArray[np.int64], distance: int) -> NDArray[np.int64]:
    """For each gather the computation `distance` gathers before it on its stage: what must end before it may start."""
    awaited = np.full(len(stage), NONE, np.int64)
    order = np.argsort(stage, kind="stable")
    later, earlier = order[distance:], order[:-distance]
    same = stage[later] == stage[earlier]
    awaited[later[same]] = compute[earlier[same]]
    return awaited


def gather_behind_optimizer(step: Step, order: int) -> None:
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
    step: Step,
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


def connect(program: Program, pieces: Pieces, emission: Emission, size_bytes: int) -> None:
    """Adds the transfers between stages, and lets each operation wait for what it needs.

    Args:
        program: Takes the slots.
        pieces: With their computation and collectives.
        emission: Says which operation waits for which.
        size_bytes: What one rank sends for one micro-batch.
    """
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
            stage=pieces.stage[source],
            order=pieces.order[last[ends[sender[chosen]]]] + SEND + op,
            phase="pipeline",
            op=name,
            virtual_stage=pieces.virtual_stage[source],
            micro_batch=pieces.micro_batch[source],
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
