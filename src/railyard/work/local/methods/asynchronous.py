"""Asynchronous local SGD: each site meets the server when it is ready (Liu et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from railyard.kit.schema.bounds import COUNTED, WIDTHS, bounded
from railyard.work.local.method import Apart, methods
from railyard.work.training.sync.published import Finding


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
