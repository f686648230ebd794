"""How values of `--set key=value` are read: one small function a kind of value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from railyard import units
from railyard.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 12


def whole(low: int, high: int) -> Callable[[str], int]:
    """A whole number from `low` to `high`."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and low <= int(text[:_LONGEST]) <= high and len(text) <= _LONGEST):
            raise InputError("a whole number is wanted", found=text, allowed=f"{low} to {high}")
        return int(text)

    return read


def number(low: float, high: float) -> Callable[[str], float]:
    """A number from `low` to `high`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise InputError("a number is wanted", found=text, allowed=f"{low:g} to {high:g}")
        return value

    return read


def choice(*names: str) -> Callable[[str], str]:
    """One of some words."""

    def read(text: str) -> str:
        if text not in names:
            raise InputError("unknown word", found=text, allowed=names, hint=did_you_mean(text, names))
        return text

    return read


def share(text: str) -> float:
    """More than 0 and at most 1; percent are understood."""
    value = units.ratio(float(text) if text.replace(".", "", 1).isdigit() else text)
    if not 0 < value <= 1:
        raise InputError("a share is more than 0 and at most 1", found=text)
    return value


def yes(text: str) -> bool:
    """`true` or `false`."""
    return choice("true", "false")(text) == "true"


def rate(text: str) -> int:
    """A rate in bit/s."""
    found = round(units.rate(text))
    if not 10**6 <= found <= 10**14:
        raise InputError("the rate is out of range", found=text, allowed="1 Mb/s to 100 Tb/s")
    return found


def time(text: str) -> int:
    """A time in ps."""
    return units.time(text)


def time_or_never(text: str) -> int | None:
    """A time in ps, or `never`."""
    return None if text == "never" else units.time(text)


def size(text: str) -> int:
    """A size in bytes."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST else units.size(text)
