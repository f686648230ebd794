"""What a placement policy of a scheduler is: the nodes that a job gets of the free ones, in the order of its ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from railyard.kit.registry import Registry
from railyard.work.operate.event import Request
from railyard.work.operate.free import Free

Place = Callable[[Request, Free], NDArray[np.int32] | None]
"""Of a request and what is free: int32[nodes wanted] in the order of ranks, or None: it waits. Changes nothing."""


@dataclass(frozen=True)
class NodePolicy:
    """A placement policy; its record is its registration.

    Attributes:
        name: What users write.
        summary: Which nodes it gives, in one sentence.
        place: See `Place`.
        source: Whose behaviour it is, with the version it was compared with; empty for a bound.
        seeded: Whether the seed matters.
    """

    name: str
    summary: str
    place: Place
    source: str = ""
    seeded: bool = False


policies: Registry[NodePolicy] = Registry("placement policy", package="railyard.work.operate.placement")
