"""Building too much and too little: what each size costs a year where another was wanted, and what it regrets.

A cluster of each stage's size is bought at once; wanted are the tokens that each stage's makes. What is too much stands
idle: capital, space and operations are paid, energy for the time at work alone. What is too little is rented on demand,
at the pace of the wanted size's accelerators.

    cost(built, wanted) = capital + space + operations + energy x min(1, wanted / built)
                          + max(0, wanted - built) / tokens of an accelerator-hour x rent
    regret              = cost - the least cost of all sizes for that demand
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.ask.plan.regret import excess
from railyard.measure.cost.assumptions import HOURS_PER_YEAR
from railyard.measure.cost.cost import usd_per_h

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.ask.plan.growth.stage import Stage


@dataclass(frozen=True)
class Provision:
    """One size that may be built.

    Attributes:
        built: The stage that has it.
        usd_per_year: By demand, typical.
        regret_usd: Beyond the best size for that demand.
    """

    built: str
    usd_per_year: tuple[float, ...]
    regret_usd: tuple[float, ...]

    @property
    def bound_usd(self) -> float:
        """The largest regret."""
        return max(self.regret_usd)


def provisions(stages: Sequence[Stage]) -> tuple[Provision, ...]:
    """Every size under every demand, the least of the largest regrets first.

    Args:
        stages: Sizes; what each makes is a demand.
    """
    costs = [[_cost(built, wanted) for wanted in stages] for built in stages]
    found = [
        Provision(stage.name, tuple(row), tuple(late))
        for stage, row, late in zip(stages, costs, excess(costs).tolist(), strict=True)
    ]
    return tuple(sorted(found, key=lambda one: one.bound_usd))


def _cost(built: Stage, wanted: Stage) -> float:
    """Dollars a year."""
    hourly = usd_per_h(built.priced.typical)
    have, want = built.priced.tokens_per_s, wanted.priced.tokens_per_s
    own = hourly["capital"] + hourly["space"] + hourly["operations"] + hourly["energy"] * min(1.0, want / have)
    each = want / wanted.cluster.ranks
    rented = max(0.0, want - have) / each * wanted.cluster.accelerator.rental_usd_per_h.typical
    return (own + rented) * HOURS_PER_YEAR
