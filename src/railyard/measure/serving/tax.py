"""The network tax of a service: the same requests served again on networks without limit.

With a figure X as it is, X1 where the scale-out network has no limit, X0 where no network has one:

    goodput lost = 1 - G / G1           scale-up: G / G1 - G / G0
    share of a latency = (L - L1) / L   scale-up: (L1 - L0) / L

Latencies are percentiles of all requests, not of the same request. What is below zero, because requests meet in another
order, is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.measure.result.serving import LEVELS
from railyard.measure.result.tax import ServingTax, ServingTaxShares
from railyard.measure.serving.objective import goodput
from railyard.measure.serving.percentiles import quantiles

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from railyard.measure.result.serving import Level
    from railyard.measure.serving.objective import Objective
    from railyard.measure.serving.served import Served


def serving_tax(
    as_it_is: Served, without_scale_out: Served, without_networks: Served, objective: Objective
) -> ServingTax:
    """The tax of a service.

    Args:
        as_it_is: Its requests.
        without_scale_out: The same where the scale-out network has no limit.
        without_networks: The same where no network has one.
        objective: That makes requests count as goodput.
    """
    runs = (as_it_is, without_scale_out, without_networks)
    window = goodput(as_it_is, objective).window
    rates = [goodput(run, objective, window).requests_per_s for run in runs]
    kept = [rates[0] / max(rate, rates[0]) if rates[0] > 0 else float(rate <= 0) for rate in rates]
    kept[2] = min(kept[1:])
    outside, inside = (
        tuple(_lost(*(getattr(run, name) for run in (runs[0], runs[first], runs[first + 1]))) for name in _LATENCIES)
        for first in (0, 1)
    )
    scale_up = ServingTaxShares(goodput_lost=kept[1] - kept[2], ttft=inside[0], tpot=inside[1])
    return ServingTax(goodput_lost=1.0 - kept[1], ttft=outside[0], tpot=outside[1], scale_up=scale_up)


_LATENCIES = ("ttft_s", "tpot_s")


def _lost(whole: NDArray[np.float64], longer: NDArray[np.float64], shorter: NDArray[np.float64]) -> dict[Level, float]:
    """Share of each percentile by which one run is longer than another; empty where nothing got so far."""
    of, more, less = (quantiles(values) for values in (whole, longer, shorter))
    found: dict[Level, float] = {}
    for level in LEVELS:
        total, high, low = of[level], more[level], less[level]
        if total is None or high is None or low is None:
            return {}
        found[level] = max(min(high, total) - low, 0.0) / total if total > 0 else 0.0
    return found
