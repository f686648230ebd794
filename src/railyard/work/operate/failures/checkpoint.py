"""How far apart checkpoints are: Young's and Daly's intervals, and what a job loses with an interval.

Sources: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17, 1974: sqrt(2 d M). J.
T. Daly, "A higher
order estimate of the optimum checkpoint interval for restart dumps", FGCS 22, 2006, equation 37, and 20 for the
expected time.
"""

from __future__ import annotations

import math


def young_s(stall_s: float, mttf_s: float) -> float:
    """Young's interval: work between two checkpoints."""
    return math.sqrt(2 * stall_s * mttf_s)


def daly_s(stall_s: float, mttf_s: float) -> float:
    """Daly's interval: work between two checkpoints; the mean time to failure where a checkpoint takes twice that."""
    if stall_s >= 2 * mttf_s:
        return mttf_s
    ratio = math.sqrt(stall_s / (2 * mttf_s))
    return math.sqrt(2 * stall_s * mttf_s) * (1 + ratio / 3 + ratio * ratio / 9) - stall_s


def efficiency(interval_s: float, stall_s: float, restart_s: float, mttf_s: float) -> float:
    """Useful share of the time of a job that fails as a Poisson process and restarts from its last checkpoint.

    Daly's equation 20 turned over; detection counts as part of the restart.
    """
    if math.isinf(mttf_s):
        return interval_s / (interval_s + stall_s)
    segment = (interval_s + stall_s) / mttf_s
    if segment > 500:
        return 0.0
    return interval_s / (mttf_s * math.exp(restart_s / mttf_s) * math.expm1(segment))
