"""What can happen in a run, and in which order at one time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.work.operate.tree import NodeTree


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


@dataclass(frozen=True)
class Ask:
    """What a job asks of its place; see `Request`, which has the same for a policy.

    Attributes:
        within: Level all of whose nodes lie in one group; empty: any.
        prefers: Level that is tried first and may be widened; empty: the narrowest that fits.
        segment: Nodes of a slice that stay together; 0: no slices.
        segment_within: Level in which a slice stays; empty: the policy's own.
        switches: At most so many leafs; 0: any number.
    """

    within: str = ""
    prefers: str = ""
    segment: int = 0
    segment_within: str = ""
    switches: int = 0

    def check(self, tree: NodeTree) -> None:
        """Refuses levels that the cluster does not have, and counts below zero.

        Raises:
            InputError: Names the key.
        """
        for key in ("within", "prefers", "segment_within"):
            if getattr(self, key):
                try:
                    tree.level(getattr(self, key))
                except InputError as error:
                    raise error.located(key=key) from None
        for key in ("segment", "switches"):
            if getattr(self, key) < 0:
                raise InputError("a number from 0 on", key=key, found=getattr(self, key))


ANYWHERE = Ask()
"""Of jobs that ask for nothing."""


class Event(IntEnum):
    """Kinds of events, in the order in which those of one moment are taken: what becomes free can be had at once."""

    END = 0
    REPAIR = 1
    CLOSE = 2
    DETECT = 3
    FAULT = 4
    OPEN = 5
    CHUNK = 6
    RENEW = 7
    REPLICA = 8
