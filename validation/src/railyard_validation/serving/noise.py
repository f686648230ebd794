"""How far two measurements under one label lie apart: what no law can be nearer than that knows the label alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from railyard_validation.serving.metrics import measured

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railyard_validation.serving.cases import Case

_LABEL = ("model", "accelerator", "n_accel", "framework", "parallelism", "precision", "isl", "osl", "load")


@dataclass(frozen=True)
class LabelNoise:
    """Pairs of measurements under one label, version of the engine included.

    Attributes:
        pairs: How many.
        median, p90: Of the larger over the smaller, less 1.
    """

    pairs: int
    median: float
    p90: float


def label_noise(cases: Iterable[Case], metric: str) -> LabelNoise | None:
    """The noise of a metric; None where no label appears twice.

    Args:
        cases: Each measurement once.
        metric: That rows publish as a positive number.
    """
    under: dict[tuple[str, ...], list[float]] = {}
    for case in cases:
        value = measured(case.row, metric)
        if value is not None:
            under.setdefault(tuple(case.row.get(name) for name in _LABEL), []).append(value[1])
    apart = [max(pair) / min(pair) - 1.0 for values in under.values() for pair in combinations(values, 2)]
    if not apart:
        return None
    return LabelNoise(len(apart), float(np.median(apart)), float(np.quantile(apart, 0.9)))
