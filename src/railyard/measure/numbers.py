"""Formats figures for people: three or four digits, a suitable unit, and N/A rather than a misleading number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railyard.measure.result.section import Band

NOT_APPLICABLE = "N/A"
_STEPS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def finite_or_null(content: Any) -> Any:
    """The same with null in the place of numbers that are none."""
    if isinstance(content, dict):
        return {key: finite_or_null(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [finite_or_null(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def short(value: float | None, digits: int = 3) -> str:
    """About three digits, with thousands separators."""
    if value is None or not math.isfinite(value):
        return NOT_APPLICABLE
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"


def percent(share: float | None) -> str:
    """A share as percent with one decimal; what rounds to zero has no sign."""
    return NOT_APPLICABLE if share is None else f"{round(100 * share, 1) + 0.0:.1f} %"


def counted(count: int, noun: str) -> str:
    """`1 kind`, `3 kinds`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def more(share: float) -> str:
    """How much more another figure is: `2.9 % more`, and from twice as much on `18.9 times as much`."""
    return f"{percent(share)} more" if share < 1.0 else f"{short(1.0 + share)} times as much"


def seconds(value: float | None, like: float | None = None) -> str:
    """A time in its best unit, or in that of another time."""
    if value is None or not math.isfinite(value):
        return NOT_APPLICABLE
    for scale, unit in ((86400 * 2, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(value if like is None else like) >= scale:
            return f"{short(value / (86400 if unit == 'd' else scale))} {unit}"
    return "0 s" if value == 0 else f"{short(value * 1e9)} ns"


def power(watts: float | None, like: float | None = None) -> str:
    """A power in its best unit, or in that of another."""
    if watts is None:
        return NOT_APPLICABLE
    return f"{short(watts / 1e6)} MW" if (watts if like is None else like) >= 1e6 else f"{short(watts / 1e3)} kW"


def dollars(value: float | None, like: float | None = None) -> str:
    """An amount of money, `$41.2M`, in its best unit, or in that of another."""
    if value is None:
        return NOT_APPLICABLE
    for scale, prefix in _STEPS:
        if abs(value if like is None else like) >= scale:
            return f"${short(value / scale)}{prefix}"
    return f"${short(value)}"


def signed_dollars(value: float) -> str:
    """The same with its sign before the dollar where it is less than nothing."""
    return f"-{dollars(-value)}" if value < 0 else dollars(value)


def of_unit(value: float, unit: str) -> str:
    """A value with three digits in its best unit, given its own: s, W, USD, USD/h, tokens/J, ..."""
    if unit == "s":
        return f"{short(value / 86400)} days" if value > 2 * 86400 else f"{short(value)} s"
    if unit == "W":
        return power(value)
    if unit.startswith("USD"):
        per = unit.removeprefix("USD")
        scale, prefix = next((step for step in _STEPS[1:] if value >= step[0]), (1.0, ""))
        return f"${short(value / scale)}{prefix}{per}"
    return f"{short(value)} {unit}".strip()


def pair(one: str, other: str, between: str) -> str:
    """Two values with their unit once: `9.12 -> 8.71 s`."""
    number, _, unit = one.rpartition(" ")
    return f"{number if number and other.endswith(f' {unit}') else one} {between} {other}"


def from_to(low: str, high: str) -> str:
    """The ends of a range with their unit once: `9.12 to 8.71 s`; one value where both read the same."""
    return low if low == high else pair(low, high, "to")


def count(value: float | None) -> str:
    """A count: `15 T`."""
    if value is None:
        return NOT_APPLICABLE
    for scale, prefix in _STEPS:
        if abs(value) >= scale:
            return f"{short(value / scale)} {prefix}"
    return short(value)


def band(values: Band | None) -> str:
    """A range as low / typical / high."""
    if values is None:
        return NOT_APPLICABLE
    return " / ".join(short(end) for end in values.ends)


def with_range(values: Band | None) -> str:
    """A typical value with its range: `0.583 (0.304 to 1.04)`."""
    if values is None:
        return NOT_APPLICABLE
    low, typical, high = map(short, values.ends)
    return f"{typical} ({low} to {high})"
