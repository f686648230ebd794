"""Checks of which the shape of `result.json` is made: each yields what is wrong with a value, by its key."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from railyard.errors import Problem

Check = Callable[[str, Any], Iterator[Problem]]
SAME = 1e-6
"""Relative difference of two figures that are the same."""


def problem_of(key: str, message: str, value: object) -> Problem:
    """A value that is wrong."""
    return Problem(message, key=key, found=f"{value!r}"[:80])


def number(key: str, value: Any) -> Iterator[Problem]:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield problem_of(key, "a number is wanted", value)


def count(key: str, value: Any) -> Iterator[Problem]:
    """A whole number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        yield problem_of(key, "a count is wanted", value)


def share(key: str, value: Any) -> Iterator[Problem]:
    """A number from 0 to 1."""
    wrong = list(number(key, value))
    yield from wrong
    if not wrong and not -SAME <= value <= 1 + SAME:
        yield problem_of(key, "a share is between 0 and 1", value)


def text(key: str, value: Any) -> Iterator[Problem]:
    """Text."""
    if not isinstance(value, str):
        yield problem_of(key, "text is wanted", value)


def scalar(key: str, value: Any) -> Iterator[Problem]:
    """A number or text."""
    if not isinstance(value, str | int | float):
        yield problem_of(key, "a number or text is wanted", value)


def an_object(key: str, value: Any) -> Iterator[Problem]:
    """An object."""
    if not isinstance(value, Mapping):
        yield problem_of(key, "an object is wanted", value)


def maybe(check: Check) -> Check:
    """The value may be null."""

    def checked(key: str, value: Any) -> Iterator[Problem]:
        if value is not None:
            yield from check(key, value)

    return checked


def listed(check: Check, *, least: int = 0) -> Check:
    """A list of at least so many entries, each as the check says."""

    def checked(key: str, value: Any) -> Iterator[Problem]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            yield problem_of(key, "a list is wanted", value)
            return
        if len(value) < least:
            yield problem_of(key, f"at least {least} entries are wanted", value)
        for place, item in enumerate(value):
            yield from check(f"{key}[{place}]", item)

    return checked


def record(fields: Mapping[str, Check]) -> Check:
    """An object with these keys, each as its check says; further ones are allowed."""

    def checked(key: str, value: Any) -> Iterator[Problem]:
        if not isinstance(value, Mapping):
            yield problem_of(key, "an object is wanted", value)
            return
        for name, check in fields.items():
            if name in value:
                yield from check(f"{key}.{name}", value[name])
            else:
                yield Problem("the key is missing", key=f"{key}.{name}")

    return checked


def rows(fields: Mapping[str, Check], *, least: int = 0) -> Check:
    """A list of such objects."""
    return listed(record(fields), least=least)


def band(suffix: str = "") -> dict[str, Check]:
    """Keys of a low, a typical and a high figure."""
    return {end + suffix: number for end in ("low", "typical", "high")}


def all_finite(key: str, value: Any) -> Iterator[Problem]:
    """No number in it, however deep, is infinite or none."""
    if isinstance(value, float) and not math.isfinite(value):
        yield problem_of(key, "the number is not finite", value)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from all_finite(f"{key}.{name}", item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for place, item in enumerate(value):
            yield from all_finite(f"{key}[{place}]", item)


def ordered(key: str, band: Mapping[str, float]) -> Iterator[Problem]:
    """A band whose low end is not above the typical value, nor that above the high end."""
    slack = SAME * max(abs(band["high"]), 1.0)
    if not (band["low"] <= band["typical"] + slack and band["typical"] <= band["high"] + slack):
        found = f"{band['low']}, {band['typical']}, {band['high']}"
        yield Problem("low, typical and high are not in order", key=key, found=found)


def equal(key: str, message: str, found: float, wanted: float) -> Iterator[Problem]:
    """Two figures are the same but for rounding."""
    if abs(found - wanted) > SAME * max(abs(wanted), abs(found)):
        yield Problem(message, key=key, found=f"{found}", allowed=f"{wanted}")
