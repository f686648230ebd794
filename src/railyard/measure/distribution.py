"""The step time over several seeds: quantiles by nearest rank, so that every quantile is a step that was seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def nearest_rank(samples: Sequence[float], quantile: float) -> float:
    """The smallest sample that at least `quantile` of all samples do not exceed.

    Args:
        samples: At least one.
        quantile: Above 0, at most 1.
    """
    ordered = sorted(samples)
    return ordered[max(math.ceil(quantile * len(ordered)) - 1, 0)]


@dataclass(frozen=True)
class StepTimes:
    """Step times of one variant.

    Attributes:
        samples_s: One a seed, in the order of the seeds; at least one.
    """

    samples_s: tuple[float, ...]

    @property
    def mean_s(self) -> float:
        """What a long job sees: its length is the mean times the number of steps."""
        return math.fsum(self.samples_s) / len(self.samples_s)

    def to_json(self) -> dict[str, object]:
        """The result's `step`."""
        return {
            "seconds": self.mean_s,
            "p50_s": nearest_rank(self.samples_s, 0.50),
            "p95_s": nearest_rank(self.samples_s, 0.95),
            "p99_s": nearest_rank(self.samples_s, 0.99),
            "samples": list(self.samples_s),
        }
