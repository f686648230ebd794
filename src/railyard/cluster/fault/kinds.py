"""Faults that take something down for a while, and those that leave it slow, late, or wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from railyard.cluster.fault.fault import (
    LinkErrors,
    LinkRate,
    LinkSetting,
    OnCable,
    RankDeath,
    RankDelay,
    RankSpeed,
    Spells,
    expect,
    faults,
)
from railyard.kit.errors import InputError
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import SOME_SHARE, Bounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster.fault.fault import Links, Places


@dataclass(frozen=True)
class BitErrors(OnCable):
    """A share of the bits on a cable, or on every link, is corrupted; packets are lost or retransmitted by the link."""

    kind: ClassVar[str] = "bit-errors"

    ratio: float = field(metadata=f.fraction("ratio", "Part of the bits that arrives wrong, such as 1e-9"))
    cable: str | None = field(
        default=None, metadata=f.text("cable", "Two nodes, both directions between them; every link when left out")
    )

    def __post_init__(self) -> None:
        """Rejects an invalid error ratio."""
        super().__post_init__()
        self.need_cable(self.cable)
        expect(0 <= self.ratio <= 1, "expected a part of all bits", "ratio", self.ratio, "0 to 1")

    def effects(self, places: Places) -> Iterator[LinkErrors]:
        """See `Fault`."""
        links = places.every_link() if self.cable is None else self.links(places, self.cable)
        for spell in self.spells:
            yield LinkErrors(links, self.ratio, spell)


faults.add(BitErrors.kind, BitErrors)


@dataclass(frozen=True)
class DegradeLink(OnCable):
    """A link, a cable, or all links of a tier carry less than their rate."""

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
        """Rejects a factor that is not a degradation, and several places at once."""
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
        return self.rates(self._place(places), self.factor)

    def _place(self, places: Places) -> Links:
        if self.link is not None:
            return places.link(self.link)
        return self.links(places, self.cable) if self.cable is not None else places.tier(str(self.tier))


faults.add(DegradeLink.kind, DegradeLink)


@dataclass(frozen=True)
class Late:
    """One rank reaches its next task late by a given time."""

    kind: ClassVar[str] = "late"

    rank: int = field(metadata=f.count("rank", "The rank"))
    by_ps: int = field(metadata=f.time("by", "How late", "20 us"))
    at_ps: int = field(
        default=0,
        metadata=f.time("at", "From when on; the computation that runs then, or the next one, takes longer", "20 ms"),
    )

    def __post_init__(self) -> None:
        """Rejects impossible times."""
        expect(self.by_ps >= 0, "a rank cannot be early", "by", self.by_ps, "at least 0 ps")
        expect(self.at_ps >= 0, "a fault begins before the run", "at", self.at_ps, "at least 0 ps")

    def effects(self, places: Places) -> Iterator[RankDelay]:
        """See `Fault`."""
        yield RankDelay(places.rank(self.rank), self.by_ps, self.at_ps)


faults.add(Late.kind, Late)


@dataclass(frozen=True)
class MisconfiguredSwitch:
    """Switch ports are misconfigured for a fabric that pauses, from the start on (packets only)."""

    kind: ClassVar[str] = "misconfigured"

    switch: str = field(metadata=f.text("switch", "Its name, as reports write it: `leaf 0`, `plane 1 spine 2`"))
    towards: str | None = field(
        default=None, metadata=f.text("towards", "Only its ports to this node, such as `spine 1`; all when left out")
    )
    pauses: bool = field(default=True, metadata=f.flag("pauses", "Whether it sends pauses and obeys them there"))
    marks: bool = field(default=True, metadata=f.flag("marks", "Whether its queues mark there"))
    headroom: float = field(
        default=1.0, metadata=f.fraction("headroom", "Of what its ports need to hold after a pause: 0 to 1")
    )

    def __post_init__(self) -> None:
        """Rejects settings that are not a fault."""
        expect(0 <= self.headroom <= 1, "expected a part of the headroom", "headroom", self.headroom, "0 to 1")
        if self.pauses and self.marks and self.headroom == 1.0:
            allowed = "`pauses: false`, `marks: false` or `headroom` below 1"
            raise InputError("the fault changes nothing", key="switch", found=self.switch, allowed=allowed)

    def effects(self, places: Places) -> Iterator[LinkSetting]:
        """See `Fault`."""
        mine = places.switch(self.switch)
        if self.towards is not None:
            mine = np.intersect1d(mine, places.cable(f"{self.switch} - {self.towards}", "all"))
        out = np.intersect1d(mine, places.out_of(self.switch))
        into = np.setdiff1d(mine, out)
        if not self.pauses:
            yield LinkSetting(into, "pause", 0.0)
            yield LinkSetting(out, "obey", 0.0)
        if not self.marks:
            yield LinkSetting(out, "mark", 0.0)
        if self.headroom < 1.0:
            yield LinkSetting(into, "headroom", self.headroom)


faults.add(MisconfiguredSwitch.kind, MisconfiguredSwitch)


@dataclass(frozen=True)
class SlowAccelerator(Spells):
    """One accelerator computes slower than nominal; a running computation slows down from then on."""

    kind: ClassVar[str] = "slow-accelerator"

    rank: int = field(metadata=f.count("rank", "The rank"))
    factor: float = field(
        metadata=f.fraction(
            "factor", "Speed as a share of the nominal speed; 0.8 takes 1.25 times as long", bounds=SOME_SHARE
        )
    )

    def __post_init__(self) -> None:
        """Rejects a factor that is not a slowdown."""
        super().__post_init__()
        message = "a slow accelerator has some of its speed, and not all of it"
        expect(0 < self.factor < 1, message, "factor", self.factor, "above 0 and below 1, such as 50 %")

    def effects(self, places: Places) -> Iterator[RankSpeed]:
        """See `Fault`."""
        rank = places.rank(self.rank)
        for spell in self.spells:
            yield RankSpeed(rank, self.factor, spell)


faults.add(SlowAccelerator.kind, SlowAccelerator)


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
