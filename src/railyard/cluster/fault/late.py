"""`late`: one rank is late once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.cluster.fault.fault import RankDelay, expect, faults
from railyard.kit.schema import field as f

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster.fault.fault import Places


@dataclass(frozen=True)
class Late:
    """One rank reaches its next task late by a given time.

    Attributes:
        rank: The rank.
        by_ps: How much longer the computation takes that runs at `at_ps`, or the next one, in ps.
        at_ps: From when on, in ps.
    """

    kind: ClassVar[str] = "late"

    rank: int = field(metadata=f.count("rank", "The rank"))
    by_ps: int = field(metadata=f.time("by", "How late", "20 us"))
    at_ps: int = field(
        default=0,
        metadata=f.time("at", "From when on; the computation that runs then, or the next one, takes longer", "20 ms"),
    )

    def __post_init__(self) -> None:
        """Refuses times that cannot be."""
        expect(self.by_ps >= 0, "a rank cannot be early", "by", self.by_ps, "at least 0 ps")
        expect(self.at_ps >= 0, "a fault begins before the run", "at", self.at_ps, "at least 0 ps")

    def effects(self, places: Places) -> Iterator[RankDelay]:
        """See `Fault`."""
        yield RankDelay(places.rank(self.rank), self.by_ps, self.at_ps)


faults.add(Late.kind, Late)
