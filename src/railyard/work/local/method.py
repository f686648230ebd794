"""Ways for sites to train together, by when they meet and whom they wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from railyard.kit.registry import Registry
from railyard.kit.schema.bounds import COUNTED, WIDTHS, bounded
from railyard.work.training.sync.local import DiLoCo, LocalSgd, LocalUpdates, StreamingDiLoCo
from railyard.work.training.sync.wire import Finding

methods: Registry[type[LocalUpdates]] = Registry("way of training on sites")
"""Records of `LocalUpdates`; `meets`, where one has it, says with whom a site exchanges: `all` (a ring, everybody
waits), `server` (one place, nobody waits), `pairs` (one other at a time, nobody waits), `present` (those there)."""


class Apart:
    """A method that keeps nothing besides what the inner optimizer keeps, and sends all parameters at once."""

    meets: ClassVar[str] = "all"

    @property
    def workers(self) -> int:
        """Sites are the workers."""
        return 0

    @property
    def fragments(self) -> int:
        """All parameters at once."""
        return 1

    @property
    def overlap_steps(self) -> float:
        """Steps under which they may be sent."""
        return 0.0

    @property
    def state_bytes(self) -> float:
        """Nothing."""
        return 0.0

    @property
    def update_bytes(self) -> float:
        """The average is read and written, in 32 and in 16 bits."""
        return 10.0


def meets(method: LocalUpdates) -> str:
    """With whom a site of the method exchanges."""
    return str(getattr(method, "meets", "all"))


for _record in (DiLoCo, LocalSgd, StreamingDiLoCo):
    methods.add(_record.kind, _record)


@dataclass(frozen=True)
class Asynchronous(Apart):
    """Asynchronous local SGD: each site sends what it moved to the server and gets its model; nobody waits.

    Attributes:
        inner_steps: Steps between two meetings (H).
        outer_bits: Of a number as sent.
    """

    kind: ClassVar[str] = "asynchronous"
    meets: ClassVar[str] = "server"
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

    @property
    def bits(self) -> float:
        """Of a number as sent."""
        return float(self.outer_bits)

    def problems(self) -> list[tuple[str, str, str, str]]:
        """What is wrong with the values."""
        wrong = self.inner_steps < 1
        return [("a site steps before it meets", "inner_steps", str(self.inner_steps), "1 or more")] if wrong else []


methods.add(Asynchronous.kind, Asynchronous)


@dataclass(frozen=True)
class Gossip(Apart):
    """Gossip: every H steps a site averages its parameters with one other, drawn at random, without waiting for it.

    Attributes:
        inner_steps: Steps between two averages (H).
        outer_bits: Of a parameter as sent.
    """

    kind: ClassVar[str] = "gossip"
    meets: ClassVar[str] = "pairs"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "as good as all-reduce SGD in epochs on ImageNet with up to 128 workers",
            "ResNet-50",
            "Lian et al. 2018 (AD-PSGD), arXiv 1710.06952, abstract",
        ),
    )

    inner_steps: int = field(default=50, metadata=bounded(COUNTED))
    outer_bits: int = field(default=32, metadata=bounded(WIDTHS))

    @property
    def bits(self) -> float:
        """Of a parameter as sent."""
        return float(self.outer_bits)

    def problems(self) -> list[tuple[str, str, str, str]]:
        """What is wrong with the values."""
        wrong = self.inner_steps < 1
        return [("a site steps before it averages", "inner_steps", str(self.inner_steps), "1 or more")] if wrong else []


methods.add(Gossip.kind, Gossip)


BACKWARD = 2.0 / 3.0
"""Share of a step in which gradients come into being and may be sent: 4 of 6 operations a parameter and token."""


@dataclass(frozen=True)
class Synchronous(Apart):
    """Data parallelism over all sites: gradients of every step cross between them, under its backward pass.

    Attributes:
        gradient_bits: Of a gradient as sent.
    """

    kind: ClassVar[str] = "synchronous"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding("what the others are compared with", "all models", "the loss of plain data parallelism"),
    )

    gradient_bits: int = field(default=16, metadata=bounded(WIDTHS))

    @property
    def inner_steps(self) -> int:
        """Every step."""
        return 1

    @property
    def bits(self) -> float:
        """Of a gradient."""
        return float(self.gradient_bits)

    @property
    def overlap_steps(self) -> float:
        """The backward pass."""
        return BACKWARD

    @property
    def update_bytes(self) -> float:
        """The optimizer's own step."""
        return 0.0

    def problems(self) -> list[tuple[str, str, str, str]]:
        """What is wrong with the values."""
        wrong = not 1 <= self.gradient_bits <= 32
        return [("there is no such width", "gradient_bits", str(self.gradient_bits), "1 to 32")] if wrong else []


methods.add(Synchronous.kind, Synchronous)


@dataclass(frozen=True)
class Volunteers(DiLoCo):
    """Volunteers: DiLoCo among those who are there; who goes takes its steps since the last meeting with it.

    Attributes:
        inner_steps: Steps between two outer updates (H).
        outer_bits: Of an outer gradient as sent.
    """

    kind: ClassVar[str] = "volunteers"
    meets: ClassVar[str] = "present"

    inner_steps: int = field(default=100, metadata=bounded(COUNTED))
    outer_bits: int = field(default=8, metadata=bounded(WIDTHS))


methods.add(Volunteers.kind, Volunteers)
