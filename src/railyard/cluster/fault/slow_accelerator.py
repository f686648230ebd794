"""`slow-accelerator`: one rank computes slower for a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.cluster.fault.fault import RankSpeed, Spells, expect, faults
from railyard.kit.schema import field as f
from railyard.kit.schema.bounds import SOME_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster.fault.fault import Places


@dataclass(frozen=True)
class SlowAccelerator(Spells):
    """One accelerator computes slower than it should; a computation in flight is slowed from then on.

    Attributes:
        rank: The rank.
        factor: Speed as a share of the nominal speed, between 0 and 1; 0.8 takes 1.25 times as long.
    """

    kind: ClassVar[str] = "slow-accelerator"

    rank: int = field(metadata=f.count("rank", "The rank"))
    factor: float = field(
        metadata=f.fraction(
            "factor", "Speed as a share of the nominal speed; 0.8 takes 1.25 times as long", bounds=SOME_SHARE
        )
    )

    def __post_init__(self) -> None:
        """Refuses a factor that is no slowdown."""
        super().__post_init__()
        message = "a slow accelerator has some of its speed, and not all of it"
        expect(0 < self.factor < 1, message, "factor", self.factor, "above 0 and below 1, such as 50 %")

    def effects(self, places: Places) -> Iterator[RankSpeed]:
        """See `Fault`."""
        rank = places.rank(self.rank)
        for spell in self.spells:
            yield RankSpeed(rank, self.factor, spell)


faults.add(SlowAccelerator.kind, SlowAccelerator)
