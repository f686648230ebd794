"""One micro-batch on one pipeline rank: computation, the host, and what its collectives leave exposed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind
from railyard.work.training import alpha_beta
from railyard.work.training.alpha_beta import collective_s, send_s
from railyard.work.training.compute import (
    dispatch_cast_s,
    offload_waits_s,
    recompute_host_s,
    recompute_s,
    weight_cast_s,
)
from railyard.work.training.sharded_times import Under, sharded_times

if TYPE_CHECKING:
    from railyard.model.columns import F
    from railyard.model.machine import MachineColumns
    from railyard.work.training.columns import Columns
    from railyard.work.training.contention import ConcurrentPasses, Loss
    from railyard.work.training.passes import LayerPasses
    from railyard.work.training.stages import RankColumns
    from railyard.work.training.sync.closed_form import AdaptedDesigns


@dataclass(frozen=True, slots=True)
class RankTimes:
    """Seconds of one micro-batch; `total` is the sum of the parts from `compute` to `parameter`, and `encoding`.

    `forward` and `backward` are the two halves of the total, `weight` the weight-gradient part of the computation,
    `send` one send to the next stage. `data_forward` and `data_backward` are the shares of the speed of the two passes
    that reductions and gathers beside them take, `expert_ahead` and `expert_back` what expert exchanges that hide under
    another micro-batch add to passes that have none beside them.
    """

    total: F
    forward: F
    backward: F
    weight: F
    send: F
    compute: F
    host: F
    tensor: F
    context: F
    expert: F
    pipeline: F
    gradient: F
    parameter: F
    expert_ahead: F
    expert_back: F
    data_forward: F
    data_backward: F
    encoding: F


@dataclass(frozen=True, slots=True)
class _Exposed:
    """Exposed seconds by group, what hidden collectives take from computation beside them, and the host's part.

    `under` is what expert exchanges would add to a pass that has no other micro-batch beside it.
    """

    tensor: F
    context: F
    expert: F
    contention: F
    host: F
    under: F

    @property
    def total(self) -> F:
        return self.tensor + self.context + self.expert + self.contention


def rank_times(
    columns: Columns,
    passes: LayerPasses,
    rank: RankColumns,
    machine: MachineColumns,
    hooks: tuple[ConcurrentPasses, AdaptedDesigns],
) -> RankTimes:
    """Times of one micro-batch on that kind of rank.

    Args:
        columns: The designs.
        passes: Of one layer.
        rank: What the rank holds.
        machine: Rates.
        hooks: What computation loses to collectives beside it, and what is done about limits of the network.
    """
    slowed, around = hooks
    rank = rank.of_one_batch(columns)
    layers = (rank.layers, rank.moe_layers, rank.embedding, rank.head)
    work = passes.stage(*layers)
    loss = slowed.loss(work, layers)
    again = recompute_s(columns, passes, work, rank.layers, rank.moe_layers)
    ahead, back = (_exposed(columns, rank, machine, phase, loss) for phase in ("forward", "backward"))
    cast = weight_cast_s(columns, rank.dense + rank.expert)
    forward_work = work.forward + cast + ahead.contention
    backward_work = work.backward_input + work.backward_weight + again + back.contention
    # The host launches what comes next while a collective runs.
    waits = ahead.host - ahead.total + ahead.contention, back.host - back.total + back.contention
    copies = offload_waits_s(columns, passes, rank.layers, rank.moe_layers, machine.host_bytes_s)
    wait_forward = np.maximum(copies[0], work.host_forward - forward_work + waits[0])
    host_backward = work.host_backward + recompute_host_s(columns, passes, work, rank.layers, rank.moe_layers)
    wait_backward = np.maximum(copies[1], host_backward - backward_work + waits[1])
    forward = forward_work + ahead.total - ahead.contention + wait_forward
    backward = backward_work + back.total - back.contention + wait_backward
    head = passes.stage(0.0, 0.0, 0.0, rank.head)
    under = Under.of(forward, backward, (head.forward, head.backward_input + head.backward_weight), rank)
    sharded = sharded_times(columns, rank, machine, (loss, around), under)
    gather, scatter, contention, encoding = sharded
    encoding = encoding + dispatch_cast_s(columns, rank.moe_layers)
    send = _send_s(columns, machine)
    pipeline = _pipeline_s(columns, send)
    return RankTimes(
        total=forward + backward + gather + scatter + contention + pipeline + encoding,
        forward=forward,
        backward=backward,
        weight=work.backward_weight,
        send=send,
        compute=forward_work + backward_work + contention,
        host=wait_forward + wait_backward,
        tensor=ahead.tensor + back.tensor,
        context=ahead.context + back.context,
        expert=ahead.expert + back.expert,
        pipeline=pipeline,
        gradient=scatter,
        parameter=gather,
        expert_ahead=ahead.under,
        expert_back=back.under,
        data_forward=loss.forward["dp"],
        data_backward=loss.backward["dp"],
        encoding=encoding,
    )


def _exposed(columns: Columns, rank: RankColumns, machine: MachineColumns, phase: str, loss: Loss) -> _Exposed:
    """Exposed collectives of one pass; backward runs the forward ones again under full recomputation."""
    counts = alpha_beta.places(columns, rank)
    groups, seen = alpha_beta.groups(columns), {name: machine.seen_by(name) for name in ("tp", "cp", "ep")}
    found = {name: np.zeros_like(rank.layers) for name in ("tp", "cp", "ep")}
    contention, started, under = np.zeros_like(rank.layers), np.zeros_like(rank.layers), np.zeros_like(rank.layers)
    for exchange in alpha_beta.exchanges(columns, machine.domain):
        collectives = exchange.count * counts[exchange.part] * alpha_beta.repeats(columns, exchange, phase)
        if not np.any(collectives):
            continue
        started = started + collectives
        fraction = columns.software.collective_fraction
        if exchange.kind == CollectiveKind.ALL_TO_ALL:
            fraction = columns.software.expert_fraction
        spent = collective_s(exchange.kind, exchange.size_bytes, groups[exchange.group], seen[exchange.group], fraction)
        spent = spent * collectives
        found[exchange.group] = found[exchange.group] + spent * (1.0 - exchange.hidden)
        taken = loss.of(exchange.group, phase)
        contention = contention + spent * exchange.hidden * taken
        if exchange.group == "ep":
            under = under + spent * exchange.hidden * (1.0 - taken)
    host = started * columns.software.collective_host_s
    return _Exposed(found["tp"], found["cp"], found["ep"], contention, host, under)


def _send_s(columns: Columns, machine: MachineColumns) -> F:
    stride = columns.layout.tp * columns.layout.cp * columns.layout.dp
    sent = send_s(alpha_beta.pipeline_bytes(columns), stride, machine.seen_by("pp"))
    return np.where(columns.layout.pp > 1, sent, 0.0)


def _pipeline_s(columns: Columns, send: F) -> F:
    """Exposed sends of one micro-batch, both ways for each chunk; all schedules but 1F1B send beside computing."""
    hidden = np.where(columns.layout.vp > 1, columns.software.pipeline_overlap, columns.layout.dual)
    return 2.0 * columns.layout.vp * send * (1.0 - hidden)
