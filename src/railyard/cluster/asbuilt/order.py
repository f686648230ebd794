"""The order in which people count names."""

from __future__ import annotations

import re

_DIGITS = 18
"""Of a number in a name, at most: longer ones are no numbers."""


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts n2 before n10."""
    return tuple(
        (0, int(part), part) if re.fullmatch("[0-9]+", part) else (1, 0, part)
        for part in re.split(rf"([0-9]{{1,{_DIGITS}}})", name)
        if part
    )
