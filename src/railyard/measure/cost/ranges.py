"""Arithmetic of ranges whose ends belong together: low with low, typical with typical, high with high."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from railyard.catalog import Range
from railyard.measure.result.section import Band, NamedBand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from railyard.catalog import Entry


@dataclass(frozen=True)
class Source:
    """One row.

    Attributes:
        item: What it belongs to ("h100-sxm", "cost of capital").
        field: Which number of it.
        value: As written, with its unit.
        source: Who says so.
        year: Of the source; empty where none is named.
        confidence: `vendor`, `measured`, `estimated` or `user`.
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
    for field in fields:
        origin = entry.provenance.get(field)
        if origin is not None:
            row = Source(entry.name, field, origin.value_text, origin.source, origin.year, origin.confidence)
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
