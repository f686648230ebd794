"""Where every number of a cost comes from, as rows of the result's `provenance.sources`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
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
