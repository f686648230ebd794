"""Quantized: every number in few bits, with a scale a block (QSGD)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.kit.schema.bounds import COUNTED, WIDTHS, bounded
from railyard.work.federated.algorithm import compressions

if TYPE_CHECKING:
    from railyard.work.federated.algorithm import Problem

_SCALE_BITS = 32.0


@dataclass(frozen=True)
class Quantized:
    """Quantized: every number in few bits, and a scale of 32 bits a block.

    Attributes:
        value_bits: Of a number as sent.
        block: Numbers that share a scale.
        error_feedback: Keeps what rounding took for the next update.
    """

    kind: ClassVar[str] = "quantized"
    source: ClassVar[str] = "Alistarh et al. 2017 (QSGD), arXiv 1610.02132"
    sums: ClassVar[bool] = True

    value_bits: int = field(default=8, metadata=bounded(WIDTHS))
    block: int = field(default=1024, metadata=bounded(COUNTED))
    error_feedback: bool = False

    def sent_bytes(self, parameters: float, bits: float) -> float:
        """Numbers and scales; never more than they were."""
        return (
            min(parameters * self.value_bits + math.ceil(parameters / self.block) * _SCALE_BITS, parameters * bits)
            / 8.0
        )

    def operations(self, parameters: float) -> float:
        """Largest of a block, scale, round; and add what was kept."""
        return parameters * (4.0 if self.error_feedback else 3.0)

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        found = []
        if not 1 <= self.value_bits <= 32:
            found.append(("there is no such width", "value_bits", str(self.value_bits), "1 to 32"))
        if self.block < 1:
            found.append(("a block holds a number", "block", str(self.block), "1 or more"))
        return found


compressions.add(Quantized.kind, Quantized)
