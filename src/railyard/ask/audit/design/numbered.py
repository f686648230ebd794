"""Names that count: what is absent between them, and where a port stands among all that a switch has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise, product
from math import gcd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 4
"""Ports that a switch may have for each that is used, at most, for the names of the others to be guessed."""

_DIGITS = re.compile(r"([0-9]{1,9})")


@dataclass(frozen=True)
class Series:
    """Names that differ in one number.

    Attributes:
        head, tail: Before and after the number.
        width: Of the number, with zeros before it; 1: none.
        numbers: That are there.
    """

    head: str
    tail: str
    width: int
    numbers: frozenset[int]

    @classmethod
    def of(cls, names: Iterable[str]) -> Series | None:
        """The series of some names, of one by its last number; None where they differ in anything but one number."""
        parts = [_DIGITS.split(name) for name in dict.fromkeys(names)]
        if not parts or len({len(one) for one in parts}) > 1 or len(parts[0]) == 1:
            return None
        differ = [at for at in range(len(parts[0])) if len({one[at] for one in parts}) > 1] or [len(parts[0]) - 2]
        if len(differ) != 1 or differ[0] % 2 == 0:
            return None
        (at,) = differ
        texts = {one[at] for one in parts}
        width = len(next(iter(texts))) if len({len(one) for one in texts}) == 1 else 1
        first = parts[0]
        return cls("".join(first[:at]), "".join(first[at + 1 :]), width, frozenset(map(int, texts)))

    def name(self, number: int) -> str:
        """The name with a number."""
        return f"{self.head}{number:0{self.width}d}{self.tail}"

    @property
    def between(self) -> list[str]:
        """Names that are absent between those that are there."""
        missing = sorted(set(range(min(self.numbers), max(self.numbers))) - self.numbers)
        return [self.name(number) for number in missing]

    def before(self, first: int) -> list[str]:
        """Names that are absent before the first that is there, where others count from `first`."""
        return [self.name(number) for number in range(first, min(self.numbers))]

    @property
    def after(self) -> str:
        """The name after the last that is there."""
        return self.name(max(self.numbers) + 1)


def grid_gap(names: Iterable[str]) -> list[str]:
    """The one name that completes a grid of two numbers; empty where none or several are absent."""
    parts = [re.fullmatch(r"(.*?)(\d+)(\D+)(\d+)", name) for name in names]
    found = {(part[2], part[4]): part for part in parts if part}
    if not parts or len(found) != len(parts):
        return []
    gone = [
        (row, column)
        for row in dict.fromkeys(row for row, _ in found)
        for column in dict.fromkeys(column for _, column in found)
        if (row, column) not in found
    ]
    if len(gone) != 1:
        return []
    row, column = gone[0]
    like = next(part for (_, other), part in found.items() if other == column)
    return [f"{like[1]}{row}{like[3]}{column}"]


def every_port(used: Iterable[str], count: int = 0) -> list[str]:
    """All ports that switches of a kind have, in their order, from those that are used; empty where that is not clear.

    Cages are counted from the lowest to the highest that is used, in the steps in which they are counted (SONiC counts
    lanes); each cage has the lanes that any has.

    Args:
        used: Names that switches of the kind have used.
        count: Ports of each, where they are counted straight on from 1; 0: not known.
    """
    names = list(dict.fromkeys(used))
    parts = [_DIGITS.split(name) for name in names]
    if not parts or len({tuple(one[::2]) for one in parts}) != 1:
        return []
    if parts[0] and len(parts[0]) == 3 and not parts[0][0] and count:
        return [str(number) for number in range(1, count + 1)]
    columns = [sorted({int(one[at]) for one in parts}) for at in range(1, len(parts[0]), 2)]
    ranges = [_steps(column) if at < len(columns) - 1 or at == 0 else column for at, column in enumerate(columns)]
    total = 1
    for column in ranges:
        total *= len(column)
    if total > MOST * len(names):
        return []
    text = parts[0][::2]
    return ["".join(a + b for a, b in zip(text, [*map(str, numbers), ""], strict=True)) for numbers in product(*ranges)]


def _steps(column: list[int]) -> list[int]:
    """From the first to the last, in the steps in which they are counted."""
    step = gcd(*(b - a for a, b in pairwise(column))) if len(column) > 1 else 1
    return list(range(column[0], column[-1] + 1, step))
