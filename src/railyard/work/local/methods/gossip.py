"""Gossip: a site averages with one other at a time (AD-PSGD)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from railyard.kit.schema.bounds import COUNTED, WIDTHS, bounded
from railyard.work.local.method import Apart, methods
from railyard.work.training.sync.published import Finding


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
