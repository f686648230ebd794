"""Memory of a training job by pipeline stage: what must be held, and whether it fits.

Parameters and gradients as the layout shards them, optimizer state in 32 bits, activations of the micro-batches in
flight, and buffers: logits, gathered parameters, one layer's working set, and what the runtime itself takes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError
from railyard.kit.quantities import format_memory
from railyard.work.training.activations import in_flight, kept, state, working
from railyard.work.training.columns import Columns
from railyard.work.training.fully_sharded import fully_sharded
from railyard.work.training.stages import PipelineRanks, RankColumns

if TYPE_CHECKING:
    from railyard.catalog import Accelerator
    from railyard.model.columns import F
    from railyard.work.training.spec import Layout, Training

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
    """A layout that cannot be: it does not fit the devices' memory, or its numbers do not divide.

    Attributes:
        table: Memory by stage, where memory is the reason.
        nearest: Layouts that fit, nearest first.
    """

    def __init__(
        self, message: str, *, table: MemoryTable | None = None, nearest: tuple[Layout, ...] = (), **place: Any
    ) -> None:
        super().__init__(message, **place)
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
    cached: F

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
    """Memory of ranks at a place of the pipeline.

    Args:
        columns: The designs.
        rank: What the rank holds.
        place: Its pipeline stage, from 0.
    """
    replicated, sharded = _replicated(columns, rank, place), fully_sharded(columns, rank, place)
    second = (columns.software.fully_shard > 0) & (columns.layout.zero >= 3)
    names = ("parameters", "gradients", "optimizer", "activations", "buffers")
    parts = {name: np.where(second, getattr(sharded, name), getattr(replicated, name)) for name in names}
    # Errors, momenta and copies that the job's way of communicating keeps from step to step.
    kept = rank.dense * columns.job.kept_dense + rank.expert * columns.job.kept_expert
    parts["buffers"] = parts["buffers"] + kept
    spare = np.where(second, sharded.stranded, FRAGMENTATION * columns.device.memory_bytes)
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
