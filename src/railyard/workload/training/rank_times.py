"""One micro-batch on one pipeline rank: computation, the host, and what its collectives leave exposed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind
from railyard.workload.training import communication
from railyard.workload.training.alpha_beta import Group, collective_s, send_s
from railyard.workload.training.compute import (
    dispatch_cast_s,
    gather_copies_s,
    recompute_host_s,
    recompute_s,
)

if TYPE_CHECKING:
    from railyard.model.columns import F
    from railyard.model.machine import MachineColumns
    from railyard.workload.training.columns import Columns
    from railyard.workload.training.contention import ConcurrentPasses, Loss
    from railyard.workload.training.passes import LayerPasses
    from railyard.workload.training.pipeline_ranks import RankColumns
    from railyard.workload.training.sync.closed_form import AdaptedDesigns


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
    cast = _weight_cast_s(columns, rank)
    forward_work = work.forward + cast + ahead.contention
    backward_work = work.backward_input + work.backward_weight + again + back.contention
    wait_forward = np.maximum(0.0, work.host_forward + ahead.host - forward_work - (ahead.total - ahead.contention))
    host_backward = work.host_backward + recompute_host_s(columns, passes, work, rank.layers, rank.moe_layers)
    wait_backward = np.maximum(0.0, host_backward + back.host - backward_work - (back.total - back.contention))
    forward = forward_work + ahead.total - ahead.contention + wait_forward
    backward = backward_work + back.total - back.contention + wait_backward
    sharded = _sharded(columns, rank, machine, (loss, around), forward=forward, backward=backward)
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
    counts = communication.places(columns, rank)
    groups, seen = communication.groups(columns), {name: machine.seen_by(name) for name in ("tp", "cp", "ep")}
    found = {name: np.zeros_like(rank.layers) for name in ("tp", "cp", "ep")}
    contention, started, under = np.zeros_like(rank.layers), np.zeros_like(rank.layers), np.zeros_like(rank.layers)
    for exchange in communication.exchanges(columns, machine.domain):
        times = communication.repeats(columns, exchange, phase)
        fraction = columns.software.collective_fraction
        if exchange.kind == CollectiveKind.ALL_TO_ALL:
            fraction = columns.software.expert_fraction
        spent = collective_s(exchange.kind, exchange.size_bytes, groups[exchange.group], seen[exchange.group], fraction)
        collectives = exchange.count * counts[exchange.part] * times
        started = started + collectives
        spent = spent * collectives
        found[exchange.group] = found[exchange.group] + spent * (1.0 - exchange.hidden)
        taken = loss.of(exchange.group, phase)
        contention = contention + spent * exchange.hidden * taken
        if exchange.group == "ep":
            under = under + spent * exchange.hidden * (1.0 - taken)
    host = started * columns.software.collective_host_s
    return _Exposed(found["tp"], found["cp"], found["ep"], contention, host, under)


def _weight_cast_s(columns: Columns, rank: RankColumns) -> F:
    """Cast of gathered weights to narrow types: every micro-batch where weights are gathered anew, else once a step."""
    narrow = np.where(columns.job.bits < 16, 4.0, 0.0)
    often = np.where(columns.layout.zero >= 3, 1.0, 1.0 / columns.layout.micro_batches)
    return narrow * often * (rank.dense + rank.expert) / columns.device.hbm_bytes_s


def _sharded(
    columns: Columns,
    rank: RankColumns,
    machine: MachineColumns,
    hooks: tuple[Loss, AdaptedDesigns],
    *,
    forward: F,
    backward: F,
) -> tuple[F, F, F, F]:
    """Exposed gathers and scatters of sharded parameters (ZeRO-3, FSDP) in each micro-batch, contention, and coding.

    The next layer's parameters are gathered under this layer, as far as the software gathers ahead; the first gather
    and the last scatter have nothing above.
    """
    layout, software, (loss, around) = columns.layout, columns.software, hooks
    apart, machine = machine.seen_by("edp"), machine.seen_by("dp")
    group = Group(layout.shard, layout.tp)
    layers = np.maximum(rank.layers, 1.0)
    held, many = (rank.dense + rank.expert) / layers, software.shard_messages
    fraction = software.collective_fraction
    each = many * collective_s(CollectiveKind.ALL_GATHER, held * 2.0 / many, group, machine, fraction)
    grads = (rank.trained_dense + rank.trained_expert) * software.gradient_bytes
    spread = collective_s(CollectiveKind.REDUCE_SCATTER, grads / layers, group, machine, fraction)
    each, again_each, spread, coding = around.each(rank.dense + rank.expert, layers, each, each, spread)
    replicas = layout.dp * layout.cp / layout.shard
    outer = Group(replicas, layout.tp * layout.shard)
    across = collective_s(CollectiveKind.ALL_REDUCE, grads / layers / layout.shard, outer, apart, fraction)
    gather, scatter = layers * each, layers * (spread + across)
    under = software.shard_overlap * layout.overlap_gradient
    again = layers * again_each * layout.reshard
    late = 1.0 - prefetched(columns, held)
    lead = np.maximum(gather - np.minimum(under * forward, (1.0 - late) * gather), each)
    # Sums over replicas have a queue of their own, and the NICs for themselves where shards stay inside a domain.
    inner = again + layers * spread
    alone = layout.shard * layout.tp <= machine.domain
    busy = np.where(alone, np.maximum(inner, layers * across), inner + layers * across)
    trail = np.maximum(busy - np.minimum(under * backward, busy - late * again), spread + across)
    share = scatter / np.maximum(again + scatter, 1e-12)
    taken = (gather - lead) * loss.forward["dp"] + (again + scatter - trail) * loss.backward["dp"]
    on = np.where((layout.zero >= 3) & (layout.shard > 1), 1.0, 0.0)
    copied = gather_copies_s(columns, rank.layers) * (1.0 + layout.reshard)
    return on * (lead + trail * (1.0 - share)) + copied, on * trail * share, on * taken, on * coding


def prefetched(columns: Columns, held: F) -> F:
    """Share of a layer's parameters that is gathered while the one before computes.

    Args:
        columns: The designs.
        held: Parameters of a layer on a rank, before any sharding.
    """
    ahead = columns.software.prefetch_parameters
    return np.where(ahead > 0, np.minimum(1.0, ahead / np.maximum(held, 1.0)), 1.0)


def _send_s(columns: Columns, machine: MachineColumns) -> F:
    stride = columns.layout.tp * columns.layout.cp * columns.layout.dp
    sent = send_s(communication.pipeline_bytes(columns), stride, machine.seen_by("pp"))
    return np.where(columns.layout.pp > 1, sent, 0.0)


def _pipeline_s(columns: Columns, send: F) -> F:
    """Exposed sends of one micro-batch, both ways for each chunk; all schedules but 1F1B send beside computing."""
    hidden = np.where(columns.layout.vp > 1, columns.software.pipeline_overlap, columns.layout.dual)
    return 2.0 * columns.layout.vp * send * (1.0 - hidden)
