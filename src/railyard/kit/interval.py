"""The mean of a few values and how far it may be off, by Student's distribution."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_STUDENT = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833, 10: 1.812}
"""95th percentile of Student's distribution by degrees of freedom; beyond ten close to 1.645 + 1.55 / n."""


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """A mean and the ends of its 90 % interval."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, -math.inf, math.inf
    degrees = len(values) - 1
    factor = _STUDENT.get(degrees, 1.645 + 1.55 / degrees)
    half = factor * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half
