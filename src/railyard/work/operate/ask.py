"""What a job asks of its place beside the number of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.work.operate.tree import NodeTree


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
