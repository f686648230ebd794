"""SecAgg+: a client shares masks with a few others only (Bell et al., CCS 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from railyard.work.federated.algorithm import secrecies
from railyard.work.federated.secrecy.secagg import SecAgg

if TYPE_CHECKING:
    from railyard.work.federated.algorithm import Problem


@dataclass(frozen=True)
class SecAggPlus(SecAgg):
    """SecAgg+: SecAgg on a random graph in which each client has few neighbours.

    Attributes:
        neighbours: Of each client; 0 takes what grows as the paper's bound does: 20 times the logarithm to base 10 of
            the clients, which is 100 for 100,000 clients (its example of figure 3).
    """

    kind: ClassVar[str] = "secagg-plus"
    source: ClassVar[str] = "Bell et al. 2020, ePrint 2020/704"

    neighbours: int = 0

    def partners(self, clients: int) -> int:
        """Its neighbours."""
        wanted = self.neighbours or math.ceil(20.0 * math.log10(max(clients, 2)))
        return min(wanted, clients - 1)

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        found = super().problems()
        if self.neighbours < 0:
            found.append(("no fewer than none", "neighbours", str(self.neighbours), "0 or more"))
        return found


secrecies.add(SecAggPlus.kind, SecAggPlus)
