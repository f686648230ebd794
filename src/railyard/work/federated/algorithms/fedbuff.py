"""FedBuff: the server steps when a buffer of updates is full (Nguyen et al., AISTATS 2022)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from railyard.kit.schema.bounds import COUNTED, bounded
from railyard.work.federated.algorithm import Plain, Problem, algorithms


@dataclass(frozen=True)
class FedBuff(Plain):
    """FedBuff: the server steps when `size` updates have come; nobody waits for anybody.

    Attributes:
        size: Updates in the buffer (K).
    """

    kind: ClassVar[str] = "fedbuff"
    source: ClassVar[str] = "Nguyen et al. 2022, arXiv 2106.06639"

    size: int = field(default=10, metadata=bounded(COUNTED))

    @property
    def buffer(self) -> int:
        """Updates after which the server steps."""
        return self.size

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        return [("a buffer holds an update", "size", str(self.size), "1 or more")] if self.size < 1 else []


algorithms.add(FedBuff.kind, FedBuff)
