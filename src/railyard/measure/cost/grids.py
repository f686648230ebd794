"""Grids and what their electricity emits.

Grams of CO2 equivalent per kWh that was generated, over the life of plants, yearly means: Ember, Yearly Electricity
Data, by Our World in Data (CC BY 4.0), taken from CodeCarbon's table (MIT, commit b05965e4); the world's mean from
Ember (2024).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from railyard.kit.errors import InputError, did_you_mean

SOURCE = "Ember, Yearly Electricity Data, by Our World in Data (CC BY 4.0)"
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


@cache
def grids() -> dict[str, Grid]:
    """All grids by name, and by their code of three letters."""
    text = files("railyard.measure.cost").joinpath("grids.csv").read_text(encoding="utf-8")
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
