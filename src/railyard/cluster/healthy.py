"""How many of equal parts are healthy at once, where each is out with the same chance and on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def healthy_law(count: int, up: float) -> NDArray[np.float64]:
    """float64[count + 1], chance that just so many of `count` parts are healthy: binomial.

    Args:
        count: Parts.
        up: Chance that one is healthy.
    """
    if up in (0.0, 1.0):
        law = np.zeros(count + 1)
        law[round(count * up)] = 1.0
        return law
    healthy = np.arange(count + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(healthy[1:]))])
    ways = log_factorial[-1] - log_factorial - log_factorial[::-1]
    found: NDArray[np.float64] = np.exp(ways + healthy * np.log(up) + (count - healthy) * np.log1p(-up))
    return found


def at_least(count: int, up: float, confidence: float) -> int:
    """The largest k for which at least k of `count` parts are healthy with the confidence."""
    tail = np.cumsum(healthy_law(count, up)[::-1])[::-1]
    enough = np.flatnonzero(tail[1:] >= confidence)
    return int(enough[-1]) + 1 if len(enough) else 0
