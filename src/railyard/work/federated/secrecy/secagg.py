"""SecAgg: every two clients share a mask (Bonawitz et al., CCS 2017)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.kit.schema.bounds import SOME_SHARE, bounded
from railyard.work.federated.algorithm import Stage, secrecies, stages

if TYPE_CHECKING:
    from railyard.work.federated.algorithm import Problem


@dataclass(frozen=True)
class SecAgg:
    """SecAgg: every two clients share a mask, and shares of it with all others in case one leaves.

    Attributes:
        threshold_share: Share of the clients that must stay for the sum to be unmasked.
    """

    kind: ClassVar[str] = "secagg"
    source: ClassVar[str] = "Bonawitz et al. 2017, ePrint 2017/281, section 7.2"

    threshold_share: float = field(default=2.0 / 3.0, metadata=bounded(SOME_SHARE))

    def partners(self, clients: int) -> int:
        """All others."""
        return clients - 1

    def value_bits(self, clients: int, bits: float) -> float:
        """Bits of the sum of so many numbers."""
        return bits + math.ceil(math.log2(max(clients, 1)))

    def before(self, clients: int) -> tuple[Stage, ...]:
        """Keys, then shares."""
        return stages(self.partners(clients))[0]

    def after(self, clients: int) -> tuple[Stage, ...]:
        """The shares of those who left, and of the masks of those who stayed."""
        return stages(self.partners(clients))[1]

    def mask_bytes(self, clients: int, masked_bytes: float) -> float:
        """One with each partner, and the client's own."""
        return (self.partners(clients) + 1) * masked_bytes

    def unmask_bytes(self, clients: int, dropped: float, masked_bytes: float) -> float:
        """One of each who stayed, and all pairwise ones of each who left."""
        return (clients - dropped + dropped * self.partners(clients)) * masked_bytes

    def threshold(self, clients: int) -> float:
        """Share that must stay."""
        del clients
        return self.threshold_share

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        wrong = not 0.5 < self.threshold_share <= 1
        found = f"{self.threshold_share:g}"
        return [("more than half must stay", "threshold_share", found, "above 0.5, at most 1")] if wrong else []


secrecies.add(SecAgg.kind, SecAgg)
