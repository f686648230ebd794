"""`accelerator-down`: an accelerator is dead for a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.cluster.fault.fault import RankDeath, Spells, faults
from railyard.kit.schema import field as f

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster.fault.fault import Places


@dataclass(frozen=True)
class AcceleratorDown(Spells):
    """An accelerator is dead, and the process that ran on it; its host and its NIC are well.

    Attributes:
        rank: The rank that runs on it.
    """

    kind: ClassVar[str] = "accelerator-down"

    rank: int = field(metadata=f.count("rank", "The rank that runs on it"))

    def effects(self, places: Places) -> Iterator[RankDeath]:
        """See `Fault`."""
        ranks = (places.rank(self.rank),)
        for spell in self.spells:
            yield RankDeath(ranks, spell)


faults.add(AcceleratorDown.kind, AcceleratorDown)
