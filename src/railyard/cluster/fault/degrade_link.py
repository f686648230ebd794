"""`degrade-link`: links carry less for a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.cluster.fault.fault import LinkRate, OnCable, expect, faults
from railyard.kit.errors import InputError
from railyard.kit.schema import field as f
from railyard.kit.schema.bounds import Bounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster.fault.fault import Links, Places


@dataclass(frozen=True)
class DegradeLink(OnCable):
    """A link, a cable, or all links of a tier carry less than their rate.

    Attributes:
        factor: Capacity as a share of the link's rate, between 0 and 1.
        link: One directed link by its number.
        cable: Two nodes: both directions between them.
        tier: All links of a tier, by its name or the last word of it.
    """

    kind: ClassVar[str] = "degrade-link"

    factor: float = field(
        metadata=f.fraction(
            "factor", "Capacity as a share of the link's rate, above 0 and below 1", bounds=Bounds(above=0.0, below=1.0)
        )
    )
    link: int | None = field(default=None, metadata=f.count("link", "One directed link by its number"))
    tier: str | None = field(default=None, metadata=f.text("tier", "All links of this tier, such as `leaf-spine`"))
    cable: str | None = field(
        default=None, metadata=f.text("cable", "Two nodes, both directions between them: `leaf 0 - spine 1`")
    )

    def __post_init__(self) -> None:
        """Refuses a factor that is no degradation, and several places at once."""
        super().__post_init__()
        message = "a degraded link has some of its capacity, and not all of it"
        expect(0 < self.factor < 1, message, "factor", self.factor, "above 0 and below 1, such as 50 %")
        self.need_cable(self.cable)
        if sum(place is not None for place in (self.link, self.tier, self.cable)) != 1:
            raise InputError(
                "one of `link`, `cable` and `tier` says what is degraded", key="link", allowed="one of the three"
            )

    def effects(self, places: Places) -> Iterator[LinkRate]:
        """See `Fault`."""
        links = self._place(places)
        for spell in self.spells:
            yield LinkRate(links, self.factor, spell)

    def _place(self, places: Places) -> Links:
        if self.link is not None:
            return places.link(self.link)
        return self.links(places, self.cable) if self.cable is not None else places.tier(str(self.tier))


faults.add(DegradeLink.kind, DegradeLink)
