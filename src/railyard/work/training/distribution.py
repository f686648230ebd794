"""The step time over several seeds.

Quantiles are those of the law of jitter around the seeds' undisturbed steps; where the seeds themselves drew jitter,
they are by nearest rank, so that every quantile is a step that was seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit.percentile import percentile
from railyard.measure.result.step import StepFigures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.work.training.jitter import JitterLaw


_HALVINGS = 30


@dataclass(frozen=True)
class Around:
    """The law of jitter around each undisturbed step.

    Attributes:
        law: Of the device.
        ranks: That go in lockstep.
        micro_batches: Of a step.
    """

    law: JitterLaw
    ranks: int
    micro_batches: int

    def quantile(self, samples_s: Sequence[float], quantile: float) -> float:
        """That quantile of steps of which each sample is as likely as the others."""
        steps = sorted(set(samples_s))
        reached = [step + self.law.delay_s(quantile, self.ranks, step, self.micro_batches) for step in steps]
        low, high = min(reached), max(reached)
        for _ in range(_HALVINGS if high > low else 0):
            middle = (low + high) / 2.0
            below = [self.law.share_below(middle - s, self.ranks, s, self.micro_batches) for s in samples_s]
            low, high = (middle, high) if math.fsum(below) / len(below) < quantile else (low, middle)
        return (low + high) / 2.0


@dataclass(frozen=True)
class StepTimes:
    """Step times of one variant.

    Attributes:
        samples_s: One a seed, in the order of the seeds; at least one.
        around: The law by which steps differ from these; None where the samples are all that differs.
    """

    samples_s: tuple[float, ...]
    around: Around | None = None

    @property
    def mean_s(self) -> float:
        """What a long job sees: its length is the mean times the number of steps."""
        return math.fsum(self.samples_s) / len(self.samples_s)

    def section(self, *, mean_s: float | None = None, more_s: float = 0.0, **faulty: float) -> StepFigures:
        """The result's `step`.

        Args:
            mean_s: What a long job sees, where it is not the mean of the samples.
            more_s: What every step takes longer than its sample, on average; in `mean_s` already.
            faulty: Further figures of a job with faults.
        """
        return StepFigures(
            seconds=self.mean_s if mean_s is None else mean_s,
            p50_s=self.quantile(0.50) + more_s,
            p95_s=self.quantile(0.95) + more_s,
            p99_s=self.quantile(0.99) + more_s,
            samples=tuple(sample_s + more_s for sample_s in self.samples_s),
            jitter="" if self.around is None else self.around.law.source,
            **faulty,
        )

    def quantile(self, share: float) -> float:
        """Of the steps: by the law around the samples, else by nearest rank among them."""
        if self.around is None:
            return percentile(sorted(self.samples_s), share)
        return self.around.quantile(self.samples_s, share)
