"""What a step does once: reduce gradients, step the optimizer, gather parameters, and what of it is exposed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind
from railyard.work.training.alpha_beta import Group, collective_s
from railyard.work.training.sharded_times import shard_group

if TYPE_CHECKING:
    from railyard.model.columns import F
    from railyard.model.machine import MachineColumns
    from railyard.work.training.columns import Columns
    from railyard.work.training.pipeline_ranks import PipelineRanks
    from railyard.work.training.rank_times import RankTimes
    from railyard.work.training.sync.closed_form import AdaptedDesigns


@dataclass(frozen=True, slots=True)
class SyncTimes:
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
) -> SyncTimes:
    """The once-a-step part on the rank that holds most."""
    largest = [
        np.max([getattr(kind, name) for kind in pipeline.kinds], axis=0)
        for name in ("trained_dense", "trained_expert", "layers")
    ]
    dense, expert, layers = largest
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
    return SyncTimes(gradient, parameter, optimizer, taken * replicated, encoding * replicated)


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
    shard = dense / np.where(sharded > 0, layout.shard, 1.0) + expert / np.where(sharded > 0, edp, 1.0)
    buffer = np.where(layout.zero >= 2, shard, dense + expert) * software.gradient_bytes * 2.0
    return (shard * software.optimizer_bytes + buffer) / columns.device.hbm_bytes_s
