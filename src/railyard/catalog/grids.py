"""Electricity grids of countries: grams of CO2 a kWh."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from railyard.kit.errors import InputError, did_you_mean

SOURCE = "Ember, Yearly Electricity Data, by Our World in Data (CC BY 4.0)"
USUAL = ("World", "Norway", "France", "United States", "Germany", "Ireland", "Singapore", "China", "Poland", "India")
"""Grids shown if none is named: from cleanest to dirtiest among places with many data centers, and the world mean."""


@dataclass(frozen=True)
class PowerGrid:
    """A country's grid.

    Attributes:
        g_per_kwh: Grams of CO2 equivalent per kWh generated.
    """

    name: str
    g_per_kwh: float
    year: int


@cache
def grids() -> dict[str, PowerGrid]:
    """All grids by name, and by their code of three letters."""
    text = files("railyard.catalog").joinpath("grids.csv").read_text(encoding="utf-8")
    found: dict[str, PowerGrid] = {}
    for row in csv.DictReader(text.splitlines()):
        grid = PowerGrid(row["grid"], float(row["g_per_kwh"]), int(row["year"]))
        found[row["grid"].casefold()] = found[row["code"].casefold()] = grid
    return found


def grid(name: str, key: str) -> PowerGrid:
    """The grid of a country.

    Raises:
        InputError: The name or code is unknown.
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
