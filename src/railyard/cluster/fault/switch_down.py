"""`switch-down`: a switch is dead for a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.cluster.fault.fault import LinkRate, Spells, faults
from railyard.kit.schema import field as f

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster.fault.fault import Places


@dataclass(frozen=True)
class SwitchDown(Spells):
    """A switch is dead, and all its links with it.

    Attributes:
        switch: Its name.
    """

    kind: ClassVar[str] = "switch-down"

    switch: str = field(metadata=f.text("switch", "Its name, as reports write it: `leaf 0`, `plane 1 spine 2`"))

    def effects(self, places: Places) -> Iterator[LinkRate]:
        """See `Fault`."""
        links = places.switch(self.switch)
        for spell in self.spells:
            yield LinkRate(links, 0.0, spell)


faults.add(SwitchDown.kind, SwitchDown)
