"""Many ranks whose symmetry a few links break: the schedule of the network as it was, repaired, and its bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.synthesis.bound import lower_bound_us
from railyard.collective.synthesis.collectives import Ask, collectives
from railyard.collective.synthesis.groups import exchanges_us, gathers_us, sums_us
from railyard.collective.synthesis.images import whole
from railyard.collective.synthesis.mended import Mended, followed, mended, mirrored
from railyard.collective.synthesis.repaired import repaired
from railyard.collective.synthesis.symmetry import symmetry_of

if TYPE_CHECKING:
    from railyard.collective.synthesis.network import LinkNetwork
    from railyard.collective.synthesis.schedule import Schedule
    from railyard.collective.synthesis.symmetry import Symmetry

NEARNESS = 5.0
"""Of the trees that are repaired: in shallow ones what comes late delays few others."""


@dataclass(frozen=True, eq=False)
class Broken:
    """A network, and what it was.

    Attributes:
        network: The links that are left.
        was: Before.
        symmetry: Of what was.
    """

    network: LinkNetwork
    was: Mended
    symmetry: Symmetry

    @staticmethod
    def of(network: LinkNetwork) -> Broken | None:
        """None where it was never symmetric, or too much is broken to tell."""
        was = mended(network)
        symmetry = None if was is None else symmetry_of(was.network)
        return None if was is None or symmetry is None or len(symmetry) == 1 else Broken(network, was, symmetry)

    def bound_us(self, collective: str, size: float) -> float:
        """Slower links make nothing quicker: the bound of what was holds, and those of all borders of what is left."""
        before = lower_bound_us(self.was.network, collective, size, self.symmetry)
        if collective == "all-to-all":
            ranks = len(self.network.ranks)
            return max(before, exchanges_us(self.network, size / ranks * (1 - np.eye(ranks))))
        if collective == "all-reduce":
            return max(before, sums_us(self.network, size))
        return max(before, gathers_us(self.network if collective == "all-gather" else self.network.reversed(), size))

    def schedule(self, collective: str, size: float, cut: int) -> Schedule:
        """A schedule of all sends over the links that are left.

        Args:
            collective: Which.
            size: Bytes, as the collective counts them.
            cut: Pieces of each part.
        """
        if collective in {"all-gather", "all-to-all"}:
            return self._down(collective, size, cut)
        back = Broken(self.network.reversed(), Mended(self.was.network.reversed(), self.was.odd), self.symmetry)
        sums = mirrored(self.network, back._down("all-gather", size, cut))
        return sums if collective == "reduce-scatter" else followed(sums, self._down("all-gather", size, cut))

    def _down(self, collective: str, size: float, cut: int) -> Schedule:
        ask = Ask(self.was.network, size, cut, NEARNESS, self.symmetry, {})
        every = whole(self.was.network, collectives.get(collective)(ask), collective, self.symmetry)
        return repaired(self.network, self.was, every, paths=collective == "all-to-all")
