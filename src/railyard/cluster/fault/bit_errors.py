"""`bit-errors`: bits arrive wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.cluster.fault.fault import LinkErrors, OnCable, expect, faults
from railyard.kit.schema import field as f

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster.fault.fault import Places


@dataclass(frozen=True)
class BitErrors(OnCable):
    """A part of the bits on a cable, or on every link, arrives wrong; packets are lost or sent again by the link.

    Attributes:
        ratio: Which part of the bits.
        cable: Two nodes, both directions between them; None: every link.
    """

    kind: ClassVar[str] = "bit-errors"

    ratio: float = field(metadata=f.fraction("ratio", "Part of the bits that arrives wrong, such as 1e-9"))
    cable: str | None = field(
        default=None, metadata=f.text("cable", "Two nodes, both directions between them; every link when left out")
    )

    def __post_init__(self) -> None:
        """Refuses a part that is none."""
        super().__post_init__()
        self.need_cable(self.cable)
        expect(0 <= self.ratio <= 1, "expected a part of all bits", "ratio", self.ratio, "0 to 1")

    def effects(self, places: Places) -> Iterator[LinkErrors]:
        """See `Fault`."""
        links = places.every_link() if self.cable is None else self.links(places, self.cable)
        for spell in self.spells:
            yield LinkErrors(links, self.ratio, spell)


faults.add(BitErrors.kind, BitErrors)
