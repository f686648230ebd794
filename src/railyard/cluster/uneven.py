"""Rates of bundles whose members differ: how much load moves off slower ones, and what is left when some are gone.

A fabric that sprays without looking gives every member the same load, so that all wait for the slowest; one that looks
gives each what it can carry. In between the times add up, each for its share of the load:

    1 / rate = moved / (sum of rates) + (1 - moved) / (nominal sum x least share kept)

A member that is gone carries nothing, for routes know of it. Members that all keep the same share of their rate add up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDING = 1e-9
"""Difference of shares that counts as none."""


def uneven_bps(
    rate_bps: NDArray[np.float64],
    nominal_bps: NDArray[np.float64],
    bundle: NDArray[np.int32],
    moved: NDArray[np.float64],
    remaining_efficiency: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The bundles whose members differ, and their rates in bit/s.

    Args:
        rate_bps: float64[members].
        nominal_bps: float64[members], when all is well.
        bundle: int32[members], the bundle of each.
        moved: float64[bundles], share of what a slower member cannot carry that goes to the others.
        remaining_efficiency: float64[bundles], of what members have left where some are gone.
    """
    bundles = len(moved)
    kept = np.divide(rate_bps, nominal_bps, out=np.zeros(len(rate_bps)), where=nominal_bps > 0)
    left = kept > 0
    least, most, least_left = np.full(bundles, np.inf), np.zeros(bundles), np.full(bundles, np.inf)
    np.minimum.at(least, bundle, kept)
    np.maximum.at(most, bundle, kept)
    np.minimum.at(least_left, bundle[left], kept[left])
    uneven = np.flatnonzero(least < most * (1 - ROUNDING))
    total = np.bincount(bundle, weights=rate_bps, minlength=bundles)[uneven]
    nominal = np.bincount(bundle[left], weights=nominal_bps[left], minlength=bundles)[uneven]
    time = moved[uneven] / total + (1.0 - moved[uneven]) / (nominal * least_left[uneven])
    return uneven, np.where(least[uneven] == 0, remaining_efficiency[uneven], 1.0) / time
