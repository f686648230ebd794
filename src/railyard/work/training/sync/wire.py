"""What one reduction of gradients sends, and what it takes to make that: rounds of work, each followed by collectives.

A scheme says this once, for a bundle of gradients and the ranks that share it. The closed form and the task graph both
read it, so they cannot disagree about bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from railyard.graph import CollectiveKind
from railyard.kit.registry import Registry
from railyard.kit.schema.quantity import SHARE, CheckedRecord, bounded

if TYPE_CHECKING:
    from railyard.catalog import Accelerator


@dataclass(frozen=True, slots=True)
class Finding:
    """One published effect on what is learned.

    Attributes:
        effect: What was measured with the technique and without it.
        scope: Model, data, workers and settings for which it was measured.
    """

    effect: str
    scope: str
    source: str

    def __str__(self) -> str:
        return f"{self.effect} ({self.scope}; {self.source})"


class Technique(CheckedRecord, ABC):
    """One thing that a job does about the network; a frozen dataclass whose fields are its keys in a scenario.

    Attributes:
        published: What its papers report about convergence.
    """

    kind: ClassVar[str]
    published: ClassVar[tuple[Finding, ...]]


class Sparse(Technique):
    """Which gradients are sent as rows."""

    @abstractmethod
    def rows(self, tokens: float, vocab: float) -> float:
        """Rows of the table that one rank's tokens touch in a step."""


sparsities: Registry[type[Sparse]] = Registry("sparse update")


@sparsities.register("embedding")
@dataclass(frozen=True)
class SparseEmbedding(Sparse):
    """Rows of the input embedding: each rank sends those of its own tokens, with their numbers, to all.

    Parallax (Kim et al. 2019, arXiv 1808.02621) and Horovod's sparse path. What ranks send is gathered, so bytes grow
    with ranks; it pays while ranks x touched rows stay below twice the table.

    Attributes:
        touched: Share of the table that a rank's tokens touch; 0 takes the most that so many tokens can touch.
    """

    kind: ClassVar[str] = "embedding"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "none: the sum of the gradients is the same",
            "rows that no token touched have no gradient",
            "Kim et al. 2019 (Parallax), arXiv 1808.02621",
        ),
    )

    touched: float = field(default=0.0, metadata=bounded(SHARE))

    def rows(self, tokens: float, vocab: float) -> float:
        """The given share, or one row a token: text repeats tokens, so this is the most that it can be."""
        return self.touched * vocab if self.touched else min(tokens, vocab)


Over = Literal["all", "inside", "across"]


@dataclass(frozen=True, slots=True)
class Matrix:
    """So many matrices of one shape."""

    rows: float
    columns: float
    count: float = 1.0


@dataclass(frozen=True, slots=True)
class Bundle:
    """Gradients that are reduced together.

    Attributes:
        matrices: Of which they are made, for the whole of `of_parameters`; the rest are vectors.
        of_parameters: Parameters that `matrices` describe; the bundle is `parameters / of_parameters` of that.
        gradient_bytes: Of one gradient before anything is done to it.
    """

    parameters: float
    matrices: tuple[Matrix, ...]
    of_parameters: float
    gradient_bytes: float

    @property
    def share(self) -> float:
        """Share of the parameters that the matrices describe."""
        return self.parameters / self.of_parameters if self.of_parameters else 0.0

    @property
    def in_matrices(self) -> float:
        """Parameters in matrices."""
        return self.share * sum(m.count * m.rows * m.columns for m in self.matrices)

    @property
    def in_vectors(self) -> float:
        """Parameters that do not."""
        return max(0.0, self.parameters - self.in_matrices)

    def scaled(self, factor: float) -> Bundle:
        """So many times the bundle."""
        return Bundle(self.parameters * factor, self.matrices, self.of_parameters, self.gradient_bytes)


@dataclass(frozen=True, slots=True)
class Peers:
    """Ranks that hold the same parameters.

    Attributes:
        local: Of them in one scale-up domain.
        sharded: Each keeps a share of the sum (ZeRO 1 to 3); else all keep all of it.
    """

    ranks: int
    local: int
    sharded: bool

    @property
    def domains(self) -> int:
        """Scale-up domains over which they are spread."""
        return -(-self.ranks // self.local)

    def of(self, over: Over) -> int:
        """Members of a communicator of theirs."""
        return {"all": self.ranks, "inside": self.local, "across": self.domains}[over]


@dataclass(frozen=True, slots=True)
class Leg:
    """One collective.

    Attributes:
        size_bytes: As nccl-tests counts it (the larger buffer of one rank).
        over: All peers, those of one scale-up domain, or one of each domain.
    """

    kind: CollectiveKind
    size_bytes: float
    over: Over = "all"

    def sent_bytes(self, peers: Peers) -> float:
        """Bytes that one rank sends: what no algorithm without help from switches can undercut."""
        n = peers.of(self.over)
        return (2.0 if self.kind == CollectiveKind.ALL_REDUCE else 1.0) * self.size_bytes * (n - 1) / n

    def across_bytes(self, peers: Peers) -> float:
        """Bytes that leave the scale-up domain, for each of its ranks.

        A collective over all peers leaves a domain with its ranks' bytes together: a ring sends its share once for the
        whole domain, an all-to-all what is meant for ranks elsewhere.
        """
        if self.over == "inside" or peers.domains == 1:
            return 0.0
        if self.over == "across":
            return self.sent_bytes(peers)
        if self.kind == CollectiveKind.ALL_TO_ALL:
            return self.size_bytes * (peers.ranks - peers.local) / peers.ranks
        domains = peers.domains
        passes = 2.0 if self.kind == CollectiveKind.ALL_REDUCE else 1.0
        return passes * self.size_bytes * (domains - 1) / domains / peers.local


@dataclass(frozen=True, slots=True)
class KernelWork:
    """Kernels on the accelerator.

    Attributes:
        traffic_bytes: Through its memory.
        flops: Of matrix products in `flops_bits` bits.
        kernels: Launched one after another.
    """

    traffic_bytes: float = 0.0
    flops: float = 0.0
    kernels: float = 0.0

    def __add__(self, other: KernelWork) -> KernelWork:
        return KernelWork(
            self.traffic_bytes + other.traffic_bytes, self.flops + other.flops, self.kernels + other.kernels
        )

    def seconds(self, device: Accelerator, memory_fraction: float = 1.0) -> float:
        """Time on a device: passes over memory, products under them where they are thin, a gap a kernel.

        Products of gradients run on 32-bit operands at half the 16-bit rate (TF32 on NVIDIA's devices).
        """
        memory = self.traffic_bytes * 8.0 / (device.memory_bps * device.memory_efficiency * memory_fraction)
        peak = device.flops.get("bf16") or device.flops["fp16"]
        products = self.flops / (0.5 * peak * device.gemm_efficiency)
        return max(memory, products) + self.kernels * device.launch_ps * 1e-12


@dataclass(frozen=True, slots=True)
class Round:
    """Work, and the collectives that send what it made."""

    work: KernelWork
    legs: tuple[Leg, ...]


@dataclass(frozen=True, slots=True)
class Reduction:
    """All of one reduction: rounds one after another, and the work behind the last."""

    rounds: tuple[Round, ...]
    after: KernelWork

    @property
    def legs(self) -> tuple[Leg, ...]:
        """All collectives."""
        return tuple(leg for one in self.rounds for leg in one.legs)

    @property
    def work(self) -> KernelWork:
        """All work."""
        return sum((one.work for one in self.rounds), self.after)

    def sent_bytes(self, peers: Peers) -> float:
        """Bytes that one rank sends."""
        return sum(leg.sent_bytes(peers) for leg in self.legs)

    def across_bytes(self, peers: Peers) -> float:
        """Bytes that leave the scale-up domain, for each of its ranks."""
        return sum(leg.across_bytes(peers) for leg in self.legs)
