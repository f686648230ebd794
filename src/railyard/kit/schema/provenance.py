"""Where a number comes from: what every constant of the catalogue and of the fabrics says of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Provenance:
    """Where a number comes from.

    Attributes:
        value_text: The value as the file writes it, with its unit.
        source: Who says so.
        year: Of the source.
        confidence: `vendor` (the maker's own figure), `measured`, `estimated` (derived, remembered or guessed: override
            it when you know better), or `user` (a value of the user's own file that gives no source).
    """

    value_text: str
    source: str
    year: int
    confidence: str
