"""How a router spreads tokens: load of the busiest rank, experts that a batch touches, places that a token goes to."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from railyard.catalog import Model
    from railyard.model.columns import F

# Placements over which the busiest rank is averaged: its mean is then known to about a hundredth.
_PLACEMENTS = 256
# Expected largest of 1, 2, 4, ... 256 standard normal numbers.
_MAXIMA = (0.0, 0.564, 1.029, 1.424, 1.766, 2.070, 2.344, 2.594, 2.827)


UNBALANCED = 1.15
"""Zipf exponent of a router that no loss and no bias balances.

Pro-Prophet (arXiv 2411.10003, section II.A and figure 3) publishes two bounds for 16 experts: in most layers the three
most popular take more than 50 % of the tokens, and the three least popular less than 5 %. Exponents from 1.11 on meet
both. They give no upper bound: 1.15, near the least (60 and 4.6 %), is an assumption.
"""


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
    each = experts // ranks
    most = [
        random.permutation(share)[: each * ranks].reshape(ranks, each).sum(axis=1).max() for _ in range(_PLACEMENTS)
    ]
    return float(np.mean(most) * ranks)


def touched(experts: F, topk: F, tokens: F) -> F:
    """Experts that at least one of the tokens visits, of a layer, when each visits `topk` of them alike."""
    count = np.maximum(experts, 1.0)
    return np.where(experts > 0, experts * -np.expm1(tokens * np.log1p(-np.minimum(topk / count, 1.0 - 1e-9))), 0.0)


def busiest(experts: F, topk: F, tokens: F, ranks: F) -> F:
    """Experts that the tokens visit on the rank where they visit most, of `ranks` that share a layer's experts alike.

    Visits of different experts are nearly independent, so a rank's count has the variance n p (1 - p), and the largest
    of many stands so many of its standard deviations above the mean (expected maxima of normal samples, Harter 1961).
    """
    count = np.maximum(experts, 1.0) / ranks
    mean = touched(experts, topk, tokens) / ranks
    spread = np.sqrt(np.maximum(mean * (1.0 - mean / count), 0.0))
    above = np.interp(np.log2(ranks), np.arange(len(_MAXIMA)), _MAXIMA)
    most: F = np.minimum(mean + above * spread, np.minimum(count, np.maximum(tokens * topk, mean)))
    return most


def places_visited(places: F, topk: F) -> F:
    """To how many places a token goes, mean, when each of its experts lies at any of them: p (1 - (1 - 1/p)^k)."""
    visited: F = places * (1.0 - (1.0 - 1.0 / places) ** topk)
    return visited


def groups_visited(model: Model, groups: int) -> float:
    """To how many of so many groups of ranks, each with its part of the experts, a token goes; mean of all layers.

    Its k experts are drawn without repetition from E, of which each group has E / groups: a group is left out with
    probability C(E - E/groups, k) / C(E, k). In dense layers a token has one group.
    """
    share = model.moe_layers / model.layers if model.experts else 0.0
    if share == 0.0:
        return 1.0
    drawn = np.arange(model.experts_per_token)
    left = model.experts * (1.0 - 1.0 / groups)
    missed = float(np.prod(np.maximum(left - drawn, 0.0) / (model.experts - drawn)))
    return share * groups * (1.0 - missed) + 1.0 - share
