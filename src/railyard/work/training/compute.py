"""Time and traffic of one virtual pipeline stage, for the builder of task graphs.

The numbers are those of `passes` and `communication` for a table of one row, rounded to integer picoseconds and bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.training import alpha_beta, parameters
from railyard.work.training.activations import kept_bytes, layer_activations, offloaded
from railyard.work.training.columns import Columns
from railyard.work.training.lora import adapters_of_layer
from railyard.work.training.passes import LayerPasses, Pass, layer_passes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railyard.catalog import Accelerator
    from railyard.graph import CollectiveKind
    from railyard.model.machine import F
    from railyard.work.training.alpha_beta import Exchange
    from railyard.work.training.spec import Training
    from railyard.work.training.stages import VirtualStage

# Traffic of casting a weight to a narrow type: 2 bytes read, 1 written in either order.
_WEIGHT_CAST_BYTES = 4.0


@dataclass(frozen=True, slots=True)
class StageCollective:
    """Collectives of one kind in one pass of one micro-batch through a virtual stage.

    Attributes:
        group: Class of the communicator: `tp`, `cp` or `ep`.
        phase: `forward` or `backward`. Under full recomputation the forward ones are repeated before backward.
        size_bytes: Size of one collective, as in nccl-tests.
        hidden: Share of their time that overlaps this stage's computation; the rest is exposed.
    """

    kind: CollectiveKind
    group: str
    phase: str
    size_bytes: int
    count: int
    hidden: float


@dataclass(frozen=True, slots=True)
class StageTimes:
    """One micro-batch on one rank of a virtual stage.

    Attributes:
        forward_ps, backward_input_ps, backward_weight_ps, recompute_ps: Computation. Backward runs recompute, input and
            weight parts.
        flops: FLOPs of the forward matrix products.
        host_forward_ps, host_backward_ps: Time of the host to launch a pass, computations and collectives; backward
            includes
            recomputation.
    """

    forward_ps: int
    backward_input_ps: int
    backward_weight_ps: int
    recompute_ps: int
    flops: float
    collectives: tuple[StageCollective, ...]
    host_forward_ps: int = 0
    host_backward_ps: int = 0


@dataclass(frozen=True, slots=True)
class StageParameters:
    """Parameters of one rank of a virtual stage before any ZeRO sharding, and the trained ones among them.

    Attributes:
        dense: Replicated on the dp * cp ranks of its group (attention, MLP, router, norms, embedding, head).
        expert: Replicated on the `edp` ranks that have the same experts.
        layer_dense, layer_expert: The same for each transformer layer of the stage, in order.
        trained_dense, trained_expert: Trained parameters: all, or the adapters of a frozen model.
    """

    dense: int
    expert: int
    layer_dense: tuple[int, ...]
    layer_expert: tuple[int, ...]
    trained_dense: int
    trained_expert: int


@lru_cache(maxsize=64)
def passes_of(training: Training, accelerator: Accelerator) -> tuple[Columns, LayerPasses]:
    """A job as columns of one row and the passes of its layers, which no network changes."""
    columns = Columns.of([training], [accelerator])
    return columns, layer_passes(columns)


@dataclass(frozen=True, slots=True)
class StageCosts:
    """Layer costs of a job, computed once for all of its virtual stages.

    Attributes:
        host_bytes_s: Bandwidth between the accelerator and its host, each way.
    """

    training: Training
    columns: Columns
    passes: LayerPasses
    exchanges: tuple[Exchange, ...]
    host_bytes_s: F

    @classmethod
    def of(cls, training: Training, accelerator: Accelerator, host_bps: float = np.inf) -> StageCosts:
        """The costs of a job on an accelerator, with this bandwidth between it and its host."""
        columns, passes = passes_of(training, accelerator)
        domain = np.array([float(accelerator.scale_up_domain)])
        exchanges = tuple(alpha_beta.exchanges(columns, domain))
        return cls(training, columns, passes, exchanges, np.array([host_bps / 8.0]))

    def times(self, stage: VirtualStage) -> StageTimes:
        """Computation and collectives of one micro-batch through a virtual stage, from `stages.virtual_stages`."""
        columns, passes = self.columns, self.passes
        work = passes.stage(stage.layers, stage.moe_layers, float(stage.embedding), float(stage.head))
        again = stage.layers, stage.moe_layers
        host_backward = work.host_backward + recompute_host_s(columns, passes, work, *again)
        ahead, started = (self._starting_s(stage, phase) for phase in ("forward", "backward"))
        cast = 0.5 * dispatch_cast_s(columns, float(stage.moe_layers))
        copied = gather_copies_s(columns, float(stage.layers))
        out, back = offload_waits_s(columns, passes, *again, self.host_bytes_s)
        held = stage_parameters(self.training, stage)
        weights = weight_cast_s(columns, float(held.dense + held.expert))
        forward, backward = (
            work.forward + cast + weights + copied,
            work.backward_input + cast + copied * columns.layout.reshard,
        )
        host_forward = np.maximum(work.host_forward + ahead, (forward + out) * (out > 0))
        behind = np.maximum(host_backward + started, (backward + work.backward_weight + back) * (back > 0))
        return StageTimes(
            forward_ps=_ps(forward),
            backward_input_ps=_ps(backward),
            backward_weight_ps=_ps(work.backward_weight),
            recompute_ps=_ps(recompute_s(columns, passes, work, *again)),
            flops=float(work.flops[0]),
            collectives=_collectives(self.exchanges, stage),
            host_forward_ps=_ps(host_forward),
            host_backward_ps=_ps(behind),
        )

    def _starting_s(self, stage: VirtualStage, phase: str) -> F:
        """Seconds of the host to start the collectives of a pass."""
        places, columns = alpha_beta.places(stage), self.columns
        started = sum(
            places[exchange.part] * exchange.count * alpha_beta.repeats(columns, exchange, phase)
            for exchange in self.exchanges
        )
        found: F = started * columns.software.collective_host_s
        return found


def stage_times(training: Training, accelerator: Accelerator, stage: VirtualStage) -> StageTimes:
    """Computation and collectives of one micro-batch through a virtual stage.

    Args:
        training: The job.
        accelerator: The accelerator.
        stage: From `stages.virtual_stages`.
    """
    return StageCosts.of(training, accelerator).times(stage)


def dispatch_cast_s(columns: Columns, moe_layers: F | float) -> F:
    """Time to encode and decode tokens for dispatch and combine, forward and backward, if they are sent encoded."""
    numbers = columns.split_tokens * columns.model.topk * columns.model.hidden
    return moe_layers * 2.0 * numbers * columns.job.dispatch_cast / columns.device.hbm_bytes_s


def weight_cast_s(columns: Columns, parameters: F | float) -> F:
    """One micro-batch's share of the time to cast weights to narrow types.

    Weights that are gathered again are cast in each micro-batch, others once per step; frozen ones that are never
    gathered
    are cast once, at the start.
    """
    gathered = columns.layout.zero >= 3
    often = np.where(gathered, 1.0, (columns.job.frozen == 0) / columns.layout.micro_batches)
    cast = np.where(columns.job.bits < 16, _WEIGHT_CAST_BYTES, 0.0) * often
    return cast * parameters / columns.device.hbm_bytes_s


def gather_copies_s(columns: Columns, layers: F | float) -> F:
    """Launches that copy each rank's part of what ZeRO-3 gathered for one pass, on the critical path of computation."""
    software, layout = columns.software, columns.layout
    parts = (
        software.gather_copies
        * software.shard_messages
        * layout.shard_ranks
        * (layout.zero >= 3)
        * (layout.shard_ranks > 1)
    )
    return layers * parts * software.launch_s


def offload_waits_s(
    columns: Columns, passes: LayerPasses, layers: F | float, moe_layers: F | float, host_bytes_s: F
) -> tuple[F, F]:
    """Seconds that forward and backward wait for activation transfers to and from the host.

    Each layer is copied while the next computes, so only the copy time beyond the computation of the copied layers is
    waited for.
    """
    share = offloaded(columns)
    copy = share * kept_bytes(columns, layer_activations(columns), layers, moe_layers) / host_bytes_s
    work = passes.layers(layers, moe_layers)
    back = work.backward_input + work.backward_weight
    return np.maximum(copy - share * work.forward, 0.0), np.maximum(copy - share * back, 0.0)


def recompute_s(columns: Columns, passes: LayerPasses, work: Pass, layers: F | float, moe_layers: F | float) -> F:
    """Seconds of recomputation in backward: whole layers, most operators of each, named modules, or nothing.

    PyTorch stops recomputation before a layer's last product, whose result backward does not need (early stop, from
    release 2.1 on). By operator, it keeps attention and every second product (torchtitan's `selective` `op`).
    """
    again = passes.layers(layers, moe_layers)
    stopped = again.forward - columns.software.recompute_stops * again.last
    full = np.maximum(stopped, again.host_forward)
    most = np.maximum(again.forward - again.core - again.product / 2.0, again.host_forward)
    by_operator = columns.layout.recompute_operators
    layer = np.where(by_operator > 0, most, columns.layout.recompute_full * full)
    return layer + np.where(columns.layout.recompute_full > 0, 0.0, np.maximum(work.modules, work.host_modules))


def recompute_host_s(columns: Columns, passes: LayerPasses, work: Pass, layers: F | float, moe_layers: F | float) -> F:
    """Seconds of the host to launch the recomputation."""
    full = columns.layout.recompute_full
    return full * passes.layers(layers, moe_layers).host_forward + np.where(full > 0, 0.0, work.host_modules)


def stage_parameters(training: Training, stage: VirtualStage) -> StageParameters:
    """Parameters of one rank of a virtual stage, which size the gradient and parameter collectives."""
    model, layout = training.model, training.layout
    dense, moe = parameters.layer_dense(model, layout), parameters.layer_moe_dense(model, layout)
    expert = parameters.layer_expert(model, layout)
    kinds = [model.has_experts(layer) for layer in range(stage.first_layer, stage.first_layer + stage.layers)]
    ends = parameters.embedding(model, layout) * stage.embedding
    ends += parameters.head(model, layout) * stage.head
    ahead = parameters.prediction_expert(model, layout) * stage.head
    layers = tuple(round(moe if kind else dense) for kind in kinds)
    experts = tuple(round(expert) if kind else 0 for kind in kinds)
    held = round(ends) + sum(layers), round(ahead) + sum(experts)
    trained = held
    if training.lora is not None:
        fused = training.software.fused_adapters
        each = [adapters_of_layer(model, layout, training.lora, experts=kind, fused=fused) for kind in (False, True)]
        trained = round(sum(each[kind] for kind in kinds)), 0
    return StageParameters(*held, layers, experts, *trained)


def optimizer_ps(training: Training, accelerator: Accelerator, parameters_kept: float) -> int:
    """Time of the optimizer's step on one rank, in picoseconds.

    Args:
        training: The job.
        accelerator: The accelerator.
        parameters_kept: Parameters whose state this rank keeps, after ZeRO sharding.
    """
    columns = Columns.of([training], [accelerator])
    return _ps(optimizer_s(columns, np.array([parameters_kept])))


def optimizer_s(columns: Columns, parameters_kept: F) -> F:
    """Seconds of the optimizer's step, from its memory traffic; Adam reads and writes moments and master copy."""
    return parameters_kept * columns.software.optimizer_bytes / columns.device.hbm_bytes_s


def p2p_bytes(training: Training, accelerator: Accelerator) -> int:
    """Bytes that one rank sends to the next pipeline stage for one micro-batch."""
    return round(float(alpha_beta.pipeline_bytes(Columns.of([training], [accelerator]))[0]))


def _collectives(exchanges: Iterable[Exchange], stage: VirtualStage) -> tuple[StageCollective, ...]:
    counts = alpha_beta.places(stage)
    merged: dict[tuple[CollectiveKind, str, str, int, float], int] = {}
    for exchange in exchanges:
        count = counts[exchange.part] * int(exchange.count[0])
        key = (
            exchange.kind,
            exchange.group,
            exchange.phase,
            round(float(exchange.size_bytes[0])),
            float(exchange.hidden[0]),
        )
        if count:
            merged[key] = merged.get(key, 0) + count
    return tuple(
        StageCollective(kind, group, phase, size, count, hidden)
        for (kind, group, phase, size, hidden), count in merged.items()
    )


def _ps(seconds: F) -> int:
    return round(float(np.asarray(seconds).reshape(-1)[0]) * 1e12)
