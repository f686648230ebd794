"""FedProx: FedAvg with a term that keeps clients near the server's model (Li et al., MLSys 2020)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from railyard.kit.schema.bounds import SHARE, bounded
from railyard.work.federated.algorithm import Plain, Problem, algorithms


@dataclass(frozen=True)
class FedProx(Plain):
    """FedProx: FedAvg with a term that keeps clients near the server's model; slow ones may do part of the work.

    Attributes:
        least_work: Share of the local work that a slow client may stop after; 1 asks for all of it.
    """

    kind: ClassVar[str] = "fedprox"
    source: ClassVar[str] = "Li et al. 2020, arXiv 1812.06127"

    least_work: float = field(default=1.0, metadata=bounded(SHARE))

    @property
    def copies(self) -> float:
        """The server's model, to stay near it."""
        return 1.0

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        wrong = not 0 < self.least_work <= 1
        return [("a share of the work", "least_work", f"{self.least_work:g}", "above 0, at most 1")] if wrong else []


algorithms.add(FedProx.kind, FedProx)
