"""Split learning with a federated server: activations cross at a cut, the client's part is averaged (SplitFed)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from railyard.kit.schema.bounds import SHARE, bounded
from railyard.work.federated.algorithm import Plain, Problem, algorithms


@dataclass(frozen=True)
class Split(Plain):
    """Split learning: the client has the first layers, activations cross to the server and gradients come back.

    All participants run at the same time, and their parts are averaged at the end of the round (SplitFed).

    Attributes:
        activation_bytes: Of one sample at the cut.
        at_client: Share of the model (parameters and computation) in front of the cut.
    """

    kind: ClassVar[str] = "split"
    source: ClassVar[str] = "Gupta, Raskar 2018, arXiv 1810.06060; Thapa et al. 2022, arXiv 2004.12088 (SplitFed V1)"

    activation_bytes: int = 50_000
    at_client: float = field(default=0.1, metadata=bounded(SHARE))

    @property
    def cut_bytes(self) -> float:
        """Of a sample, one way."""
        return float(self.activation_bytes)

    @property
    def client_share(self) -> float:
        """Share in front of the cut."""
        return self.at_client

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        found = []
        if self.activation_bytes < 1:
            found.append(("a sample has activations", "activation", str(self.activation_bytes), "1 B or more"))
        if not 0 < self.at_client < 1:
            found.append(("both sides have a part", "at_client", f"{self.at_client:g}", "between 0 and 1"))
        return found


algorithms.add(Split.kind, Split)
