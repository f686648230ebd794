"""`railyard plan worth`: what a little more of each thing is worth."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from railyard.ask.plan.worth import page
from railyard.ask.plan.worth import worth as worths
from railyard.face.api import numbers
from railyard.face.cli import messages
from railyard.face.cli.progress import Progress
from railyard.face.cli.tables import Table, emit
from railyard.kit.files import write_text
from railyard.measure.cost.carbon import ABSENT
from railyard.measure.cost.grids import SOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.ask.plan.worth.worth import Worth
    from railyard.catalog.types import Range


def worth(file: Path, *, sets: Sequence[str], report: Path | None, as_json: bool, quiet: bool) -> None:
    """Prints what a microsecond, a tail, nines and the network are worth, and carbon by grid.

    Raises:
        InputError: The scenario is wrong, or the page cannot be written.
    """
    with Progress(wanted=not quiet) as progress:
        progress("reading the scenario", 0.0)
        found = worths.worth(messages.scenario(file, sets), progress)
    result = worths.to_json(found)
    if report is not None:
        write_text(report, page.page(result))
    if as_json:
        emit(json.dumps(result, ensure_ascii=False, allow_nan=False))
        return
    for table in (_moved(found), _nines(found), _network(found), _carbon(found)):
        table.print()
        emit("")
    emit(f"grids: {SOURCE}; absent: {ABSENT}")


def _usd(band: Range) -> tuple[str, str, str]:
    low, typical, high = (signed(value) for value in (band.low, band.typical, band.high))
    return typical, low, high


def signed(value: float) -> str:
    """Dollars with their sign where they are less than nothing."""
    return f"-{numbers.dollars(-value)}" if value < 0 else numbers.dollars(value)


def _moved(found: Worth) -> Table:
    table = Table(("what a year of it costs", "USD a year", "low", "high", "of the cluster"), (1, 2, 3, 4))
    for words, one in (
        ("1 us more in every switch", found.hop),
        ("0.1 % more of the slowest of 1,000 computations", found.tail),
    ):
        share = one.usd_per_year.typical / found.usd_per_year.typical
        table.add(words, *_usd(one.usd_per_year), f"{share:.3%}")
    table.add("the cluster", *_usd(found.usd_per_year), "")
    return table


def _nines(found: Worth) -> Table:
    heads = ("all servers up", "spares", "few to many failures", "reached", "USD a year", "for this nine", "it gives")
    table = Table(heads, range(1, len(heads)))
    for one in found.nines:
        few, usual, many = ("more than half" if number is None else str(number) for number in one.spares)
        if one.usd_per_year is None or one.step_usd_per_year is None or one.worth_usd_per_year is None:
            table.add(f"{one.wanted:.6%}".rstrip("0%").rstrip(".") + " %", usual, f"{few} to {many}", "", "", "", "")
            continue
        table.add(
            f"{100 * one.wanted:g} %",
            usual,
            f"{few} to {many}",
            f"{100 * (one.reached or 0.0):.4g} %",
            signed(one.usd_per_year.typical),
            signed(one.step_usd_per_year),
            signed(one.worth_usd_per_year),
        )
    return table


def _network(found: Worth) -> Table:
    table = Table(("the network is", "typical", "low", "high"), (1, 2, 3))
    one = found.network
    for words, band in (
        ("of what is bought", one.capex),
        ("of the dollars of an hour", one.usd),
        ("of the joules", one.joules),
    ):
        table.add(words, *(numbers.percent(value) for value in (band.typical, band.low, band.high)))
    table.add("dollars a year", signed(one.usd_per_year), "", "")
    return table


def _carbon(found: Worth) -> Table:
    table = Table(("grid", "g/kWh", "of", "t CO2e a year", "low", "high", "g per million tokens"), range(1, 7))
    for one in found.carbon:
        band = one.tonnes_per_year
        table.add(
            one.grid.name,
            f"{one.grid.g_per_kwh:g}",
            str(one.grid.year),
            *(f"{value:,.0f}" for value in (band.typical, band.low, band.high)),
            numbers.short(one.grams_per_million.typical),
        )
    return table
