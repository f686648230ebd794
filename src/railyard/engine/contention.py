"""What sharing costs in closed form: the slowdown of communications on one link, and how full hashing makes links.

Functions of arrays of any shape. For one graph the core finds slowdowns over time (`overlap`), by the same constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

F: TypeAlias = NDArray[np.float64]

LEAST = 1e-3
"""Share of a link that those who ask for more than their fair share get at least, whatever others ask for."""

ROUNDING = 1e-6
"""Demand beyond a link's rate that counts as none: sums of many durations are not exact."""

CROWDED = 100.0
"""Flows on a link on average from which on their number counts as normal."""


def slowdown(demand: F) -> F:
    """How many times longer communications take that share a link, 1 or above.

    Args:
        demand: Shares of the link that they take at full speed, summed.
    """
    return np.where(demand > 1.0 + ROUNDING, demand, 1.0)


def fullest(flows: F, links: F, sets: F) -> F:
    r"""Expected number of flows on the fullest link where flows are hashed onto equal links.

    F flows on L links of one set are multinomial. Their maximum is at most m with the probability (Levin, Annals of
    Statistics 9, 1981, 1123)

        P(max <= m) = F! e^F / F^F  P(n <= m)^L  P(W = F)

    where n is Poisson of mean F / L and W the sum of L such n cut off at m, whose distribution is taken by its first
    four moments (Edgeworth). The expectation is the sum over m of 1 - P(max <= m)^sets. Within 1.2 % of draws from 2
    links and 2 flows on.

    Args:
        flows: Flows that are hashed onto one set; need not be integers, fewer than 1 count as 1.
        links: Equal links of a set, at least 1.
        sets: Sets whose fullest link counts, at least 1.

    Returns:
        Of the broadcast shape; at least `flows / links`.
    """
    flows, links, sets = np.broadcast_arrays(*(np.asarray(each, np.float64) for each in (flows, links, sets)))
    rows = np.stack([np.maximum(flows, 1.0).ravel(), links.ravel(), sets.ravel()])
    known, inverse = np.unique(rows, axis=1, return_inverse=True)  # designs are many, networks few
    found = np.empty(known.shape[1])
    crowded = known[0] > CROWDED * known[1]
    found[crowded], found[~crowded] = _fullest_of_many(*known[:, crowded]), _fullest(*known[:, ~crowded])
    return found[inverse.ravel()].reshape(flows.shape)


def _fullest_of_many(flows: F, links: F, sets: F) -> F:
    """Maximum of as many nearly normal numbers as there are links (Blom 1958), with the skewness of Poisson numbers."""
    mean, number = flows / links, np.maximum(links * sets, 2.0)
    inverse = np.vectorize(NormalDist().inv_cdf, otypes=[np.float64])
    z = inverse((number - 0.375) / (number + 0.25))
    return np.where(links > 1, mean + z * np.sqrt(mean * (1 - 1 / links)) + (z**2 - 1) / 6, flows)


def _fullest(flows: F, links: F, sets: F) -> F:
    mean = flows / links
    fewer, expected, below = _Truncated.none(mean), np.zeros_like(flows), np.zeros_like(flows)
    terms = np.floor(mean + 12.0 * np.sqrt(mean)) + 20.0  # of each row, so that rows know nothing of each other
    for most in range(int(np.max(terms, initial=0.0))):
        fewer = fewer.and_one_more(most, mean)
        below = np.maximum(below, fewer.at_most(flows, links))
        below = np.where(most >= flows, 1.0, np.where(most * links < flows * (1 - 1e-9), 0.0, below))
        expected = expected + np.where(most < terms, 1.0 - below**sets, 0.0)
    return np.where(links > 1, expected, flows)


@dataclass(frozen=True)
class _Truncated:
    """Poisson numbers cut off: the sums of k^i P(n = k) for i from 0 to 4, and the logarithm of the last P(n = k)."""

    sums: tuple[F, ...]
    log_last: F

    @classmethod
    def none(cls, mean: F) -> _Truncated:
        return cls((np.zeros_like(mean),) * 5, -mean)

    def and_one_more(self, number: int, mean: F) -> _Truncated:
        log_last = self.log_last if number == 0 else self.log_last + np.log(mean / number)
        term = np.exp(log_last)
        sums = tuple(total + float(number) ** power * term for power, total in enumerate(self.sums))
        return _Truncated(sums, log_last)

    def at_most(self, flows: F, links: F) -> F:
        """P(max <= m) of one set."""
        share = np.maximum(self.sums[0], 1e-300)
        first, second, third, fourth = (total / share for total in self.sums[1:])
        variance = second - first**2
        spread = np.sqrt(np.maximum(variance, 1e-12))
        skew = (third - 3 * first * second + 2 * first**3) / spread**3 / np.sqrt(links)
        excess = ((fourth - 4 * first * third + 6 * first**2 * second - 3 * first**4) / spread**4 - 3) / links
        x = (flows - links * first) / (np.sqrt(links) * spread)
        correction = (
            1
            + skew / 6 * (x**3 - 3 * x)
            + excess / 24 * (x**4 - 6 * x**2 + 3)
            + skew**2 / 72 * (x**6 - 15 * x**4 + 45 * x**2 - 15)
        )
        log_normal = -(x**2) / 2 - np.log(np.sqrt(2 * np.pi * links) * spread)
        found = np.exp(np.minimum(links * np.log(share) + log_normal + _log_stirling(flows), 50.0)) * correction
        return np.where(variance > 1e-12, np.clip(found, 0.0, 1.0), 0.0)


def _log_stirling(flows: F) -> F:
    """log(F! e^F / F^F), within 0.1 % from 1 on."""
    found: F = np.log(2 * np.pi * flows) / 2 + 1 / (12 * flows) - 1 / (360 * flows**3)
    return found
