"""Percentiles by nearest rank: the smallest value that at least a share of all values do not exceed.

So every percentile is a value that was seen.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# share x count within this of an integer is that integer.
_ROUNDING = 1e-9


def nearest_rank(share: float, count: int) -> int:
    """Index of a percentile among `count` values in ascending order, from 0.

    Args:
        share: 0 to 1.
        count: At least one.
    """
    return min(max(math.ceil(share * count - _ROUNDING) - 1, 0), count - 1)


def percentile(ordered: Sequence[float] | NDArray[np.float64] | NDArray[np.int64], share: float) -> float:
    """The percentile of at least one value, in ascending order."""
    return float(ordered[nearest_rank(share, len(ordered))])


def percentile_bin(count: NDArray[np.int64], share: float) -> int:
    """Index of the bin of a histogram that holds the percentile.

    Args:
        count: int64[bins], at least one value in all.
        share: 0 to 1.
    """
    reached = np.cumsum(count)
    return int(np.searchsorted(reached, nearest_rank(share, int(reached[-1])) + 1))
