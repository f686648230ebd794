"""Book values: when pieces were bought, and what is left of their price when they go."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.ask.plan.growth.change import Change, Lot

YEAR_S = 365.0 * 86400


class Ledger:
    """When pieces were bought, by name, for what is left of their price when they go."""

    def __init__(self) -> None:
        self._bought: dict[str, list[tuple[float, float]]] = {}

    def changed(self, made: Change, now_s: float, life_years: float) -> float:
        """Books what is bought, and gives the book value of what is stranded, USD.

        Args:
            made: What a stage does.
            now_s: When.
            life_years: Economic life, over which a piece goes straight down to nothing.
        """
        gone = sum(self._value(lot, now_s, life_years * YEAR_S) for lot in made.stranded.values())
        for lot in made.bought.values():
            self._bought.setdefault(lot.name, []).append((lot.count, now_s))
        return gone

    def _value(self, lot: Lot, now_s: float, life_s: float) -> float:
        left, worth, kept = lot.count, 0.0, []
        for count, since_s in self._bought.get(lot.name, []):
            taken = min(left, count)
            left -= taken
            worth += taken * lot.price_usd.typical * max(0.0, 1.0 - (now_s - since_s) / life_s)
            if count > taken:
                kept.append((count - taken, since_s))
        self._bought[lot.name] = kept
        return worth
