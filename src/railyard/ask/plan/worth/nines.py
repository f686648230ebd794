r"""The price of each nine of availability: spare servers that keep a job of all the others running.

A server is out when one of its accelerators, or its share of the rest, fails in a way that needs a repair: `share` of
all interruptions, each accelerator every `mtbf_h`. Repairs are lognormal by their median and 90th percentile. The job
runs while no more servers are out than there are spares. Outages are drawn once, and the same ones meet every number
of spares. In the long run the number out is Poisson with the mean servers x rate x mean repair, whatever the law of
repairs (M/G/infinity, Palm 1943): the tests hold the draws to it. Only servers that work fail: spares wait.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.cost.assumptions import HOURS_PER_YEAR

if TYPE_CHECKING:
    from numpy.typing import NDArray

Z90 = 1.2815515655446004
"""Standard normal quantile of 90 %."""

WARM_UP_YEARS = 1
MOST_SPARES = 0.5
"""Of the servers: beyond, a nine is not for sale."""


@dataclass(frozen=True)
class Outages:
    """How servers fail and come back.

    Attributes:
        servers: That the job needs.
        mtbf_h: Hours between two outages of one server that need a repair.
        repair_h: Median of a repair.
        repair_p90_h: Its 90th percentile.
        years: That are drawn.
        seed: Of the draw.
    """

    servers: int
    mtbf_h: float
    repair_h: float
    repair_p90_h: float
    years: int
    seed: int

    @property
    def mean_repair_h(self) -> float:
        """Of the lognormal law."""
        return self.repair_h * math.exp(self.sigma**2 / 2)

    @property
    def sigma(self) -> float:
        """Of the logarithm of a repair."""
        return math.log(self.repair_p90_h / self.repair_h) / Z90

    def out(self) -> NDArray[np.float64]:
        """float64[most out at once + 1], share of the time for which so many servers are out."""
        random = np.random.default_rng(self.seed)
        span_h = (self.years + WARM_UP_YEARS) * HOURS_PER_YEAR
        count = random.poisson(self.servers * span_h / self.mtbf_h)
        begin = random.uniform(0.0, span_h, count)
        end = begin + self.repair_h * np.exp(self.sigma * random.standard_normal(count))
        first = WARM_UP_YEARS * HOURS_PER_YEAR
        times = np.clip(np.concatenate([begin, end]), first, span_h)
        order = np.argsort(times, kind="stable")
        level = np.cumsum(np.repeat([1, -1], count)[order])
        length = np.diff(np.append(times[order], span_h))
        share = np.bincount(np.maximum(level, 0), weights=length) / (span_h - first)
        share[0] += 1.0 - share.sum()
        found: NDArray[np.float64] = share
        return found


def availability(out: NDArray[np.float64], spares: int) -> float:
    """Share of the time in which no more servers are out than there are spares."""
    return float(out[: spares + 1].sum())


def spares_for(out: NDArray[np.float64], wanted: float, servers: int) -> int | None:
    """Fewest spares with which the job runs for such a share of the time; None where half the servers do not do."""
    sums = np.cumsum(out)
    enough = np.flatnonzero(sums >= wanted)
    spares = int(enough[0]) if len(enough) else len(out)
    return spares if len(enough) and spares <= max(1, math.floor(servers * MOST_SPARES)) else None
