"""Closed forms of order statistics: what rounds of exponential clients take, for checks and rough answers."""

from __future__ import annotations

import numpy as np


def exponential_order(count: int, rank: int, mean: float = 1.0) -> float:
    """Mean of the rank-th smallest of so many independent exponential numbers (Renyi 1953).

    Args:
        count: How many are drawn.
        rank: Which, from 1 (the smallest) to `count` (the largest).
        mean: Of one.
    """
    return float(mean * np.sum(1.0 / np.arange(count - rank + 1, count + 1)))


def survivors(count: int, share: float) -> tuple[float, float]:
    """Mean and variance of how many of so many stay, each with the same probability: a binomial number."""
    return count * share, count * share * (1.0 - share)
