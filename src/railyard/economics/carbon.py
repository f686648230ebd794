"""Carbon of electricity by grid.

Grams of CO2 equivalent per kWh that was generated, over the life of plants, yearly means: Ember, Yearly Electricity
Data, by Our World in Data (CC BY 4.0), taken from CodeCarbon's table (MIT, commit b05965e4); the world's mean from
Ember (2024).
What making and moving the hardware emitted is absent: makers publish summaries for few of the parts of a cluster.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from railyard.economics.assumptions import HOURS_PER_YEAR
from railyard.economics.ranges import at, by_end
from railyard.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from railyard.catalog import Range

SOURCE = "Ember, Yearly Electricity Data, by Our World in Data (CC BY 4.0)"
ABSENT = "carbon of making and moving the hardware: no figures for most parts"
USUAL = ("World", "Norway", "France", "United States", "Germany", "Ireland", "Singapore", "China", "Poland", "India")
"""Grids that are shown where none is named: cleanest to dirtiest of places with many data centres, and the mean."""


@dataclass(frozen=True)
class Grid:
    """A country's grid.

    Attributes:
        name: Of the country.
        g_per_kwh: Grams of CO2 equivalent per kWh generated.
        year: Of the mean.
    """

    name: str
    g_per_kwh: float
    year: int


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


@cache
def grids() -> dict[str, Grid]:
    """All grids by name, and by their code of three letters."""
    text = files("railyard.economics").joinpath("grids.csv").read_text(encoding="utf-8")
    found: dict[str, Grid] = {}
    for row in csv.DictReader(text.splitlines()):
        grid = Grid(row["grid"], float(row["g_per_kwh"]), int(row["year"]))
        found[row["grid"].casefold()] = found[row["code"].casefold()] = grid
    return found


def grid(name: str, key: str) -> Grid:
    """The grid of a country.

    Args:
        name: Of the country, or its code.
        key: Where that is written.

    Raises:
        InputError: There is none of that name or code.
    """
    known = grids()
    if name.casefold() not in known:
        names = sorted({one.name for one in known.values()})
        raise InputError(
            "no figure for this grid",
            key=key,
            found=name,
            allowed=f"{len(names)} countries, such as {', '.join(USUAL[:4])}, or their codes of three letters",
            hint=did_you_mean(name, names),
        )
    return known[name.casefold()]


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
