"""The fastest of a larger pool of candidates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from railyard.kit.schema.bounds import bounded, limits
from railyard.work.federated.algorithm import selections

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.federated.algorithm import Candidates, Problem


@dataclass(frozen=True)
class Fastest:
    """The fastest of a larger pool of candidates: shorter rounds, and slow clients are hardly heard.

    Attributes:
        candidates: Drawn for each participant.
    """

    kind: ClassVar[str] = "fastest"
    source: ClassVar[str] = "the system half of Oort, Lai et al. OSDI 2021, arXiv 2010.06081"
    by_time: ClassVar[bool] = True

    candidates: float = field(default=3.0, metadata=bounded(limits(1.0, 1000.0)))

    @property
    def pool(self) -> float:
        """So many candidates for each participant."""
        return self.candidates

    def choose(self, candidates: Candidates) -> NDArray[np.intp]:
        """Those who are expected back first."""
        return np.argsort(candidates.expected_s, kind="stable")[: candidates.wanted]

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        wrong = self.candidates < 1
        return (
            [("a candidate for each participant", "candidates", f"{self.candidates:g}", "1 or more")] if wrong else []
        )


selections.add(Fastest.kind, Fastest)
