"""`nic-down`: a NIC, or one port of it, is dead for a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.cluster.fault.fault import LinkRate, Spells, faults
from railyard.kit.schema import field as f

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster.fault.fault import Places


@dataclass(frozen=True)
class NicDown(Spells):
    """A NIC of a host is dead, or one of its ports: the other ports carry on.

    Attributes:
        host: The host, counted as ranks are.
        nic: Which of its NICs.
        port: Which port of a NIC that has several (planes, dual ToR); None: all.
    """

    kind: ClassVar[str] = "nic-down"

    host: int = field(metadata=f.count("host", "The host, counted as ranks are"))
    nic: int = field(default=0, metadata=f.count("nic", "Which of its NICs, from 0"))
    port: int | None = field(
        default=None, metadata=f.count("port", "Which port of a NIC with several (planes, dual ToR); all when left out")
    )

    def effects(self, places: Places) -> Iterator[LinkRate]:
        """See `Fault`."""
        links = places.nic(self.host, self.nic, self.port)
        for spell in self.spells:
            yield LinkRate(links, 0.0, spell)


faults.add(NicDown.kind, NicDown)
