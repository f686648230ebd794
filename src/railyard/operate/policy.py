"""What a placement policy of a scheduler is: the nodes that a job gets of the free ones, in the order of its ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from railyard.registry import Registry

if TYPE_CHECKING:
    from railyard.operate.free import Free


@dataclass(frozen=True)
class Request:
    """What a job asks of a scheduler.

    Attributes:
        nodes: How many.
        each: Accelerators of each of them; less than a node has: other jobs may have the rest.
        within: Level all of whose nodes lie in one group (Kueue: required; Slurm: `--switches=1`); empty: any.
        prefers: Level that the policy tries first and may widen (Kueue: preferred); empty: the narrowest that fits.
        segment: Nodes of a slice that stay together (Slurm: `--segment`; Kueue: pod set slices); 0: no slices.
        segment_within: Level in which a slice stays; empty: the policy's own (Slurm: the base block).
        switches: At most so many leafs; 0: any number.
        groups: Sizes in nodes of the job's communication groups from the innermost, such as (pipeline, data).
        job: Its number, for policies that draw.
        seed: Of draws.
    """

    nodes: int
    each: int
    within: str = ""
    prefers: str = ""
    segment: int = 0
    segment_within: str = ""
    switches: int = 0
    groups: tuple[int, ...] = ()
    job: int = 0
    seed: int = 0

    @property
    def constrained(self) -> bool:
        """Whether some sets of free nodes that are large enough will not do."""
        return bool(self.within or self.segment or self.switches)


Place = Callable[[Request, "Free"], NDArray[np.int32] | None]
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


policies: Registry[NodePolicy] = Registry("placement policy", package="railyard.operate.placement")
