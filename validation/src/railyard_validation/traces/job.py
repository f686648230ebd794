"""A training job as a list of kernels and communications per rank, in the order in which the host launches them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Kernel:
    """A kernel or a copy.

    Attributes:
        kind: gemm, attention, expert, norm, elementwise, optimizer or copy.
        role: Which kernel of its kind: the profiler prints one name per role.
        us: How long it takes on a healthy accelerator.
        blocks: Thread blocks that it is launched with.
    """

    kind: str
    role: str
    us: float
    blocks: int


@dataclass(frozen=True)
class Communication:
    """A collective, or one side of a message.

    Attributes:
        kind: all_reduce, reduce_scatter, all_gather, all_to_all, send or recv.
        group: Name of the process group.
        ranks: Its members; of a message the sender and the receiver.
        us: Transfer alone, when all members are there.
        elements: Of bfloat16.
        blocking: Whether computations wait for its end.
    """

    kind: str
    group: str
    ranks: tuple[int, ...]
    us: float
    elements: int
    blocking: bool = True

    @property
    def stream(self) -> str:
        """What runs one after another: communications of one communicator."""
        return f"{self.group} {self.ranks}"


@dataclass(frozen=True)
class Join:
    """Computations wait here for all communications that were launched before."""


Launch = Kernel | Communication | Join


@dataclass(frozen=True)
class Job:
    """A training job.

    Attributes:
        ranks: Of the job.
        per_host: Accelerators of a host.
        tensor, pipeline, expert: Ranks per group; 1 for none. Data parallelism takes the rest.
        sharded: Whether weights are gathered for every layer (FSDP) instead of gradients being reduced (DDP).
        layers: Of each pipeline stage.
        micro_batches: Per step.
        steps: That are traced.
        scale: Of all kernels: how large the model is.
    """

    ranks: int
    per_host: int
    tensor: int
    pipeline: int
    expert: int
    sharded: bool
    layers: int
    micro_batches: int
    steps: int
    scale: float

    @property
    def data(self) -> int:
        """Data-parallel ranks."""
        return self.ranks // (self.tensor * self.pipeline)

    def stage(self, rank: int) -> int:
        """Pipeline stage of a rank: stages are the outermost dimension, tensor parallelism the innermost."""
        return rank // (self.tensor * self.data)

    def tensor_group(self, rank: int) -> tuple[int, ...]:
        """Ranks that share every layer."""
        first = rank - rank % self.tensor
        return tuple(range(first, first + self.tensor))

    def data_group(self, rank: int) -> tuple[int, ...]:
        """Ranks that hold the same weights."""
        first = self.stage(rank) * self.tensor * self.data + rank % self.tensor
        return tuple(range(first, first + self.tensor * self.data, self.tensor))

    def expert_group(self, rank: int) -> tuple[int, ...]:
        """Neighbours in the data-parallel group among which tokens go to experts."""
        group = self.data_group(rank)
        first = group.index(rank) // self.expert * self.expert
        return group[first : first + self.expert]

    def replica_group(self, rank: int) -> tuple[int, ...]:
        """Ranks of a data-parallel group that hold the same experts."""
        group = self.data_group(rank)
        return group[group.index(rank) % self.expert :: self.expert]

    def groups(self) -> dict[str, set[tuple[int, ...]]]:
        """Process groups of every kind that the job communicates over, and pairs of pipeline neighbours."""
        every = range(self.ranks)
        found = {"tp": {self.tensor_group(rank) for rank in every}}
        if self.expert > 1:
            found["ep"] = {self.expert_group(rank) for rank in every}
            found["edp"] = {self.replica_group(rank) for rank in every}
        else:
            found["dp"] = {self.data_group(rank) for rank in every}
        stride = self.tensor * self.data
        found["pp"] = {(rank, rank + stride) for rank in range(self.ranks - stride)}
        return {kind: {one for one in those if len(one) > 1} for kind, those in found.items()}

    def step(self, rank: int) -> Iterator[Launch]:
        """What a rank launches in a step."""
        yield Kernel("copy", "host to device", 12 * self.scale, 0)
        if self.stage(rank) == 0:
            yield Kernel("elementwise", "embedding", 90 * self.scale, 4096)
        for order, backward in enumerate(_passes(self.micro_batches, self.pipeline - self.stage(rank))):
            yield from self._pass(rank, backward=backward, last=order == 2 * self.micro_batches - 1)
        yield Join()
        yield Kernel("norm", "gradient norm", 60 * self.scale, 1024)
        yield Communication("all_reduce", "world", tuple(range(self.ranks)), 45, 1)
        for _ in range(3):
            yield Kernel("optimizer", "adam", 520 * self.scale, 2048)

    def _pass(self, rank: int, *, backward: bool, last: bool) -> Iterator[Launch]:
        stride = self.tensor * self.data
        before, after = rank - stride, rank + stride
        source, target = (after, before) if backward else (before, after)
        size = int(16e6 * self.scale)
        if 0 <= source < self.ranks:
            yield Communication("recv", "pp", (source, rank), 400 * self.scale, size)
        if self.stage(rank) == self.pipeline - 1:
            yield from self._head(backward=backward)
        for _ in range(self.layers):
            yield from self._layer(rank, backward=backward, last=last)
        if 0 <= target < self.ranks:
            yield Communication("send", "pp", (rank, target), 400 * self.scale, size, blocking=False)

    def _head(self, *, backward: bool) -> Iterator[Kernel]:
        way = "backward" if backward else "forward"
        yield Kernel("gemm", f"{way} head", (2 if backward else 1) * 700 * self.scale, 2020)
        yield Kernel("elementwise", f"{way} loss", 180 * self.scale, 4096)

    def _layer(self, rank: int, *, backward: bool, last: bool) -> Iterator[Launch]:
        parts = [self._attention(rank, backward=backward), self._feed_forward(rank, backward=backward)]
        if self.sharded:
            yield Communication("all_gather", "dp", self.data_group(rank), 300 * self.scale, int(20e6 * self.scale))
        for part in reversed(parts) if backward else parts:
            yield from part
        if backward and (last or self.sharded):
            yield from self._gradients(rank)

    def _gradients(self, rank: int) -> Iterator[Communication]:
        kind = "reduce_scatter" if self.sharded else "all_reduce"
        group, members = ("edp", self.replica_group(rank)) if self.expert > 1 else ("dp", self.data_group(rank))
        if len(members) > 1:
            yield Communication(kind, group, members, 420 * self.scale, int(24e6 * self.scale), blocking=False)

    def _attention(self, rank: int, *, backward: bool) -> Iterator[Launch]:
        way, times = ("backward", 2.0) if backward else ("forward", 1.0)
        unit = self.scale * times
        yield Kernel("norm", f"{way} norm", 55 * unit, 4096)
        yield Kernel("gemm", f"{way} qkv", 430 * unit, 1056)
        yield Kernel("elementwise", f"{way} rope", 40 * unit, 2048)
        yield Kernel("attention", f"{way} attention", 390 * unit * (1.3 if backward else 1), 1024)
        yield Kernel("gemm", f"{way} projection", 160 * unit, 528)
        yield from self._tensor(rank)
        yield Kernel("elementwise", f"{way} residual", 36 * unit, 4096)

    def _feed_forward(self, rank: int, *, backward: bool) -> Iterator[Launch]:
        way, times = ("backward", 2.0) if backward else ("forward", 1.0)
        unit = self.scale * times
        yield Kernel("norm", f"{way} norm", 55 * unit, 4096)
        if self.expert > 1:
            yield from self._experts(rank, way, unit)
        else:
            yield Kernel("gemm", f"{way} up", 880 * unit, 2112)
            yield Kernel("elementwise", f"{way} activation", 95 * unit, 4096)
            yield Kernel("gemm", f"{way} down", 440 * unit, 1056)
        yield from self._tensor(rank)
        yield Kernel("elementwise", f"{way} residual", 36 * unit, 4096)

    def _experts(self, rank: int, way: str, unit: float) -> Iterator[Launch]:
        members, size = self.expert_group(rank), int(8e6 * self.scale)
        yield Kernel("gemm", f"{way} router", 30 * unit, 132)
        yield Kernel("elementwise", f"{way} permute", 60 * unit, 2048)
        yield Communication("all_to_all", "ep", members, 240 * self.scale, size)
        yield Kernel("expert", f"{way} experts up", 760 * unit, 132)
        yield Kernel("elementwise", f"{way} activation", 80 * unit, 4096)
        yield Kernel("expert", f"{way} experts down", 390 * unit, 132)
        yield Communication("all_to_all", "ep", members, 240 * self.scale, size)
        yield Kernel("elementwise", f"{way} unpermute", 60 * unit, 2048)

    def _tensor(self, rank: int) -> Iterator[Communication]:
        if self.tensor > 1:
            yield Communication("all_reduce", "tp", self.tensor_group(rank), 120 * self.scale, int(6e6 * self.scale))


def _passes(micro_batches: int, ahead: int) -> list[bool]:
    """1F1B: whether each pass goes backward; a stage is ahead by as many micro-batches as stages follow, itself too."""
    warm = min(ahead - 1, micro_batches)
    steady = [way for _ in range(micro_batches - warm) for way in (False, True)]
    return [False] * warm + steady + [True] * warm
