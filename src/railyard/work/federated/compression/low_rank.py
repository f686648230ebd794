"""Low rank: matrices as products of two thin ones (PowerSGD)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.kit.schema.bounds import COUNTED, bounded, limits
from railyard.work.federated.algorithm import compressions

if TYPE_CHECKING:
    from railyard.work.federated.algorithm import Problem


@dataclass(frozen=True)
class LowRank:
    """Low rank: each square matrix of a width as the product of two thin ones.

    Attributes:
        rank: Of the thin matrices.
        width: Rows and columns of the model's matrices.
        error_feedback: Keeps what the product lacks for the next update.
    """

    kind: ClassVar[str] = "low-rank"
    source: ClassVar[str] = "Vogels, Karimireddy, Jaggi 2019 (PowerSGD), arXiv 1905.13727"
    sums: ClassVar[bool] = False

    rank: int = field(default=4, metadata=bounded(limits(1, 65_536)))
    width: int = field(default=512, metadata=bounded(COUNTED))
    error_feedback: bool = True

    def sent_bytes(self, parameters: float, bits: float) -> float:
        """Two thin matrices in the place of a square one."""
        return parameters * min(2.0 * self.rank / self.width, 1.0) * bits / 8.0

    def operations(self, parameters: float) -> float:
        """Two products with a thin matrix, and what they lack."""
        return parameters * (4.0 * self.rank + (2.0 * self.rank + 1.0 if self.error_feedback else 0.0))

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        if 1 <= self.rank <= self.width:
            return []
        return [("a rank is no larger than the matrix", "rank", str(self.rank), f"1 to {self.width}")]


compressions.add(LowRank.kind, LowRank)
