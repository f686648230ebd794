"""`link-down`: a cable carries nothing for a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.cluster.fault.fault import LinkRate, OnCable, faults
from railyard.kit.schema import field as f

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster.fault.fault import Places


@dataclass(frozen=True)
class LinkDown(OnCable):
    """A cable carries nothing; with `every` it flaps.

    Attributes:
        cable: Two nodes, both directions between them.
    """

    kind: ClassVar[str] = "link-down"

    cable: str = field(metadata=f.text("cable", "Two nodes, both directions between them: `leaf 0 - spine 1`"))

    def effects(self, places: Places) -> Iterator[LinkRate]:
        """See `Fault`."""
        links = self.links(places, self.cable)
        for spell in self.spells:
            yield LinkRate(links, 0.0, spell)


faults.add(LinkDown.kind, LinkDown)
