"""Words of a line and the numbers in them, refused with file and line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.kit.files import opened, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST = (1 << 62) - 1
MOST_BYTES = 4 << 30
"""Of a trace."""
MOST_HOSTS = 1 << 20


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a text file, without their ends.

    Raises:
        InputError: The file cannot be read, or is no text.
    """
    return iter(enumerate(read_text(path, MOST_BYTES).splitlines(), start=1))


def content(path: Path, *, most: int = -1) -> bytes:
    """The bytes of a file, all or the first so many.

    Raises:
        InputError: The file cannot be read.
    """
    with opened(path, MOST_BYTES) as file:
        return file.read(most)


def integer(text: str, what: str, *, low: int = 0, high: int = MOST) -> int:
    """An integer written in decimal digits.

    Raises:
        InputError: It is none, or out of range; without file and line, which `InputError.located` adds.
    """
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 19):
        raise InputError(f"{what}: expected an integer", found=text)
    value = int(text)
    if not low <= value <= high:
        allowed = f"{low} or more" if high == MOST else f"{low} to {high}"
        raise InputError(f"{what} is out of range", found=text, allowed=allowed)
    return value


def decimal(text: str, what: str, *, high: float) -> float:
    """A number of zero or more, such as `12`, `0.5` or `1e6`.

    Raises:
        InputError: It is none, or out of range.
    """
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (text.isascii() and 0 <= value <= high):
        raise InputError(f"{what}: expected a number from 0 to {high:g}", found=text)
    return value
