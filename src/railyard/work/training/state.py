"""What a step does once: reduce gradients, step the optimizer, gather parameters, and what of it is exposed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.designs import Classes
from railyard.graph import CollectiveKind
from railyard.work.training import alpha_beta
from railyard.work.training.alpha_beta import Group, collective_s, wire_bytes
from railyard.work.training.columns import Summed
from railyard.work.training.rank_times import shard_group
from railyard.work.training.stages import RankColumns

if TYPE_CHECKING:
    from railyard.engine.tiers import Pattern
    from railyard.model.machine import F, MachineColumns
    from railyard.work.training.columns import Columns
    from railyard.work.training.rank_times import RankTimes
    from railyard.work.training.stages import PipelineRanks
    from railyard.work.training.sync.closed_form import AdaptedDesigns


@dataclass(frozen=True, slots=True)
class GradientSyncTimes:
    """Seconds a step: exposed reductions and gathers, the optimizer, what hidden traffic takes from computation.

    `encoding` is what codes and decodes what is sent.
    """

    gradient: F
    parameter: F
    optimizer: F
    contention: F
    encoding: F


def sync_times(
    columns: Columns, pipeline: PipelineRanks, machine: MachineColumns, times: RankTimes, around: AdaptedDesigns
) -> GradientSyncTimes:
    """The once-a-step part on the rank that holds most."""
    dense, expert, layers = pipeline.most("trained_dense", "trained_expert", "layers")
    layout = columns.layout
    replicated = np.where(layout.zero < 3, 1.0, 0.0)
    reduce, gather, encoding = _traffic(columns, machine, (dense, expert), np.maximum(layers, 1.0), around)
    window = covering_batches(columns)
    # What runs beside a collective loses a share of its speed, and so covers more of it.
    forward = window * times.forward / (1.0 - times.data_forward)
    backward = window * times.backward / (1.0 - times.data_backward)
    share = columns.software.gradient_overlap
    # The last piece to be reduced and the first to be gathered hold the embedding, and have nothing to hide under.
    edge = _edge(columns, pipeline, machine, np.maximum(layers, 1.0))
    least = [np.minimum(one, each) for one, each in zip(edge, (reduce, gather), strict=True)]
    back = np.minimum(np.minimum(share * reduce, reduce - least[0]), backward) * layout.overlap_gradient
    ahead = np.minimum(np.minimum(share * gather, gather - least[1]), forward) * layout.overlap_parameter
    gradient, parameter = around.exposed(
        columns,
        (forward, backward, layout.micro_batches * times.total),
        (reduce, gather),
        (reduce - back, gather - ahead),
    )
    gradient = gradient * replicated + _shared_embedding_s(columns, machine)
    parameter = parameter * replicated
    taken = back * times.data_backward + ahead * times.data_forward
    optimizer = _optimizer_s(columns, dense, expert)
    return GradientSyncTimes(gradient, parameter, optimizer, taken * replicated, encoding * replicated)


def _shared_embedding_s(columns: Columns, machine: MachineColumns) -> F:
    """First and last stage hold one embedding where input and output share it: they sum its gradients, after all else.

    Megatron's all-reduce of the embedding group; the same as in the task graph (`parallel.finish`).
    """
    layout, model = columns.layout, columns.model
    size = model.vocab * model.hidden * columns.software.gradient_bytes / layout.tp * (1.0 - columns.job.frozen)
    stride = np.maximum(layout.pp - 1.0, 1.0) * layout.tp * layout.cp * layout.dp
    ends = Group(np.full_like(layout.pp, 2.0), stride)
    seen = machine.seen_by("pp")
    summed = collective_s(CollectiveKind.ALL_REDUCE, size, ends, seen, columns.software.collective_fraction)
    return np.where((model.tied > 0) & (layout.pp > 1) & (columns.job.frozen == 0), summed, 0.0)


def covering_batches(columns: Columns) -> F:
    """Micro-batches under whose passes the traffic of a step can run.

    One for a plain pipeline. An interleaved one finishes its last chunk for all micro-batches of a round before the
    next chunk, so that all chunks but one lie in front of the end.
    """
    layout = columns.layout
    rounds = np.minimum(layout.micro_batches, layout.pp) * (layout.vp - 1.0) / layout.vp
    return np.maximum(1.0, np.where(layout.vp > 1, rounds, 1.0))


def _traffic(
    columns: Columns, machine: MachineColumns, parameters: tuple[F, F], layers: F, around: AdaptedDesigns
) -> tuple[F, F, F]:
    """Seconds of reducing all gradients and gathering all parameters of the rank, unhidden, and of coding them."""
    dense, expert = parameters
    sent = (
        _reduce_and_gather(
            columns, machine.seen_by(space), held, _replicas(columns, name), buckets(columns, held, layers)
        )
        for space, held, name in (("dp", dense, "dense"), ("edp", expert, "expert"))
    )
    (reduce, gather), (more_reduce, more_gather) = sent
    reduce, gather, coding = around.once("dense", dense, layers, reduce, gather)
    more_reduce, more_gather, more_coding = around.once("expert", expert, layers, more_reduce, more_gather)
    return reduce + more_reduce, gather + more_gather, coding + more_coding


def _edge(columns: Columns, pipeline: PipelineRanks, machine: MachineColumns, layers: F) -> tuple[F, F]:
    """Seconds of reducing and gathering a bucket with the embedding."""
    # A pipeline of one rank has it at its end.
    first, table = pipeline.first, columns.model.embedding_parameters / columns.layout.tp * (1.0 - columns.job.frozen)
    embedding, head, trained, experts = (
        np.where(first.ranks > 0, getattr(first, name), getattr(pipeline.last, name))
        for name in ("embedding", "head", "trained_dense", "trained_expert")
    )
    rest = np.maximum(trained - table * (embedding + head), 0.0)
    dense = rest / buckets(columns, trained, layers) + table * embedding
    one = np.ones_like(layers)
    found = _reduce_and_gather(columns, machine.seen_by("dp"), dense, _replicas(columns, "dense"), one)
    more = _reduce_and_gather(
        columns, machine.seen_by("edp"), experts / buckets(columns, experts, layers), _replicas(columns, "expert"), one
    )
    return found[0] + more[0], found[1] + more[1]


def _replicas(columns: Columns, name: str) -> Group:
    """Ranks that hold the same dense or expert parameters before any sharding."""
    layout = columns.layout
    return shard_group(columns, name) if name == "expert" else Group(layout.dp * layout.cp, layout.tp)


def _reduce_and_gather(columns: Columns, machine: MachineColumns, parameters: F, group: Group, count: F) -> tuple[F, F]:
    """Seconds of reducing the gradients and of gathering so many parameters, in that many collectives each."""
    software, layout = columns.software, columns.layout
    fraction = software.collective_fraction
    used = np.where((parameters > 0) & (group.ranks > 1), 1.0, 0.0)
    grads, params = parameters * software.gradient_bytes / count, parameters * 2.0 / count
    all_reduce = collective_s(CollectiveKind.ALL_REDUCE, grads, group, machine, fraction)
    scatter = collective_s(CollectiveKind.REDUCE_SCATTER, grads, group, machine, fraction)
    gather = collective_s(CollectiveKind.ALL_GATHER, params, group, machine, fraction)
    sharded = layout.zero >= 1
    return used * count * np.where(sharded, scatter, all_reduce), used * count * np.where(sharded, gather, 0.0)


def buckets(columns: Columns, parameters: F, layers: F) -> F:
    """Collectives in which the gradients of so many parameters are reduced; see `parallel.buckets`.

    Args:
        columns: The designs.
        parameters: Of a rank, before any sharding.
        layers: Of a rank, at least 1: as many collectives where the software has no size of buckets.
    """
    layout, software = columns.layout, columns.software
    own = np.maximum(software.bucket_parameters, software.bucket_parameters_per_rank * layout.dp * layout.cp)
    size = np.where(layout.bucket_bytes > 0, layout.bucket_bytes, own * software.gradient_bytes)
    full = parameters * software.gradient_bytes / np.maximum(size, 1.0)
    several = layers * np.floor(full / layers)
    return np.where(size > 0, np.maximum(np.where(several > 0, several, np.floor(full)), 1.0), layers)


def _optimizer_s(columns: Columns, dense: F, expert: F) -> F:
    """Traffic of the optimizer's own shard, and two passes over the gradient buffer (zeroing, norm)."""
    layout, software = columns.layout, columns.software
    sharded = np.where(layout.zero >= 1, 1.0, 0.0)
    edp = np.maximum(layout.tp * layout.dp * layout.cp / (layout.ep * layout.expert_tp), 1.0)
    shard = dense / np.where(sharded > 0, layout.shard_ranks, 1.0) + expert / np.where(sharded > 0, edp, 1.0)
    buffer = np.where(layout.zero >= 2, shard, dense + expert) * software.gradient_bytes * 2.0
    return (shard * software.optimizer_bytes + buffer) / columns.device.hbm_bytes_s


CLASSES = ("tp", "cp", "ep", "pp", "dp", "edp", "replica")
"""Communicators: tensor, context, expert and pipeline parallel, replicas of dense and of expert parameters, and groups
of shards that are replicas of one another."""

PATTERNS: tuple[Pattern, ...] = ("ring", "ring", "exchange", "send", "ring", "ring", "ring")
"""How each class talks."""

PACED = (False, False, False, True, False, False, False)
"""Whether groups of a class get out of step: sends between stages do, layer or all-replica collectives do not."""

QUEUES = (0, 0, 0, 0, 1, 1, 1)
"""Classes of one queue take turns on an accelerator: what computation waits for, and the data streams."""

_GATHER, _SCATTER, _REDUCE = CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_REDUCE


def traffic(columns: Columns, pipeline: PipelineRanks, machine: MachineColumns) -> Classes:
    """What one step of each design sends; what is sent once a step overlaps the passes of its window alone."""
    groups = _groups(columns)
    sent = _sharded(columns, pipeline, machine, groups) | {"pp": _sends(columns, machine)}
    fullest = RankColumns(*pipeline.most(*RankColumns.__slots__))
    sent |= _exchanged(columns, fullest, machine)
    stride = [groups[name].stride for name in CLASSES]
    local = [groups[name].local(machine) for name in CLASSES]
    spanned = [np.ceil(groups[name].ranks / each) for name, each in zip(CLASSES, local, strict=True)]
    moved = [sent[name] for name in CLASSES]
    layout = columns.layout
    return Classes(
        patterns=PATTERNS,
        paced=np.array(PACED),
        queues=np.array(QUEUES),
        ranks=layout.tp * layout.cp * layout.dp * layout.pp,
        lockstep=layout.pp <= 1,
        domains=np.stack(spanned, axis=1),
        hop=np.stack([np.maximum(each / machine.domain, 1.0) for each in stride], axis=1),
        local=np.stack(local, axis=1),
        inside_s=np.stack([_seconds(each.inside, machine.up_bytes_s) for each in moved], axis=1),
        outside_s=np.stack([each.outside / machine.out_bytes_s for each in moved], axis=1),
        aggregated=np.stack([each.trees / np.maximum(each.outside, 1e-12) for each in moved], axis=1),
        contended=_of_data(columns, covering_batches(columns) / columns.layout.micro_batches),
        hidden=_of_data(columns, columns.software.gradient_overlap * np.ones_like(columns.layout.zero)),
    )


def _seconds(amount: F, rate: F) -> F:
    """Bytes over bytes/s; 0 where nothing is sent, also on a machine that has no such links."""
    return np.divide(amount, rate, out=np.zeros_like(amount), where=amount > 0)


def _of_data(columns: Columns, once: F) -> F:
    """float64[d, c], 1 but for classes of the data streams that send once a step."""
    share = np.where(columns.layout.zero >= 3, 1.0, np.minimum(once, 1.0))
    return np.stack([share if queue else np.ones_like(share) for queue in QUEUES], axis=1)


@dataclass(frozen=True, slots=True)
class _Moved(Summed):
    """Bytes that one rank sends on its scale-up links and through its NICs, and those of the latter in trees."""

    inside: F
    outside: F
    trees: F

    @classmethod
    def none(cls, like: F) -> _Moved:
        return cls(*(np.zeros_like(like) for _ in range(3)))

    @classmethod
    def of(cls, kind: CollectiveKind, size_bytes: F, calls: F, group: Group, machine: MachineColumns) -> _Moved:
        """So many collectives with so many bytes in total."""
        inside, outside = wire_bytes(kind, size_bytes, group, machine)
        trees = np.zeros_like(outside)
        if machine.curves is not None:
            members = (group.ranks, group.local(machine))
            trees = outside * machine.curves.aggregated(kind, size_bytes / calls, members)
        return cls(inside, outside, trees)


def _groups(columns: Columns) -> dict[str, Group]:
    layout = columns.layout
    replicas = layout.dp * layout.cp
    shard = np.where(layout.zero >= 3, layout.shard_ranks, replicas)
    return {
        **alpha_beta.groups(columns),
        "pp": Group(layout.pp, layout.tp * replicas),
        "dp": Group(shard, layout.tp),
        "edp": shard_group(columns, "expert"),
        "replica": Group(replicas / shard, layout.tp * shard),
    }


def _exchanged(columns: Columns, rank: RankColumns, machine: MachineColumns) -> dict[str, _Moved]:
    """Exchanges of tensor-, context- and expert-parallel collectives."""
    groups, counts = alpha_beta.groups(columns), alpha_beta.places(rank, columns.layout.vp)
    sent = {name: _Moved.none(rank.layers) for name in groups}
    for exchange in alpha_beta.exchanges(columns, machine.domain):
        often = sum(alpha_beta.repeats(columns, exchange, phase) for phase in ("forward", "backward"))
        times = columns.layout.micro_batches * exchange.count * counts[exchange.part] * often
        moved = _Moved.of(exchange.kind, exchange.size_bytes, np.ones_like(times), groups[exchange.group], machine)
        sent[exchange.group] += moved.times(times)
    return sent


def _sends(columns: Columns, machine: MachineColumns) -> _Moved:
    """Activations to the next stage and gradients to the one before, of all chunks."""
    layout = columns.layout
    moved = 2.0 * layout.vp * layout.micro_batches * alpha_beta.pipeline_bytes(columns) * (layout.pp > 1)
    near = layout.tp * layout.cp * layout.dp < machine.domain
    return _Moved(np.where(near, moved, 0.0), np.where(near, 0.0, moved), np.zeros_like(moved))


def _sharded(
    columns: Columns, pipeline: PipelineRanks, machine: MachineColumns, groups: dict[str, Group]
) -> dict[str, _Moved]:
    """Reductions of gradients and gathers of parameters, once a step or, under ZeRO-3, with every micro-batch."""
    layout, each = columns.layout, columns.software.gradient_bytes
    dense, expert, trained, trained_expert, layers = pipeline.most(
        "dense", "expert", "trained_dense", "trained_expert", "layers"
    )
    layers = np.maximum(layers, 1.0)
    split = layout.zero >= 3
    often = np.where(split, layout.micro_batches, 1.0)
    kept = (layout.zero < 1).astype(np.float64)
    gathers = np.where(split, 1.0 + layout.reshard, 1.0 - kept)
    messages = np.where(split, columns.software.shard_messages, 1.0)

    def of(name: str, held: F, taught: F) -> _Moved:
        calls = np.where(split, layers, buckets(columns, taught, layers))
        summed = _Moved.of(_REDUCE, taught * each * kept, calls, groups[name], machine)
        scattered = _Moved.of(_SCATTER, taught * each * (1.0 - kept), calls, groups[name], machine)
        gathered = _Moved.of(_GATHER, np.where(split, held, taught) * 2.0, calls * messages, groups[name], machine)
        return summed + scattered + gathered.times(gathers)

    across = _Moved.of(_REDUCE, trained / layout.shard_ranks * each * split, layers, groups["replica"], machine)
    sent = {"dp": of("dp", dense, trained), "edp": of("edp", expert, trained_expert), "replica": across}
    return {name: moved.times(often) for name, moved in sent.items()}
