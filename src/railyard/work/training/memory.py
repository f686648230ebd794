"""Memory of a training job by pipeline stage, and whether it fits.

Parameters and gradients as the layout shards them, optimizer state in 32 bits, activations of the micro-batches in
flight, and buffers: logits, gathered parameters, one layer's working set, and what the runtime itself takes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError
from railyard.kit.quantities import format_memory
from railyard.work.training.activations import in_flight, kept, optimizer_bytes, root, shards, state, working
from railyard.work.training.columns import Columns
from railyard.work.training.stages import RankColumns

if TYPE_CHECKING:
    from railyard.catalog import Accelerator
    from railyard.measure.result.step import MemoryFigures
    from railyard.model.machine import F
    from railyard.work.training.spec import Layout, Training
    from railyard.work.training.stages import PipelineRanks


@dataclass(frozen=True, slots=True)
class MemoryColumns:
    """Bytes of one kind of rank, of many designs.

    `reserved` is what the runtime takes and what an allocator holds beyond the peak of what is allocated, `cached` what
    it would give back.
    """

    parameters: F
    gradients: F
    optimizer: F
    activations: F
    buffers: F
    reserved: F
    cached: F

    @property
    def total(self) -> F:
        """Memory of everything but what would be given back."""
        allocated = self.parameters + self.gradients + self.optimizer + self.activations + self.buffers
        return allocated + self.reserved


@dataclass(frozen=True, slots=True)
class _Widths:
    """Bytes of one micro-batch's 16-bit tensors on a rank.

    `residual` is a layer's input, split over TP under sequence parallelism; `gathered` that of all TP ranks; `query`
    and `key` of all heads, with the keys repeated for each query head; `inner` of the MLP (experts: of what the rank
    receives); `routed` the tokens that its experts receive.
    """

    residual: F
    gathered: F
    query: F
    key: F
    value: F
    inner: F
    routed: F


def fully_sharded(columns: Columns, rank: RankColumns, place: F) -> MemoryColumns:
    """Memory of ranks at a place of the pipeline.

    Args:
        columns: The designs; those of other software get figures that mean nothing.
        rank: What the rank holds.
        place: Its pipeline stage, from 0.
    """
    layout, software = columns.layout, columns.software
    dense_shard, expert_shard = shards(columns)
    trained = rank.trained_dense / dense_shard + rank.trained_expert / expert_shard
    held = rank.dense / dense_shard + rank.expert / expert_shard
    widths = _widths(columns, rank)
    activations = _kept(columns, rank, widths) * in_flight(columns, rank, place)
    loss = (_loss(columns) + widths.gathered + 3.0 * widths.residual) * rank.head
    forward, backward = _forward(columns, widths), _backward(columns, rank, widths)
    # Under a pipeline the whole 32-bit gradients come to be in the first backward pass, in the holes that its loss
    # left; from then on the loss and the layers have segments of their own.
    several = layout.pp > 1
    moment = np.where(several, loss + backward, np.maximum(loss, backward))
    # With logits in their own segments, the pieces of a layer's forward pass lie idle at the peak; 16-bit logits too,
    # which are gone when a 32-bit block is wanted that does not fit in their place.
    stray = np.where(software.fused_loss > 0, 0.0, 2.0) * _logits(columns) * rank.head
    idle = np.where((loss > backward) & ~several, forward + stray, 0.0)
    # Outputs are joined when all passes are over, in memory of their own unless there is none.
    outputs = _outputs(columns, rank)
    busiest = np.maximum(moment, outputs - activations)
    return MemoryColumns(
        parameters=2.0 * columns.job.frozen * held,
        gradients=np.where(software.master_copy > 0, software.gradient_bytes, 2.0) * trained,
        optimizer=optimizer_bytes(columns) * trained,
        activations=activations,
        buffers=_unsharded(columns, rank) + _received(columns, place, widths) + outputs + busiest,
        reserved=idle + _gathered(columns, rank),
        cached=moment + outputs - busiest,
    )


def _widths(columns: Columns, rank: RankColumns) -> _Widths:
    model, layout = columns.model, columns.layout
    score_dim, value_dim = model.score_dim, model.value_dim
    heads = model.cored * model.heads / layout.tp
    mixed = 2.0 * columns.tokens * model.mixed_parameters / model.hidden / layout.tp
    received = columns.split_tokens * model.topk * layout.expert_tp * columns.job.imbalance
    plain = columns.tokens * model.dense * model.ffn / layout.tp
    experts = received * model.moe_ffn / layout.expert_tp + columns.tokens * model.shared_ffn / layout.tp
    return _Widths(
        residual=2.0 * columns.split_tokens * model.hidden,
        gathered=2.0 * columns.tokens * model.hidden,
        query=2.0 * columns.tokens * heads * score_dim + mixed,
        key=2.0 * columns.tokens * heads * score_dim,
        value=2.0 * columns.tokens * heads * value_dim,
        inner=2.0 * np.where(rank.moe_layers > 0, np.maximum(experts, plain * (rank.layers > rank.moe_layers)), plain),
        routed=2.0 * received * model.expert_dim * (rank.moe_layers > 0),
    )


def _eager(columns: Columns) -> F:
    """1 if kernels are not compiled, so that every intermediate is written."""
    return 1.0 - columns.software.fused_norm


def _kept(columns: Columns, rank: RankColumns, widths: _Widths) -> F:
    """Bytes that one micro-batch keeps: layer inputs, and under selective recomputation every second product.

    Of a layer's products q, k, v, output, gate, up, down the first, third, fifth and seventh are kept, and attention's
    output with its statistics. Compiled code drops the seventh, which no gradient needs. Without recomputation all
    are kept, with the tensors between them.
    """
    model, layout = columns.model, columns.layout
    groups = np.where(model.latent > 0, 1.0, np.maximum(model.kv_heads, 1.0) / np.maximum(model.heads, 1.0))
    statistics = 4.0 * columns.tokens * model.heads / layout.tp
    second = widths.query + groups * widths.value + widths.value + statistics + widths.inner
    second = second + np.where(model.gated > 0, _eager(columns) * widths.residual, 0.0)
    plain = (
        3.0 * widths.residual
        + widths.gathered
        + 2.0 * widths.query
        + groups * (widths.key + widths.value)
        + widths.value
    )
    plain = plain + statistics + (1.0 + model.gated + columns.software.keeps_products) * widths.inner
    plain = plain + (1.0 + columns.software.keeps_outputs) * widths.routed
    extra = np.where(layout.recompute_operators > 0, second, (1.0 - layout.recompute_full) * plain)
    return rank.layers * (widths.residual + extra)


def _logits(columns: Columns) -> F:
    """Number of logits of one micro-batch on a rank."""
    return columns.tokens * columns.model.vocab / columns.layout.tp


def _loss(columns: Columns) -> F:
    """Bytes of the loss at its widest, in backward of the log-softmax: 32-bit copies of the logits.

    Its output, the gradient that came, and the one that goes; where the vocabulary is split, a 32-bit exponential too
    (torch.distributed.tensor.parallel.loss).
    """
    copies = np.where(columns.layout.tp > 1, 4.0, 3.0)
    width = np.where(columns.software.fused_loss > 0, 4.0, columns.software.loss_width * copies)
    return width * _logits(columns)


def _copies(columns: Columns) -> F:
    """Copies of a gathered tensor: the collective joins along the batch, so more than one sequence is put in order.

    Pipelined with its product (asynchronous TP), the gathered tensor lies in symmetric memory outside the allocator.
    """
    layout = columns.layout
    split = layout.sequence > 0
    copies = np.where(layout.micro_batch > 1, 2.0, 1.0)
    return np.where(split, np.where(layout.overlap_tensor > 0, copies - 1.0, copies), 1.0)


def _forward(columns: Columns, widths: _Widths) -> F:
    """Bytes that a layer's forward pass takes and gives back: about the MLP, its norm's output, gate, up, product."""
    eager = _eager(columns)
    inner = (2.0 + columns.model.gated + eager) * widths.inner
    return widths.residual * (1.0 + 4.0 * eager) + _copies(columns) * widths.gathered + inner


def _backward(columns: Columns, rank: RankColumns, widths: _Widths) -> F:
    """Bytes of one layer's backward pass: its recomputed tensors, their gradients, its weight gradients.

    Context parallelism gathers all keys and values of the sequence, repeated for the query heads.
    """
    model, layout, software = columns.model, columns.layout, columns.software
    tensors = 2.0 * widths.residual + 2.0 * widths.gathered + 2.0 * widths.query + widths.key + 2.0 * widths.value
    tensors = tensors + (2.0 + model.gated) * widths.inner + widths.routed
    gradients = (1.0 + model.gated) * widths.inner + _copies(columns) * widths.gathered + widths.routed
    context = np.where(layout.cp > 1, (1.0 + layout.cp) * (widths.key + widths.value), 0.0)
    layer = _wrapped(columns, rank) / np.maximum(rank.layers, 1.0)
    # Two reductions' 32-bit inputs: of this layer and of the one before.
    gradient = software.gradient_bytes * (1.0 - columns.job.frozen)
    weights = (2.0 + 2.0 * gradient) * layer * (layout.reshard > 0)
    return tensors + gradients + context + weights


def _wrapped(columns: Columns, rank: RankColumns) -> F:
    """Parameters that FSDP gathers; experts that one rank holds alone are not wrapped in it."""
    return rank.dense + np.where(shards(columns)[1] > 1, rank.expert, 0.0)


def _unit_bytes(columns: Columns) -> F:
    """Bytes of a gathered parameter of a layer: 8-bit products gather 8 bits. Embedding and head stay in 16."""
    return np.where(columns.job.bits < 16, 1.0, 2.0)


def _unsharded(columns: Columns, rank: RankColumns) -> F:
    """Gathered parameters that stay: the root's and the last layer's, or all; under a pipeline with their gradients.

    Under a pipeline each rank accumulates whole gradients in 32 bits. Where all micro-batches are one round of an
    interleaved schedule, a chunk's gradients are reduced before those of the next come to be.
    """
    layout, software = columns.layout, columns.software
    count, ends = _wrapped(columns, rank), root(columns, rank)
    layers = np.maximum(count - ends, 0.0)
    passing = 2.0 * ends + _unit_bytes(columns) * layers / np.maximum(rank.layers, 1.0)
    chunks = np.where((layout.vp > 1) & (layout.micro_batches <= layout.pp), layout.vp, 1.0)
    gradient = software.gradient_bytes * (1.0 - columns.job.frozen)
    staying = 2.0 * ends + _unit_bytes(columns) * layers + gradient * count / chunks * (layout.pp > 1)
    return np.where(layout.reshard > 0, passing, staying)


def _gathered(columns: Columns, rank: RankColumns) -> F:
    """Pool of the stream that gathers: the largest unit, or two layers."""
    layers = np.maximum(_wrapped(columns, rank) - root(columns, rank), 0.0) / np.maximum(rank.layers, 1.0)
    return np.maximum(2.0 * root(columns, rank), 2.0 * _unit_bytes(columns) * layers)


def _round(columns: Columns) -> F:
    """Micro-batches of one run of a pipeline: all of the step, or the smallest local batch that fills it."""
    batches = columns.layout.micro_batches
    return np.where(columns.software.local_batches > 0, np.minimum(batches, columns.layout.pp), batches)


def _received(columns: Columns, place: F, widths: _Widths) -> F:
    """Buffers of pipelining: one a micro-batch, virtual stage and direction."""
    layout = columns.layout
    directions = (place > 0) * 1.0 + (place < layout.pp - 1.0) * 1.0
    return _round(columns) * layout.vp * widths.residual * directions


def _outputs(columns: Columns, rank: RankColumns) -> F:
    """16-bit logits of every micro-batch, which the last stage of a pipeline keeps until all passes are over."""
    return 2.0 * _logits(columns) * _round(columns) * rank.head * (columns.layout.pp > 1)


# Context of the runtime, its libraries' workspaces, and the buffers of collective communicators (NCCL: a few MiB a
# channel and peer): what is gone before the first tensor is made.
RUNTIME_BYTES = 2.5 * 2**30
# Part of the rest that an allocator cannot use for want of holes of the right size.
FRAGMENTATION = 0.03


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Bytes of one rank of a pipeline stage.

    `buffers_bytes` are logits, gathered parameters and one layer's working set; `reserved_bytes` what the runtime takes
    and fragmentation; `cached_bytes` what the allocator holds beyond all that, and gives back to a full device.
    """

    stage: int
    parameters_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    buffers_bytes: int
    reserved_bytes: int
    cached_bytes: int
    capacity_bytes: int

    @property
    def allocated_bytes(self) -> int:
        """Peak of what the framework allocates, as frameworks report it."""
        return (
            self.parameters_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.activations_bytes
            + self.buffers_bytes
        )

    @property
    def allocator_bytes(self) -> int:
        """Peak of what the allocator holds from the device, as frameworks report `reserved` memory."""
        return self.total_bytes + self.cached_bytes - round(RUNTIME_BYTES)

    @property
    def total_bytes(self) -> int:
        """Total memory needed on the device."""
        return self.allocated_bytes + self.reserved_bytes

    @property
    def fits(self) -> bool:
        """Whether the device has that much."""
        return self.total_bytes <= self.capacity_bytes


@dataclass(frozen=True, slots=True)
class MemoryTable:
    """Memory of every pipeline stage."""

    rows: tuple[MemoryRow, ...]

    @property
    def fits(self) -> bool:
        """Whether every stage fits."""
        return all(row.fits for row in self.rows)

    @property
    def fullest(self) -> MemoryRow:
        """The stage that needs most."""
        return max(self.rows, key=lambda row: row.total_bytes)

    def figures(self) -> MemoryFigures:
        """The table as a result has it: what the runtime reserves counts as buffers, so that the parts add up."""
        from railyard.measure.result.step import MemoryFigures, MemoryStage

        rows = []
        for row in self.rows:
            parts = asdict(row)
            parts["buffers_bytes"] += parts.pop("reserved_bytes")
            del parts["cached_bytes"]
            rows.append(MemoryStage(**parts, total_bytes=row.total_bytes))
        return MemoryFigures(rows=tuple(rows))

    def __str__(self) -> str:
        head = (
            f"{'stage':>5} {'parameters':>11} {'gradients':>11} {'optimizer':>11} {'activations':>11} {'buffers':>11}"
        )
        lines = [f"{head} {'runtime':>11} {'total':>11} {'device has':>11}"]
        for row in self.rows:
            parts = (row.parameters_bytes, row.gradients_bytes, row.optimizer_bytes, row.activations_bytes)
            sizes = map(
                format_memory, (*parts, row.buffers_bytes, row.reserved_bytes, row.total_bytes, row.capacity_bytes)
            )
            lines.append(f"{row.stage:>5} " + " ".join(f"{size:>11}" for size in sizes))
        return "\n".join(lines)


class LayoutError(InputError):
    """An impossible layout: it does not fit the devices' memory, or its numbers do not divide.

    Attributes:
        table: Memory by stage, if memory is the reason.
    """

    def __init__(
        self, message: str, *, table: MemoryTable | None = None, nearest: tuple[Layout, ...] = (), **place: Any
    ) -> None:
        super().__init__(message, **place)
        self.table = table
        self.nearest = nearest


def memory(training: Training, accelerator: Accelerator) -> MemoryTable:
    """Memory of every pipeline stage of a job."""
    pp = training.layout.pp
    columns = Columns.of([training], [accelerator])
    found = rank_memory(columns, RankColumns.of(training), np.arange(pp, dtype=np.float64))
    names = [field.name for field in fields(MemoryColumns)]
    table = [[round(float(v)) for v in np.broadcast_to(getattr(found, name), pp)] for name in names]
    rows = enumerate(zip(*table, strict=True))
    return MemoryTable(tuple(MemoryRow(*(stage, *parts, accelerator.memory_bytes)) for stage, parts in rows))


def fits(columns: Columns, pipeline: PipelineRanks) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each of many designs fits: its first, its fullest middle and its last stage."""
    good: np.ndarray[tuple[int], np.dtype[np.bool_]] = fullest_bytes(columns, pipeline) <= columns.device.memory_bytes
    return good


def fullest_bytes(columns: Columns, pipeline: PipelineRanks) -> F:
    """Bytes on the fullest of the first, the fullest middle and the last stage of each of many designs."""
    most = np.zeros_like(columns.layout.pp)
    places = (np.zeros_like(columns.layout.pp), np.ones_like(columns.layout.pp), columns.layout.pp - 1.0)
    for kind, place in zip(pipeline.kinds, places, strict=True):
        most = np.maximum(most, np.where(kind.ranks == 0, 0.0, rank_memory(columns, kind, place).total))
    return most


def rank_memory(columns: Columns, rank: RankColumns, place: F) -> MemoryColumns:
    """Memory of ranks at a place of the pipeline."""
    replicated, sharded = _replicated(columns, rank, place), fully_sharded(columns, rank, place)
    second = (columns.software.fully_shard > 0) & (columns.layout.zero >= 3)
    names = ("parameters", "gradients", "optimizer", "activations", "buffers")
    parts = {name: np.where(second, getattr(sharded, name), getattr(replicated, name)) for name in names}
    # Errors, momenta and copies that the job's way of communicating keeps from step to step.
    kept = rank.dense * columns.job.kept_dense + rank.expert * columns.job.kept_expert
    parts["buffers"] = parts["buffers"] + kept
    spare = np.where(second, sharded.reserved, FRAGMENTATION * columns.device.memory_bytes)
    cached = np.where(second, sharded.cached, 0.0)
    return MemoryColumns(**parts, reserved=RUNTIME_BYTES + spare, cached=cached)


def _replicated(columns: Columns, rank: RankColumns, place: F) -> MemoryColumns:
    """Software that keeps whole buffers (Megatron, DeepSpeed), and FSDP of the first generation."""
    parameters, gradients, optimizer = state(columns, rank)
    once, layer = kept(columns, rank)
    activations = in_flight(columns, rank, place) * once
    buffers = working(columns, rank, layer)
    none = np.zeros_like(once)
    return MemoryColumns(parameters, gradients, optimizer, activations, buffers, reserved=none, cached=none)
