"""Data parallelism over all sites: gradients of every step cross between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from railyard.kit.schema.bounds import WIDTHS, bounded
from railyard.work.local.method import Apart, methods
from railyard.work.training.sync.published import Finding

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
