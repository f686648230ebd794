"""Faults that take something down for a while: a cable, a switch, a NIC, a host, an accelerator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.cluster.fault.fault import LinkRate, OnCable, RankDeath, Spells, expect, faults
from railyard.kit.schema import field as f

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster.fault.fault import Places


@dataclass(frozen=True)
class AcceleratorDown(Spells):
    """An accelerator dies with the process on it; its host and its NIC stay healthy."""

    kind: ClassVar[str] = "accelerator-down"

    rank: int = field(metadata=f.count("rank", "The rank that runs on it"))

    def effects(self, places: Places) -> Iterator[RankDeath]:
        """See `Fault`."""
        ranks = (places.rank(self.rank),)
        for spell in self.spells:
            yield RankDeath(ranks, spell)


faults.add(AcceleratorDown.kind, AcceleratorDown)


@dataclass(frozen=True)
class HostDown(Spells):
    """A host dies, with its accelerators, their processes, and its links."""

    kind: ClassVar[str] = "host-down"

    host: int = field(metadata=f.count("host", "The host, counted as ranks are"))

    def effects(self, places: Places) -> Iterator[LinkRate | RankDeath]:
        """See `Fault`."""
        links, ranks = places.host(self.host), places.ranks_of_host(self.host)
        for spell in self.spells:
            yield RankDeath(ranks, spell)
            yield LinkRate(links, 0.0, spell)


faults.add(HostDown.kind, HostDown)


@dataclass(frozen=True)
class LinkDown(OnCable):
    """A cable is down; with `every` it flaps."""

    kind: ClassVar[str] = "link-down"

    cable: str = field(metadata=f.text("cable", "Two nodes, both directions between them: `leaf 0 - spine 1`"))

    def effects(self, places: Places) -> Iterator[LinkRate]:
        """See `Fault`."""
        return self.rates(self.links(places, self.cable), 0.0)


faults.add(LinkDown.kind, LinkDown)


@dataclass(frozen=True)
class NicDown(Spells):
    """A NIC of a host is down, or one of its ports while the others keep working."""

    kind: ClassVar[str] = "nic-down"

    host: int = field(metadata=f.count("host", "The host, counted as ranks are"))
    nic: int = field(default=0, metadata=f.count("nic", "Which of its NICs, from 0"))
    port: int | None = field(
        default=None, metadata=f.count("port", "Which port of a NIC with several (planes, dual ToR); all when left out")
    )

    def effects(self, places: Places) -> Iterator[LinkRate]:
        """See `Fault`."""
        return self.rates(places.nic(self.host, self.nic, self.port), 0.0)


faults.add(NicDown.kind, NicDown)


@dataclass(frozen=True)
class SwitchDown(Spells):
    """A switch is down, with all its links."""

    kind: ClassVar[str] = "switch-down"

    switch: str = field(metadata=f.text("switch", "Its name, as reports write it: `leaf 0`, `plane 1 spine 2`"))

    def effects(self, places: Places) -> Iterator[LinkRate]:
        """See `Fault`."""
        return self.rates(places.switch(self.switch), 0.0)


faults.add(SwitchDown.kind, SwitchDown)


@dataclass(frozen=True)
class Reconfiguration(Spells):
    """Optical circuit switches make other circuits: all links of the tier are dark, then they are as before."""

    kind: ClassVar[str] = "reconfiguration"

    tier: str = field(default="circuit", metadata=f.text("tier", "The tier of the circuits"))

    def __post_init__(self) -> None:
        """Rejects one that does not end."""
        super().__post_init__()
        expect(
            self.for_ps is not None, "circuits come back", "for", None, "a time: that of the switch and of the links"
        )

    def effects(self, places: Places) -> Iterator[LinkRate]:
        """See `Fault`."""
        return self.rates(places.tier(self.tier), 0.0)


faults.add(Reconfiguration.kind, Reconfiguration)
