"""Uniform among those who are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from railyard.work.federated.algorithm import selections

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.federated.algorithm import Candidates, Problem


@dataclass(frozen=True)
class Uniform:
    """Uniform among those who are there: no bias but that of who is there and who comes back in time."""

    kind: ClassVar[str] = "random"
    source: ClassVar[str] = "McMahan et al. 2017, arXiv 1602.05629"
    by_time: ClassVar[bool] = False

    @property
    def pool(self) -> float:
        """One each."""
        return 1.0

    def choose(self, candidates: Candidates) -> NDArray[np.intp]:
        """The first ones: candidates come in random order."""
        return np.arange(min(candidates.wanted, len(candidates.expected_s)))

    def problems(self) -> list[Problem]:
        """Nothing can be wrong."""
        return []


selections.add(Uniform.kind, Uniform)
