"""How values of `--set key=value` are read: one small function a kind of value, chosen by the constant's record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.engine.packet.mechanisms import hint_of
from railyard.kit import units
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.engine.packet import MechanismField

_LONGEST = 17
_LIST_WORDS = {"all": tuple(range(8)), "none": ()}


def reader_of(constant: MechanismField) -> Callable[[str], Any]:
    """What reads a user's text for a constant; refuses what is out of its range.

    Raises:
        InputError: (by the reader) The text is no value of the constant.
    """
    convert = _converter(constant)

    def read(text: str) -> Any:
        if constant.none_word and text == constant.none_word:
            return None
        value = convert(text)
        try:
            constant.check(value)
        except InputError as error:
            problem = error.problems[0]
            raise InputError(problem.message, found=text, allowed=constant.allowed, hint=problem.hint) from None
        return value

    return read


def _converter(constant: MechanismField) -> Callable[[str], Any]:
    if constant.kind == "word":
        return choice(*constant.words)
    by_unit = {"ps": time, "bytes": size, "share": share}
    if constant.unit in by_unit:
        return by_unit[constant.unit]
    if constant.unit == "bps":
        return rate
    return {"flag": yes, "integer": integer, "number": number, "list": integers}[constant.kind]


def integer(text: str) -> int:
    """An integer."""
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST):
        raise InputError("expected an integer", found=text)
    return int(text)


def within(low: int, high: int) -> Callable[[str], int]:
    """An integer from `low` to `high`."""

    def read(text: str) -> int:
        value = integer(text)
        if not low <= value <= high:
            raise InputError("the number is out of range", found=text, allowed=f"{low} to {high}")
        return value

    return read


def number(text: str) -> float:
    """A number: `1`, `0.125`, `1/8`."""
    above, slash, below = text.partition("/")
    try:
        return float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        raise InputError("expected a number", found=text, allowed="such as 0.125 or 1/8") from None


def choice(*names: str) -> Callable[[str], str]:
    """One of some words."""

    def read(text: str) -> str:
        if text not in names:
            raise InputError("unknown word", found=text, allowed=names, hint=hint_of(text, names))
        return text

    return read


def share(text: str) -> float:
    """A share of 1; percent are understood."""
    return units.ratio(float(text) if text.replace(".", "", 1).isdigit() else text)


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


def size(text: str) -> int:
    """A size in bytes."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST else units.size(text)


def integers(text: str) -> tuple[int, ...]:
    """Integers between commas: `0,3,7`; `all` and `none` of eight classes."""
    if text in _LIST_WORDS:
        return _LIST_WORDS[text]
    return tuple(integer(part.strip()) for part in text.split(","))
