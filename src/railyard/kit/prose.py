"""Prose in lines of a width."""

from __future__ import annotations

import re
import textwrap
from typing import Any

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
