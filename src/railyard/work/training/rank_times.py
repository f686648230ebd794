"""One micro-batch on one pipeline rank: computation, the host, and what its collectives leave exposed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind
from railyard.work.training import alpha_beta
from railyard.work.training.alpha_beta import Group, collective_s, send_s
from railyard.work.training.columns import Summed
from railyard.work.training.compute import (
    dispatch_cast_s,
    gather_copies_s,
    offload_waits_s,
    recompute_host_s,
    recompute_s,
    weight_cast_s,
)

if TYPE_CHECKING:
    from railyard.model.machine import F, MachineColumns
    from railyard.work.training.columns import Columns
    from railyard.work.training.passes import ConcurrentPasses, LayerPasses, Loss
    from railyard.work.training.stages import RankColumns
    from railyard.work.training.sync.closed_form import AdaptedDesigns


@dataclass(frozen=True, slots=True)
class Under:
    """Computation of a micro-batch that overlaps sharded traffic: of a layer, and of the head.

    Attributes:
        forward, backward: Seconds of a layer.
        head_forward, head_backward: Seconds of the head, on top of the last layer.
    """

    forward: F
    backward: F
    head_forward: F
    head_backward: F

    @classmethod
    def of(cls, forward: F, backward: F, head: tuple[F, F], rank: RankColumns) -> Under:
        """Passes of a rank in layers and the head."""
        layers = np.maximum(rank.layers, 1.0)
        return cls((forward - head[0]) / layers, (backward - head[1]) / layers, head[0], head[1])

    def times(self, forward: F, backward: F) -> Under:
        """Both passes scaled, each by its own factor."""
        return Under(
            self.forward * forward, self.backward * backward, self.head_forward * forward, self.head_backward * backward
        )


@dataclass(frozen=True, slots=True)
class _Layer(Summed):
    """Seconds of a layer's collectives: gathered for forward and for backward, scattered."""

    gather: F
    again: F
    scatter: F

    def scaled(self, by: _Layer) -> _Layer:
        return _Layer(self.gather * by.gather, self.again * by.again, self.scatter * by.scatter)


@dataclass(frozen=True, slots=True)
class _Traffic(Summed):
    """Traffic of a micro-batch: a plain layer, that with the embedding, that with the head; coding of all."""

    layer: _Layer
    first: _Layer
    last: _Layer
    coding: F


def sharded_times(
    columns: Columns, rank: RankColumns, machine: MachineColumns, hooks: tuple[Loss, AdaptedDesigns], under: Under
) -> tuple[F, F, F, F]:
    """Exposed gathers and scatters of sharded parameters in each micro-batch, contention, and coding.

    Args:
        columns: The designs.
        rank: Layers and parameters of the rank.
        machine: Rates.
        hooks: Slowdown of computation by overlapping collectives, and measures against network limits.
        under: Computation that they overlap.
    """
    layout, software, (loss, around) = columns.layout, columns.software, hooks
    layers = np.maximum(rank.layers, 1.0)
    spaces = (("dp", "dense"), ("edp", "expert"))
    dense, expert = (_traffic(columns, rank, machine.seen_by(space), around, name) for space, name in spaces)
    sent = dense + expert
    across = _across_replicas(columns, machine.seen_by("replica"), rank.trained_dense / layers)
    share = 1.0 if columns.as_graph else software.shard_overlap
    # What runs beside a collective loses a share of its speed, and so covers more of it.
    share = share * layout.overlap_gradient
    under = under.times(share / (1.0 - loss.forward["dp"]), share / (1.0 - loss.backward["dp"]))
    late = 1.0 - prefetched(columns, (rank.dense + rank.expert) / layers)
    gather = layers * sent.layer.gather + sent.first.gather + sent.last.gather - 2.0 * sent.layer.gather
    again = (layers * sent.layer.again + sent.first.again + sent.last.again - 2.0 * sent.layer.again) * layout.reshard
    scatter = layers * (sent.layer.scatter + across) + sent.first.scatter + sent.last.scatter - 2.0 * sent.layer.scatter
    ahead = (1.0 - late) * _ahead(sent, under, columns, layers) + late * gather
    behind = _behind(sent, under, columns, rank, _sums(columns, machine, across))
    behind = behind + late * np.minimum(again, layers * under.backward)
    lead = np.minimum(ahead, gather)
    trail = np.minimum(behind, again + scatter)
    part = scatter / np.maximum(again + scatter, 1e-12)
    taken = (gather - lead) * loss.forward["dp"] + (again + scatter - trail) * loss.backward["dp"]
    on = np.where((layout.zero >= 3) & (layout.shard_ranks > 1), 1.0, 0.0)
    copied = gather_copies_s(columns, rank.layers) * (1.0 + layout.reshard)
    return on * (lead + trail * (1.0 - part)) + copied, on * trail * part, on * taken, on * sent.coding


def _ahead(sent: _Traffic, under: Under, columns: Columns, layers: F) -> F:
    """What of a forward pass's gathers computation leaves open: each layer but the last gathers the next one.

    The first is gathered before a step begins to compute, for later micro-batches behind what the first layer of the
    backward pass before has to scatter.
    """
    plain = np.maximum(layers - 2.0, 0.0) * np.maximum(sent.layer.gather - under.forward, 0.0)
    last = np.where(layers > 1, np.maximum(sent.last.gather - under.forward, 0.0), 0.0)
    room = np.maximum(under.backward - sent.layer.scatter, 0.0)
    once = 1.0 / columns.layout.micro_batches
    return plain + last + once * sent.first.gather + (1.0 - once) * np.maximum(sent.first.gather - room, 0.0)


def _sums(columns: Columns, machine: MachineColumns, across: F) -> tuple[F, F]:
    """Seconds of a layer's sum over replicas that scatters wait for, and of one that overlaps them.

    It has a queue of its own, and the NICs for itself where shards stay inside a domain.
    """
    alone = columns.layout.shard_ranks * columns.layout.tp <= machine.domain
    return np.where(alone, 0.0, across), np.where(alone, across, 0.0)


def _behind(sent: _Traffic, under: Under, columns: Columns, rank: RankColumns, sums: tuple[F, F]) -> F:
    """What of a backward pass's gathers and scatters its layers leave open, the last scatter of a step included.

    Each layer but the first gathers the one before it and scatters the one behind it; the gather of the last runs under
    the end of forward. With a micro-batch to come, the first layer is scattered under it.
    """
    layers, reshard = np.maximum(rank.layers, 1.0), columns.layout.reshard
    layer, first, last = sent.layer, sent.first, sent.last

    def left(gathered: F | float, scattered: F | float, computed: F) -> F:
        busy = np.maximum(gathered + scattered + (scattered > 0) * sums[0], sums[1])
        return np.maximum(busy - computed, 0.0)

    head = under.backward + under.head_backward
    begun = np.maximum(reshard * last.again - under.forward - under.head_forward, 0.0)
    begun = begun + np.where(layers > 1, np.maximum(reshard * layer.again - head, 0.0), 0.0)
    middle = np.maximum(layers - 4.0, 0.0) * left(reshard * layer.again, layer.scatter, under.backward)
    ends = np.where(layers > 2, left(reshard * layer.again, last.scatter, under.backward), 0.0)
    ends = ends + np.where(layers > 3, left(reshard * first.again, layer.scatter, under.backward), 0.0)
    ends = ends + np.where(layers > 1, left(0.0, layer.scatter, under.backward), 0.0)
    once = 1.0 / columns.layout.micro_batches
    room = np.maximum(under.forward - layer.gather, 0.0)
    done = first.scatter + sums[0]
    return begun + middle + ends + (1.0 - once) * np.maximum(done - room, 0.0) + once * done


def shard_group(columns: Columns, name: str) -> Group:
    """Ranks over which ZeRO-3 spreads `dense` or `expert` parameters, as `parallel.data` has them."""
    layout = columns.layout
    if name == "dense":
        return Group(layout.shard_ranks, layout.tp)
    expert = layout.ep * layout.expert_tp
    return Group(np.maximum(layout.tp * layout.cp * layout.dp / expert, 1.0), expert)


def prefetched(columns: Columns, parameters: F) -> F:
    """Share of a layer's parameters that is gathered while the one before computes.

    Args:
        columns: The designs.
        parameters: Of a layer on a rank before any sharding.
    """
    ahead = columns.software.prefetch_parameters
    return np.where(ahead > 0, np.minimum(1.0, ahead / np.maximum(parameters, 1.0)), 1.0)


def _traffic(
    columns: Columns, rank: RankColumns, machine: MachineColumns, around: AdaptedDesigns, name: str
) -> _Traffic:
    """Traffic of dense or of expert parameters."""
    held, trained = getattr(rank, name), getattr(rank, f"trained_{name}")
    layers = np.maximum(rank.layers, 1.0)
    table = columns.model.embedding_parameters / columns.layout.tp * (name == "dense")
    ends = [np.minimum(table * each, held / layers * (layers - 1.0)) for each in (rank.embedding, rank.head)]
    taught = 1.0 - columns.job.frozen
    each = (held - ends[0] - ends[1]) / layers
    learned = np.maximum(trained - taught * (ends[0] + ends[1]), 0.0) / layers
    plain = _layer(columns, machine, name, each, learned)
    gather, again, scatter, coding = around.each(name, (held, layers), plain.gather, plain.again, plain.scatter)
    share = _Layer(
        *(_over(new, old) for new, old in ((gather, plain.gather), (again, plain.again), (scatter, plain.scatter)))
    )
    first, last = (_layer(columns, machine, name, each + end, learned + taught * end).scaled(share) for end in ends)
    return _Traffic(plain.scaled(share), first, last, coding * (held > 0))


def _over(new: F, old: F) -> F:
    return np.divide(new, old, out=np.ones_like(new), where=old > 0)


def _layer(columns: Columns, machine: MachineColumns, name: str, held: F, trained: F) -> _Layer:
    """Traffic of a layer with so many parameters on a rank, and so many trained ones."""
    software, group = columns.software, shard_group(columns, name)
    fraction, many, used = software.collective_fraction, software.shard_messages, held > 0
    gather = used * many * collective_s(CollectiveKind.ALL_GATHER, held * 2.0 / many, group, machine, fraction)
    grads = trained * software.gradient_bytes
    scatter = collective_s(CollectiveKind.REDUCE_SCATTER, grads, group, machine, fraction)
    return _Layer(gather, gather, (trained > 0) * scatter)


def _across_replicas(columns: Columns, machine: MachineColumns, trained: F) -> F:
    """Hybrid sharding: time to sum a layer's dense shards over the groups with the same ones."""
    layout, software = columns.layout, columns.software
    group = Group(layout.dp * layout.cp / layout.shard_ranks, layout.tp * layout.shard_ranks)
    size = trained * software.gradient_bytes / layout.shard_ranks
    return collective_s(CollectiveKind.ALL_REDUCE, size, group, machine, software.collective_fraction)


@dataclass(frozen=True, slots=True)
class RankTimes:
    """Seconds of one micro-batch; `total` is the sum of the parts from `compute` to `parameter`, and `encoding`.

    `forward` and `backward` are the two halves of the total, `weight` the weight-gradient part of the computation,
    `send` one send to the next stage. `data_forward` and `data_backward` are the shares of the speed of the two passes
    that overlapping reductions and gathers take, `expert_ahead` and `expert_back` what expert exchanges that hide under
    another micro-batch add to passes without one to overlap.
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
    """Exposed seconds by group, slowdown of computation by hidden collectives, and the host's part.

    `under` is what expert exchanges would add to a pass without another micro-batch to overlap.
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
        rank: Layers and parameters of the rank.
        machine: Rates.
        hooks: Slowdown of computation by overlapping collectives, and measures against network limits.
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
    counts = alpha_beta.places(rank, columns.layout.vp)
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
    """Exposed sends of one micro-batch, both ways for each chunk; all schedules but 1F1B overlap sends."""
    hidden = np.where(columns.layout.vp > 1, columns.software.pipeline_overlap, columns.layout.dual)
    return 2.0 * columns.layout.vp * send * (1.0 - hidden)
