"""Methods for training on several sites, by when they synchronize and what they wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from railyard.kit.registry import Registry
from railyard.kit.schema.quantity import COUNTED, WIDTHS, bounded
from railyard.work.training.sync.local import DiLoCo, LocalSgd, LocalUpdates, StreamingDiLoCo
from railyard.work.training.sync.wire import Finding

methods: Registry[type[LocalUpdates]] = Registry("way of training on sites")
for _record in (DiLoCo, LocalSgd, StreamingDiLoCo):
    methods.add(_record.kind, _record)


@methods.register("asynchronous")
@dataclass(frozen=True)
class AsynchronousSites(LocalUpdates):
    """Asynchronous local SGD: each site sends its update to the server and gets the server's model; sites never wait.

    Attributes:
        inner_steps: Steps between two meetings (H).
    """

    kind: ClassVar[str] = "asynchronous"
    partners: ClassVar[str] = "server"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "asynchronous updates take more steps to the same perplexity than synchronous ones, though more are made;"
            " delayed Nesterov and dynamic local updates close the gap",
            "language models of 20 to 150 million parameters on C4, 4 to 16 workers",
            "Liu et al. 2024, arXiv 2401.09135, abstract",
        ),
    )

    inner_steps: int = field(default=50, metadata=bounded(COUNTED))
    outer_bits: int = field(default=32, metadata=bounded(WIDTHS))


@methods.register("gossip")
@dataclass(frozen=True)
class Gossip(LocalUpdates):
    """Gossip: every H steps a site averages its parameters with one other, drawn at random, without waiting for it.

    Attributes:
        inner_steps: Steps between two averages (H).
    """

    kind: ClassVar[str] = "gossip"
    partners: ClassVar[str] = "pairs"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "as good as all-reduce SGD in epochs on ImageNet with up to 128 workers",
            "ResNet-50",
            "Lian et al. 2018 (AD-PSGD), arXiv 1710.06952, abstract",
        ),
    )

    inner_steps: int = field(default=50, metadata=bounded(COUNTED))
    outer_bits: int = field(default=32, metadata=bounded(WIDTHS))


BACKWARD = 2.0 / 3.0
"""Share of a step in which gradients are produced and can be sent: 4 of 6 operations per parameter and token."""


@methods.register("synchronous")
@dataclass(frozen=True)
class Synchronous(LocalUpdates):
    """Data parallelism over all sites: gradients of every step cross between them, under its backward pass.

    Attributes:
        gradient_bits: Of a gradient as sent.
    """

    kind: ClassVar[str] = "synchronous"
    update_bytes: ClassVar[float] = 0.0
    published: ClassVar[tuple[Finding, ...]] = (
        Finding("what the others are compared with", "all models", "the loss of plain data parallelism"),
    )

    gradient_bits: int = field(default=16, metadata=bounded(WIDTHS))

    @property
    def outer_bits(self) -> int:
        """Bits of a gradient."""
        return self.gradient_bits

    @property
    def overlap(self) -> float:
        """The backward pass."""
        return BACKWARD


@methods.register("volunteers")
@dataclass(frozen=True)
class Volunteers(DiLoCo):
    """Volunteers: DiLoCo among available sites; a site that leaves loses its steps since the last synchronization.

    Attributes:
        inner_steps: Steps between two outer updates (H).
        outer_bits: Of an outer gradient as sent.
    """

    kind: ClassVar[str] = "volunteers"
    partners: ClassVar[str] = "present"

    inner_steps: int = field(default=100, metadata=bounded(COUNTED))
    outer_bits: int = field(default=8, metadata=bounded(WIDTHS))
