"""Quantiles of errors: one definition for every table of validation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def quantile(ordered: Sequence[float], share: float) -> float:
    """Of values in ascending order, linear between the two neighbours, as NumPy's default."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
