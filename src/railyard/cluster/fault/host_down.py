"""`host-down`: a host is dead for a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.cluster.fault.fault import LinkRate, RankDeath, Spells, faults
from railyard.kit.schema import field as f

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster.fault.fault import Places


@dataclass(frozen=True)
class HostDown(Spells):
    """A host is dead: its accelerators, what ran on them, and its links.

    Attributes:
        host: The host, counted as ranks are.
    """

    kind: ClassVar[str] = "host-down"

    host: int = field(metadata=f.count("host", "The host, counted as ranks are"))

    def effects(self, places: Places) -> Iterator[LinkRate | RankDeath]:
        """See `Fault`."""
        links, ranks = places.host(self.host), places.ranks_of_host(self.host)
        for spell in self.spells:
            yield RankDeath(ranks, spell)
            yield LinkRate(links, 0.0, spell)


faults.add(HostDown.kind, HostDown)
