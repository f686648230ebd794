"""Top-k: the largest share of an update as values and indices."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.kit.schema.bounds import SOME_SHARE, bounded
from railyard.work.federated.algorithm import compressions

if TYPE_CHECKING:
    from railyard.work.federated.algorithm import Problem


@dataclass(frozen=True)
class TopK:
    """Top-k: the largest share of an update, each value with its index, or a bit map where that is shorter.

    Attributes:
        density: Share of the numbers that is sent.
        error_feedback: Keeps what was not sent for the next update.
    """

    kind: ClassVar[str] = "top-k"
    source: ClassVar[str] = "Aji, Heafield 2017, arXiv 1704.05021; Sattler et al. 2019, arXiv 1903.02891"
    sums: ClassVar[bool] = False

    density: float = field(default=0.01, metadata=bounded(SOME_SHARE))
    error_feedback: bool = True

    def sent_bytes(self, parameters: float, bits: float) -> float:
        """Values, and the shorter of indices and a bit map."""
        chosen = math.ceil(parameters * self.density)
        where = min(chosen * math.ceil(math.log2(max(parameters, 2.0))), parameters)
        return (chosen * bits + where) / 8.0

    def operations(self, parameters: float) -> float:
        """A pass that selects, and one that adds what was kept."""
        return parameters * (3.0 if self.error_feedback else 2.0)

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        wrong = not 0 < self.density <= 1
        return [("a share of the update", "density", f"{self.density:g}", "above 0, at most 1")] if wrong else []


compressions.add(TopK.kind, TopK)
