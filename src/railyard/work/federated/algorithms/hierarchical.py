"""Hierarchical FedAvg: edge servers average their clients, and meet in the cloud (Liu et al., ICC 2020)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from railyard.kit.schema.bounds import bounded, limits
from railyard.kit.schema.quantity import RATE
from railyard.work.federated.algorithm import Plain, Problem, algorithms


@dataclass(frozen=True)
class Hierarchical(Plain):
    """Hierarchical FedAvg: an edge server in every region averages its clients; edges meet in the cloud.

    Attributes:
        rounds: Rounds at the edges between two meetings (kappa 2).
        backbone_bps: Of an edge server's line to the cloud, one way.
    """

    kind: ClassVar[str] = "hierarchical"
    source: ClassVar[str] = "Liu, Zhang, Song, Letaief 2020, arXiv 1905.06641"

    rounds: int = field(default=5, metadata=bounded(limits(1, 100_000)))
    backbone_bps: float = field(default=1e9, metadata=bounded(RATE.within("1 kb/s", "1 Pb/s")))

    @property
    def edge_rounds(self) -> int:
        """Rounds at the edges between two meetings."""
        return self.rounds

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        found = []
        if self.rounds < 1:
            found.append(("edges average at least once", "rounds", str(self.rounds), "1 or more"))
        if self.backbone_bps <= 0:
            found.append(("a line has a rate", "backbone", f"{self.backbone_bps:g}", "more than zero"))
        return found


algorithms.add(Hierarchical.kind, Hierarchical)
