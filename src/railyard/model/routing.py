"""How unevenly a router loads the ranks that hold experts."""

from __future__ import annotations

from functools import cache

import numpy as np

# Placements over which the busiest rank is averaged: its mean is then known to about a hundredth.
_PLACEMENTS = 256


@cache
def imbalance(experts: int, ranks: int, skew: float) -> float:
    """Load of the busiest rank over the mean load.

    Expert number i of a layer, by popularity, receives tokens as i^-skew (Zipf). Popular experts lie on any rank, so
    the busiest rank is averaged over random placements of `experts / ranks` each; they are the same in every run.

    Args:
        experts: Of a layer.
        ranks: Of the group over which they are spread.
        skew: Exponent; 0 is a router that balances, as auxiliary losses, biases or forced balance make it.

    Returns:
        1 when balanced; at most `ranks`.
    """
    if skew <= 0.0 or ranks <= 1 or experts < ranks:
        return 1.0
    share = np.arange(1, experts + 1, dtype=np.float64) ** -skew
    share /= share.sum()
    random = np.random.Generator(np.random.Philox(key=0))
    held = experts // ranks
    busiest = [
        random.permutation(share)[: held * ranks].reshape(ranks, held).sum(axis=1).max() for _ in range(_PLACEMENTS)
    ]
    return float(np.mean(busiest) * ranks)
