"""What a job asks of a scheduler: how many nodes, and which of them will do."""

from __future__ import annotations

from dataclasses import dataclass


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
