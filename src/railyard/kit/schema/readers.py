"""Readers of the two kinds of number that the unit parser does not know: integers and shares."""

from __future__ import annotations

from railyard.kit import units


def integer(value: object) -> int:
    """An integer, zero or more.

    Raises:
        UnitError: A fraction, a negative number or no number.
    """
    return units.count(value)


def fraction(value: object) -> float:
    """A share, from `87 %` or 0.87.

    Raises:
        UnitError: Outside 0 to 1, or no ratio.
    """
    number = units.ratio(value)
    if not 0.0 <= number <= 1.0:
        raise units.UnitError(f"`{value}` is not a share", found=value, allowed="0 to 100 %")
    return number
