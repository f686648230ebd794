"""Prose: names in a sentence, and lines of a width."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_FEW, _LINE = 3, 40
_COUNTS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve")

MOST_NAMED = 5
"""Most variants that a sentence names."""

_NO_BREAK = "\N{NO-BREAK SPACE}"
_UNIT = re.compile(r"(?<=\d) (?=%|[a-zA-Z]{1,3}\b)")
"""The space between a figure and its unit."""


def prose_lines(text: str, width: int, **how: Any) -> list[str]:
    """Lines of at most `width` columns, one at least; no figure is parted from its unit.

    Args:
        text: Without line breaks.
        width: Columns.
        how: Of `textwrap.wrap`.
    """
    return [line.replace(_NO_BREAK, " ") for line in textwrap.wrap(_UNIT.sub(_NO_BREAK, text), width, **how)] or [""]


def quoted(name: str) -> str:
    """The name of a variant in a sentence: in quotation marks where it has more than one word."""
    return f'"{name}"' if re.search(r"[ ,;]", name) else name


def listed(names: Sequence[str]) -> str:
    """`uec, spectrum-x and scheduled`; of many, the first and how many more."""
    most = MOST_NAMED if len(names) <= MOST_NAMED else MOST_NAMED - 1
    shown = [quoted(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def several(names: Sequence[str]) -> str:
    """The names as in `listed`; `Six variants` where there are more than three and they fill a line."""
    if len(names) <= _FEW or sum(map(len, names)) <= _LINE:
        return listed(names)
    return f"{_COUNTS[len(names)] if len(names) < len(_COUNTS) else len(names)} variants"
