"""Carbon of electricity by grid.

What making and moving the hardware emitted is absent: makers publish summaries for few of the parts of a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.measure.cost.assumptions import HOURS_PER_YEAR
from railyard.measure.cost.ranges import at, by_end

if TYPE_CHECKING:
    from railyard.catalog import Range
    from railyard.measure.cost.grids import Grid

ABSENT = "carbon of making and moving the hardware: no figures for most parts"


@dataclass(frozen=True)
class Carbon:
    """What a cluster's electricity emits on a grid.

    Attributes:
        grid: Where.
        tonnes_per_year: t CO2 equivalent a year of 8,760 h, with cooling.
        grams_per_million: g per million goodput tokens.
    """

    grid: Grid
    tonnes_per_year: Range
    grams_per_million: Range


def carbon(on: Grid, drawn_w: Range, joules_per_token: Range) -> Carbon:
    """What a cluster emits on a grid.

    Args:
        on: The grid.
        drawn_w: Metered power with cooling.
        joules_per_token: Metered energy with cooling over goodput tokens.
    """
    return Carbon(
        on,
        by_end(lambda end: at(drawn_w, end) / 1e3 * HOURS_PER_YEAR * on.g_per_kwh / 1e6),
        by_end(lambda end: at(joules_per_token, end) / 3.6e6 * on.g_per_kwh * 1e6),
    )
