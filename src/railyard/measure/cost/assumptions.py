"""Assumptions about prices and failure rates: ranges, each of which the user can replace.

The catalog has capital cost, life, electricity, PUE, space, operations and installation with their sources; failure
rates are in `railyard.measure.job`, and the power of a waiting accelerator in `power.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from railyard.catalog import Range
from railyard.kit.errors import InputError, did_you_mean
from railyard.measure.job import Reliability
from railyard.measure.result.section import Band, NamedBand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from railyard.catalog import Catalog, Entry
    from railyard.catalog.grids import PowerGrid


@dataclass(frozen=True)
class Source:
    """One row.

    Attributes:
        item: What it belongs to ("h100-sxm", "cost of capital").
        year: Of the source; empty where none is named.
    """

    item: str
    field: str
    value: str
    source: str
    year: int | Literal[""]
    confidence: str


def of_entry(entry: Entry, *fields: str) -> list[Source]:
    """The rows of some fields of a catalogue entry; fields without a source of their own are left out."""
    rows = []
    for name in fields:
        origin = entry.provenance.get(name)
        if origin is not None:
            row = Source(entry.name, name, origin.value_text, origin.source, origin.year, origin.confidence)
            rows.append(row)
    return rows


End = Literal["low", "typical", "high"]
ENDS: tuple[End, End, End] = ("low", "typical", "high")
ZERO = Range(0.0, 0.0, 0.0)


def exactly(value: float) -> Range:
    """A value that is known."""
    return Range(value, value, value)


def at(band: Range, end: End) -> float:
    """One end of a range, or its middle."""
    return {"low": band.low, "typical": band.typical, "high": band.high}[end]


def by_end(compute: Callable[[End], float]) -> Range:
    """The range of a quantity that is computed for each end by itself."""
    return Range(*(compute(end) for end in ENDS))


def total(bands: Iterable[Range]) -> Range:
    """The sum."""
    summed = ZERO
    for band in bands:
        summed = summed + band
    return summed


def band_of(values: Range) -> Band:
    """The range as a result holds it."""
    return Band(low=values.low, typical=values.typical, high=values.high)


def named_band(name: str, values: Range) -> NamedBand:
    """The range of one part, as a result holds it."""
    return NamedBand(name=name, low=values.low, typical=values.typical, high=values.high)


HOURS_PER_YEAR = 8760.0
HOURS_PER_MONTH = HOURS_PER_YEAR / 12

PRICES = {
    "cost_of_capital": "cost-of-capital",
    "life_years": "server-life",
    "electricity_usd_per_kwh": "electricity",
    "pue": "pue",
    "space_usd_per_kw_month": "colocation",
    "operations": "operations",
    "installation": "installation",
}
"""Maps the catalog's prices to assumptions."""

NAMES = (*PRICES, "mtbf_h", "restart_s")

CHEAP_END: dict[str, Literal["low", "high"]] = {"life_years": "high", "mtbf_h": "high"}
"""Assumptions whose high value is the cheap one; for all others it is the low value."""


@dataclass(frozen=True)
class Assumptions:
    """Uncertain numbers of the environment of the cluster.

    Attributes:
        space_usd_per_kw_month: Provisioned space and power, per kW of IT nameplate power and month, without energy.
        operations: Staff, support and spares, share of capital cost per year.
        mtbf_h: Mean time between interruptions caused by one accelerator and its share of everything else, hours.
        restart_s: Time from an interruption to the first step after it.
        site: Site of the cluster, of several possible ones; empty if there is one.
        grid: Electricity grid; None: unknown.
    """

    cost_of_capital: Range
    life_years: Range
    electricity_usd_per_kwh: Range
    pue: Range
    space_usd_per_kw_month: Range
    operations: Range
    installation: Range
    mtbf_h: Range
    restart_s: Range
    sources: tuple[Source, ...] = field(default=(), repr=False)
    site: str = ""
    grid: PowerGrid | None = None

    @staticmethod
    def from_catalog(catalog: Catalog, overrides: Mapping[str, Range | float] | None = None) -> Assumptions:
        """The catalog's values, with the user's values in place of some.

        Args:
            catalog: Catalog with the prices.
            overrides: Values by the names of the attributes above; a number is a range without width.

        Raises:
            InputError: A name is unknown, or a value is not valid.
        """
        given = dict(overrides or {})
        ranges, sources = _defaults(catalog, given)
        for name, value in given.items():
            if name not in NAMES:
                raise InputError("there is no such assumption", key=name, allowed=NAMES, hint=did_you_mean(name, NAMES))
            ranges[name] = value if isinstance(value, Range) else Range(value, value, value)
            sources.append(Source("assumption", name, _text(ranges[name]), "the scenario", 0, "user"))
        _check(ranges)
        return Assumptions(**ranges, sources=tuple(sources), site="", grid=None)


def _defaults(catalog: Catalog, given: Mapping[str, object]) -> tuple[dict[str, Range], list[Source]]:
    ranges: dict[str, Range] = {}
    sources: list[Source] = []
    for name, key in PRICES.items():
        if name not in given:
            entry = catalog.price(key)
            ranges[name] = entry.range
            sources += of_entry(entry, "range")
    usual = Reliability()
    for name, band, source in (
        ("mtbf_h", usual.mtbf_h, _MTBF_SOURCE),
        ("restart_s", usual.restart_s, _RESTART_SOURCE),
    ):
        if name not in given:
            ranges[name] = band
            sources.append(source)
    return ranges, sources


_MTBF_SOURCE = Source(
    "reliability",
    "mtbf_h",
    "29.5k, 50.7k, 82.1k hours of one accelerator between interruptions",
    "Meta RSC-1 (arXiv 2410.21680); Llama 3 Herd of Models, table 5; Meta RSC-2",
    2024,
    "measured",
)
_RESTART_SOURCE = Source(
    "reliability",
    "restart_s",
    "374, 900, 1500 s from an interruption to the next step",
    "MLPerf Training v5.0 logs, warm-up; MegaScale (NSDI 2024), detection and resumption",
    2025,
    "estimated",
)


def _check(ranges: Mapping[str, Range]) -> None:
    for name, band in ranges.items():
        if not band.low <= band.typical <= band.high:
            raise InputError("low, typical and high are not in order", key=key_of(name), found=_text(band))
    for name in ("life_years", "mtbf_h"):
        if ranges[name].low <= 0:
            raise InputError("this must be more than zero", key=key_of(name), found=_text(ranges[name]))
    if ranges["pue"].low < 1:
        raise InputError("facility power is never less than IT power", key="pue", found=_text(ranges["pue"]))
    for name, band in ranges.items():
        if band.low < 0:
            raise InputError("this cannot be negative", key=key_of(name), found=_text(band))


def key_of(name: str) -> str:
    """The key of an assumption in a scenario: its name without the unit."""
    return name.removesuffix("_h").removesuffix("_s").removesuffix("_years").partition("_usd_per_")[0]


def _text(band: Range) -> str:
    return f"{band.typical:g}" if band.low == band.high else f"{band.low:g}, {band.typical:g}, {band.high:g}"


ABSENT = "carbon of making and moving the hardware: no figures for most parts"


@dataclass(frozen=True)
class Carbon:
    """Emissions of a cluster's electricity on a grid.

    Attributes:
        tonnes_per_year: t CO2 equivalent per year of 8,760 h, with cooling.
    """

    grid: PowerGrid
    tonnes_per_year: Range
    grams_per_million: Range


def carbon(on: PowerGrid, drawn_w: Range, joules_per_token: Range) -> Carbon:
    """Emissions of a cluster on a grid."""
    return Carbon(
        on,
        by_end(lambda end: at(drawn_w, end) / 1e3 * HOURS_PER_YEAR * on.g_per_kwh / 1e6),
        by_end(lambda end: at(joules_per_token, end) / 3.6e6 * on.g_per_kwh * 1e6),
    )
