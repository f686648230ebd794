"""Memory of a training job by pipeline stage: what must be held, and whether it fits.

Parameters and gradients as the layout shards them, optimizer state in 32 bits, activations of the micro-batches in
flight, and buffers: logits, gathered parameters, one layer's working set, and what the runtime itself takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.errors import InputError
from railyard.workload.training.activations import layer_activations
from railyard.workload.training.columns import Columns
from railyard.workload.training.held import HeldColumns, RankColumns, ranks_of
from railyard.workload.training.precision import check_precision

if TYPE_CHECKING:
    from railyard.catalog import Accelerator
    from railyard.workload.training.columns import F
    from railyard.workload.training.spec import Layout, Training

# Two 4-byte moments and the 4-byte master copy of the parameters.
OPTIMIZER_BYTES = 12.0
# Context of the runtime, its libraries' workspaces, and the buffers of collective communicators (NCCL: a few MiB a
# channel and peer): what is gone before the first tensor is made.
RUNTIME_BYTES = 2.5 * 2**30
# Part of the rest that an allocator cannot use for want of holes of the right size.
FRAGMENTATION = 0.03


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Bytes of one rank of a pipeline stage.

    `buffers_bytes` are logits, gathered parameters and one layer's working set; `reserved_bytes` what the runtime takes
    and fragmentation.
    """

    stage: int
    parameters_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    buffers_bytes: int
    reserved_bytes: int
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
    def total_bytes(self) -> int:
        """All that is needed on the device."""
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

    def __str__(self) -> str:
        head = (
            f"{'stage':>5} {'parameters':>11} {'gradients':>11} {'optimizer':>11} {'activations':>12} {'buffers':>11}"
        )
        lines = [f"{head} {'runtime':>11} {'total':>11} {'device has':>11}"]
        for row in self.rows:
            sizes = (row.parameters_bytes, row.gradients_bytes, row.optimizer_bytes)
            text = " ".join(f"{_size(size):>11}" for size in sizes) + f" {_size(row.activations_bytes):>12}"
            rest = (row.buffers_bytes, row.reserved_bytes, row.total_bytes, row.capacity_bytes)
            lines.append(f"{row.stage:>5} {text} " + " ".join(f"{_size(size):>11}" for size in rest))
        return "\n".join(lines)


class LayoutError(InputError):
    """A layout that cannot be: it does not fit the devices' memory, or its numbers do not divide.

    Attributes:
        table: Memory by stage, where memory is the reason.
        nearest: Layouts that fit, nearest first.
    """

    def __init__(
        self, message: str, *, table: MemoryTable | None = None, nearest: tuple[Layout, ...] = (), **place: object
    ) -> None:
        super().__init__(message, **place)  # type: ignore[arg-type]
        self.table = table
        self.nearest = nearest


@dataclass(frozen=True, slots=True)
class MemoryColumns:
    """Bytes of one kind of rank, of many designs."""

    parameters: F
    gradients: F
    optimizer: F
    activations: F
    buffers: F
    reserved: F

    @property
    def allocated(self) -> F:
        """All but what the runtime takes."""
        return self.parameters + self.gradients + self.optimizer + self.activations + self.buffers

    @property
    def total(self) -> F:
        """All."""
        return self.allocated + self.reserved


def memory(training: Training, accelerator: Accelerator) -> MemoryTable:
    """Memory of every pipeline stage of a job."""
    pp = training.layout.pp
    columns = Columns.of([training], [accelerator])
    found = rank_memory(columns, ranks_of(training), np.arange(pp, dtype=np.float64))
    names = ("parameters", "gradients", "optimizer", "activations", "buffers", "reserved")
    table = [[round(float(v)) for v in np.broadcast_to(getattr(found, name), pp)] for name in names]
    rows = zip(*table, strict=True)
    return MemoryTable(
        tuple(
            MemoryRow(stage, parameters, gradients, optimizer, activations, buffers, reserved, accelerator.memory_bytes)
            for stage, (parameters, gradients, optimizer, activations, buffers, reserved) in enumerate(rows)
        )
    )


def fits(columns: Columns, held: HeldColumns) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each of many designs fits: its first, its fullest middle and its last stage."""
    good: np.ndarray[tuple[int], np.dtype[np.bool_]] = fullest_bytes(columns, held) <= columns.device.memory_bytes
    return good


def fullest_bytes(columns: Columns, held: HeldColumns) -> F:
    """Bytes on the fullest of the first, the fullest middle and the last stage of each of many designs."""
    most = np.zeros_like(columns.layout.pp)
    places = (np.zeros_like(columns.layout.pp), np.ones_like(columns.layout.pp), columns.layout.pp - 1.0)
    for kind, place in zip(held.kinds, places, strict=True):
        most = np.maximum(most, np.where(kind.ranks == 0, 0.0, rank_memory(columns, kind, place).total))
    return most


def rank_memory(columns: Columns, rank: RankColumns, place: F) -> MemoryColumns:
    """Memory of ranks at a place of the pipeline.

    Args:
        columns: The designs.
        rank: What the rank holds.
        place: Its pipeline stage, from 0.
    """
    parameters, gradients, optimizer = _state(columns, rank)
    activations, working = _activations(columns, rank, place)
    buffers = working + _logits(columns, rank) + _gathered(columns, rank)
    reserved = RUNTIME_BYTES + FRAGMENTATION * columns.device.memory_bytes
    return MemoryColumns(parameters, gradients, optimizer, activations, buffers, reserved)


def _state(columns: Columns, rank: RankColumns) -> tuple[F, F, F]:
    """Bytes of parameters, gradients and optimizer state that stay for the whole step."""
    layout, software = columns.layout, columns.software
    edp = np.maximum(layout.tp * layout.cp * layout.dp / (layout.ep * layout.expert_tp), 1.0)
    expert_shard = np.minimum(edp, layout.shard)

    def spread(from_stage: int, bytes_each: F | float) -> F:
        on = layout.zero >= from_stage
        return bytes_each * (
            rank.dense / np.where(on, layout.shard, 1.0) + rank.expert / np.where(on, expert_shard, 1.0)
        )

    # Two bytes a parameter: one in 16 bits, or one in 8 bits and its transpose.
    # Under zero 3 the 32-bit shard is the parameter; a 16-bit copy exists only while it is gathered.
    parameters = np.where(layout.zero >= 3, 0.0, 2.0 * (rank.dense + rank.expert))
    return parameters, spread(2, software.gradient_bytes), spread(1, OPTIMIZER_BYTES)


def in_flight(columns: Columns, place: F) -> F:
    """Micro-batches whose activations a rank holds at its peak, counted over all its layers.

    1F1B holds one for each stage from here to the end. Interleaved schedules hold 2 (p - r - 1) + (v - 1) p + 1 chunks.
    """
    layout = columns.layout
    plain = np.minimum(layout.micro_batches, layout.pp - place)
    chunks = 2.0 * (layout.pp - place - 1.0) + (layout.vp - 1.0) * layout.pp + 1.0
    return np.where(layout.vp > 1, np.minimum(layout.micro_batches, chunks / layout.vp), plain)


def _activations(columns: Columns, rank: RankColumns, place: F) -> tuple[F, F]:
    """Bytes kept by the micro-batches in flight, and the working set of the layer that runs."""
    layout = columns.layout
    kept = layer_activations(columns)
    plain = rank.layers - rank.moe_layers
    full = rank.layers * kept.attention + plain * kept.mlp + rank.moe_layers * kept.experts
    inputs = rank.layers * kept.input
    again = layout.recompute_full
    held = in_flight(columns, place) * (again * inputs + (1.0 - again) * full)
    widest = kept.attention + np.where(rank.moe_layers > 0, np.maximum(kept.experts, kept.mlp), kept.mlp)
    # Backward holds gradients of one layer's tensors; recomputation makes the tensors themselves anew before that.
    return held, widest * (1.0 + np.where(again > 0, 1.0, 0.0))


def _logits(columns: Columns, rank: RankColumns) -> F:
    """Logits of one micro-batch and their gradient in 16 bits, and two 32-bit copies when the loss is not fused."""
    each = np.where(columns.software.fused_loss > 0, 4.0, 12.0)
    return each * columns.tokens * columns.model.vocab / columns.layout.tp * rank.head


def _gathered(columns: Columns, rank: RankColumns) -> F:
    """The largest weight's gradient before it is added to the buffer; under zero 3 what is gathered.

    That is two layers' 16-bit parameters and one's gradient, or, when parameters stay gathered through a pipeline's
    micro-batches, all of both. The embedding counts as a layer.
    """
    layout, software = columns.layout, columns.software
    held = rank.dense + rank.expert
    table = columns.model.embedding_parameters / layout.tp * np.maximum(rank.embedding, rank.head)
    largest = np.maximum(held / np.maximum(rank.layers, 1.0), table)
    passing = 2.0 * 2.0 * largest + software.gradient_bytes * largest
    staying = (2.0 + software.gradient_bytes) * held
    sharded = np.where(layout.reshard > 0, passing, staying)
    matrix = columns.model.hidden * columns.model.ffn * (1.0 + columns.model.gated) / layout.tp
    return np.where(layout.zero >= 3, sharded, software.gradient_bytes * np.maximum(matrix, table))


def check_fit(training: Training, accelerator: Accelerator) -> MemoryTable:
    """The memory table of a job that fits.

    Raises:
        InputError: The device has no units for the job's precision.
        LayoutError: It does not fit; carries the table and the nearest layouts that do.
    """
    from railyard.workload.training.layout import nearest_that_fit

    check_precision(training.precision, accelerator)
    table = memory(training, accelerator)
    if table.fits:
        return table
    full = table.fullest
    near = nearest_that_fit(training, accelerator)
    others = (
        "nearest layouts that fit: " + "; ".join(str(layout) for layout in near)
        if near
        else "no layout on as many ranks fits"
    )
    raise LayoutError(
        f"{training.model.name} with {training.layout} does not fit: stage {full.stage} needs {_size(full.total_bytes)}"
        f" of {_size(full.capacity_bytes)} on {accelerator.name}; {others}\n{table}",
        table=table,
        nearest=near,
        key="parallelism",
    )


def _size(size: int) -> str:
    # One unit for all: a table that mixes GiB and GB cannot be compared by eye.
    return f"{size / 1e9:.1f} GB"
