"""Arithmetic of ranges whose ends belong together: low with low, typical with typical, high with high."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from railyard.catalog import Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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


def to_json(band: Range, suffix: str = "") -> dict[str, float]:
    """`{"low": .., "typical": .., "high": ..}`, with `suffix` behind each key."""
    return {end + suffix: at(band, end) for end in ENDS}
