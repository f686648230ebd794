"""How steps of one job differ from one another: noise that averages out, and interruptions that lockstep makes common.

Two causes, each with its own growth:

- every micro-batch takes a little longer or shorter than the mean (clocks, data, memory): over M micro-batches of one
  step the relative spread is sigma / sqrt(M), whatever the number of ranks;
- a rank is interrupted now and then, `rate` times a second, for a time that is exponential with mean `mean_s`. Ranks
  go in lockstep, so a step is delayed by the longest interruption of any of them.

Interruptions of all ranks together are a Poisson process, so the delay x of a step of T seconds on N ranks has the
distribution (x >= 0)

    P(delay <= x) = exp(-N T sum_k rate_k exp(-x / mean_k)),

for one kind a Gumbel distribution of scale `mean_s` about mean_s ln(rate N T): with more ranks it moves, but does not
widen. So p95 - p50 = 2.60 mean_s, whether ten or ten thousand ranks go together, and 2.60 mean_s / T grows as the step
gets shorter. Few ranks, rate N T < ln 2, are not interrupted in their median step at all.

What the host's interruptions are was not published; a rate and a mean stand for all of a kind (Petrini, Kerbyson and
Pakin, SC 2003; Hoefler, Schneider and Lumsdaine, SC 2010).
"""

from __future__ import annotations

import functools
import math
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.quantities import halved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.catalog import Accelerator
    from railyard.model.machine import F

# The normal part is folded in by Simpson's rule over so many points, out to so many of its standard deviations.
_POINTS, _REACH = 801, 8.0
_SIMPSON = np.array([1.0, *np.tile([4.0, 2.0], _POINTS // 2 - 1), 4.0, 1.0]) / 3.0
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Interruption:
    """One kind of interruption of a rank.

    Attributes:
        rate_hz: Of one rank, a second.
        mean_s: Mean of its (exponential) length.
    """

    rate_hz: float
    mean_s: float


@dataclass(frozen=True, slots=True)
class JitterLaw:
    """Constants of the law on one device architecture.

    Attributes:
        architecture: Of the device, "" for those that were not read.
        sigma: Relative spread of one micro-batch, the same for all ranks.
    """

    architecture: str
    sigma: float
    interruptions: tuple[Interruption, ...]
    source: str

    def share_below(self, delay_s: float, ranks: int, step_s: float, micro_batches: float) -> float:
        """Share of steps that are at most so much longer than an undisturbed one.

        Args:
            delay_s: Beyond `step_s`; negative for shorter steps.
            ranks: That go in lockstep.
            step_s: Of the undisturbed step.
            micro_batches: One after another in a step.
        """
        spread = self._spread_s(step_s, micro_batches)
        if spread <= 0:
            return float(np.exp(-self._expected(np.array(delay_s), ranks, step_s))) if delay_s >= 0 else 0.0
        place = delay_s / spread
        low, high = max(place - _REACH, 0.0), place + _REACH
        if high <= 0:
            return 0.0
        # An interruption of u spreads and noise of place - u of them; there is no interruption below zero.
        length = np.linspace(low, high, _POINTS)
        density = np.exp(-0.5 * (place - length) ** 2) / math.sqrt(2.0 * math.pi)
        shorter = np.exp(-self._expected(length * spread, ranks, step_s))
        # So many spreads out the normal part has ended: what lies below `low` is left out.
        return float((_SIMPSON * density * shorter).sum() * (high - low) / (_POINTS - 1))

    def delay_s(self, quantile: float, ranks: int, step_s: float, micro_batches: float) -> float:
        """How much longer than an undisturbed step that quantile of the steps is, in s.

        Args:
            quantile: Between 0 and 1.
            ranks: That go in lockstep.
            step_s: Of the undisturbed step.
            micro_batches: One after another in a step.
        """
        spread = self._spread_s(step_s, micro_batches)
        low, high = -10.0 * spread, 10.0 * spread + self._longest_s(quantile, ranks, step_s)
        step = ranks, step_s, micro_batches
        return sum(halved(lambda delay_s: self.share_below(delay_s, *step) < quantile, low, high, _HALVINGS)) / 2.0

    def ratio(self, quantile: float, ranks: int, step_s: float, micro_batches: float) -> float:
        """Ratio of that quantile of the steps to their median."""
        middle = step_s + self.delay_s(0.5, ranks, step_s, micro_batches)
        return (step_s + self.delay_s(quantile, ranks, step_s, micro_batches)) / middle

    def _spread_s(self, step_s: float, micro_batches: float) -> float:
        return self.sigma * step_s / math.sqrt(max(micro_batches, 1.0))

    def _expected(self, delay_s: F, ranks: int, step_s: float) -> F:
        """Interruptions of a step, over all ranks, that last longer."""
        total = np.zeros_like(delay_s)
        for kind in self.interruptions:
            total = total + kind.rate_hz * np.exp(-delay_s / kind.mean_s)
        return ranks * step_s * total

    def _longest_s(self, quantile: float, ranks: int, step_s: float) -> float:
        """No step's interruptions are longer at that quantile: the sum over kinds of where each alone would be."""
        few, kinds = -math.log(quantile), len(self.interruptions)
        return sum(
            kind.mean_s * max(math.log(kinds * ranks * step_s * kind.rate_hz / few), 0.0) + kind.mean_s
            for kind in self.interruptions
        )


def law_of(accelerator: Accelerator) -> JitterLaw:
    """The law on that device: of its architecture, else the one read on most runs."""
    laws = _laws()
    near = [law for law in laws if law.architecture and accelerator.architecture.startswith(law.architecture)]
    return near[0] if near else laws[0]


def median_delay_s(accelerators: Sequence[Accelerator], of_row: NDArray[np.int64], ranks: F, step_s: F) -> F:
    """Delay of the median step by interruptions, of many designs, in s.

    Solves N T sum_k rate_k exp(-x / mean_k) = ln 2 by halving; 0 where no such x is positive.

    Args:
        accelerators: The different ones among the designs'.
        of_row: int64[d], which of them a design has.
        ranks: float64[d], N.
        step_s: float64[d], T.
    """
    laws = [law_of(device) for device in accelerators]
    kinds = max((len(law.interruptions) for law in laws), default=0)
    rate, mean = np.zeros((kinds, len(laws))), np.ones((kinds, len(laws)))
    for column, law in enumerate(laws):
        for row, kind in enumerate(law.interruptions):
            rate[row, column], mean[row, column] = kind.rate_hz, kind.mean_s
    rate, mean = rate[:, of_row], mean[:, of_row]
    exposed = rate * ranks * step_s / math.log(2.0)
    low = np.zeros(len(of_row))
    high = np.max(mean * np.log(np.maximum(exposed * kinds, 1.0)), axis=0, initial=0.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        more = (exposed * np.exp(-middle / mean)).sum(axis=0) > 1.0
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.asarray(high, np.float64)


@functools.cache
def _laws() -> tuple[JitterLaw, ...]:
    text = (files("railyard.work.training") / "data" / "jitter.toml").read_text(encoding="utf-8")
    return tuple(
        JitterLaw(
            architecture=entry["architecture"],
            sigma=entry["sigma"],
            interruptions=tuple(Interruption(kind["rate_hz"], kind["mean_s"]) for kind in entry["interruption"]),
            source=entry["source"],
        )
        for entry in tomllib.loads(text)["law"]
    )
