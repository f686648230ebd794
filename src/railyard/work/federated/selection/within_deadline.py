"""Only clients that are expected back before the deadline (FedCS)."""

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
class WithinDeadline:
    """Only clients that are expected back before the deadline, in random order (FedCS).

    Attributes:
        candidates: Drawn for each participant.
    """

    kind: ClassVar[str] = "within-deadline"
    source: ClassVar[str] = "Nishio, Yonetani 2019 (FedCS), arXiv 1804.08333"
    by_time: ClassVar[bool] = True

    candidates: float = field(default=2.0, metadata=bounded(limits(1.0, 1000.0)))

    @property
    def pool(self) -> float:
        """So many candidates for each participant."""
        return self.candidates

    def choose(self, candidates: Candidates) -> NDArray[np.intp]:
        """The first of those who fit."""
        return np.flatnonzero(candidates.expected_s <= candidates.deadline_s)[: candidates.wanted]

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        wrong = self.candidates < 1
        return (
            [("a candidate for each participant", "candidates", f"{self.candidates:g}", "1 or more")] if wrong else []
        )


selections.add(WithinDeadline.kind, WithinDeadline)
