"""What a selection policy is: which of the candidates take part, given what the server may know of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from railyard.work.federated.algorithm import Problem


@dataclass(frozen=True, eq=False)
class Candidates:
    """Clients that are there, drawn uniformly.

    Attributes:
        expected_s: float64[candidates], what each took when all was as usual for it: its own device and data, its link
            without what passes.
        samples: float64[candidates], training samples.
        device: int64[candidates], class of its device.
        wanted: How many take part.
        deadline_s: Of the round; inf without.
    """

    expected_s: NDArray[np.float64]
    samples: NDArray[np.float64]
    device: NDArray[np.intp]
    wanted: int
    deadline_s: float


class Selection(Protocol):
    """A policy; a frozen dataclass whose fields are its keys in a scenario.

    Attributes:
        kind: Its name.
        source: The paper, or the practice.
        by_time: Whether it looks at what candidates are expected to take.
    """

    kind: ClassVar[str]
    source: ClassVar[str]
    by_time: ClassVar[bool]

    @property
    def pool(self) -> float:
        """Candidates that are drawn for each participant."""

    def choose(self, candidates: Candidates) -> NDArray[np.intp]:
        """Rows of those who take part, at most as many as wanted."""

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""


selections: Registry[type[Selection]] = Registry("selection of clients", package="railyard.work.federated.selection")
