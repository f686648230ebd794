"""Base of all kinds of faults: when they occur, the places they name, and the registry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np

from railyard.kit.errors import InputError
from railyard.kit.registry import Registry
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Links = NDArray[np.int64]


@dataclass(frozen=True)
class Spell:
    """Start and end, ps; without an end, permanently."""

    begin_ps: int
    end_ps: int | None = None

    def holds(self, at_ps: int) -> bool:
        """Whether a time falls into it."""
        return self.begin_ps <= at_ps and (self.end_ps is None or at_ps < self.end_ps)


@dataclass(frozen=True, eq=False)
class LinkRate:
    """Directed links keep a share of their rate.

    Attributes:
        link: int64[], links.
        factor: From 0 (dead) to below 1.
    """

    link: NDArray[np.int64]
    factor: float
    spell: Spell


@dataclass(frozen=True, eq=False)
class LinkErrors:
    """A share of the bits on directed links is corrupted.

    Attributes:
        link: int64[], links.
        ratio: The share, 0 to 1.
    """

    link: NDArray[np.int64]
    ratio: float
    spell: Spell


@dataclass(frozen=True, eq=False)
class LinkSetting:
    """Switches at the ends of directed links are misconfigured during the entire run.

    Attributes:
        link: int64[], links.
        what: `pause`: the far end pauses its sender before it has to drop; `obey`: the sender obeys pauses; `mark`: the
            sender's queue marks; `headroom`: headroom of the far end, relative to what the link needs.
        kept: Share that is left of it: 0 (none) to 1.
    """

    link: NDArray[np.int64]
    what: Literal["pause", "obey", "mark", "headroom"]
    kept: float


@dataclass(frozen=True)
class RankSpeed:
    """A rank computes at a share of its speed."""

    rank: int
    factor: float
    spell: Spell


@dataclass(frozen=True)
class RankDelay:
    """The computation running on a rank at a time, or the next one, takes longer."""

    rank: int
    by_ps: int
    at_ps: int


@dataclass(frozen=True)
class RankDeath:
    """The processes of some ranks are gone, together with their memory."""

    ranks: tuple[int, ...]
    spell: Spell


Effect = LinkRate | LinkErrors | LinkSetting | RankSpeed | RankDelay | RankDeath


MOST_SPELLS = 10_000


class Places(Protocol):
    """Names of links, switches and hosts as numbers of directed links.

    Every method raises InputError for an unknown place and suggests the nearest name.
    """

    def link(self, number: int) -> Links:
        """One directed link by its number."""
        ...

    def tier(self, name: str) -> Links:
        """Both directions of all links of a tier."""
        ...

    def cable(self, ends: str, cables: int | Literal["all"] = 1, first: int = 0) -> Links:
        """Both directions of some of the cables between two nodes, `leaf 0 - spine 1`; see `some_cables`."""
        ...

    def switch(self, name: str) -> Links:
        """Both directions of all links of a switch."""
        ...

    def out_of(self, switch: str) -> Links:
        """Links that a switch sends over."""
        ...

    def nic(self, host: int, nic: int, port: int | None) -> Links:
        """Both directions of the links of a host's NIC, or of one of its ports."""
        ...

    def host(self, host: int) -> Links:
        """Both directions of all links of a host."""
        ...

    def ranks_of_host(self, host: int) -> tuple[int, ...]:
        """The ranks that run on a host."""
        ...

    def rank(self, rank: int) -> int:
        """The rank, if it exists."""
        ...

    def every_link(self) -> Links:
        """All links."""
        ...


class Fault(Protocol):
    """A fault: a frozen record of its keys, and its effects."""

    kind: ClassVar[str]

    def effects(self, places: Places) -> Iterator[Effect]:
        """Effects on links and ranks.

        Raises:
            InputError: It names an unknown place.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Spells:
    """When a fault is active: once or several times, for a while or permanently."""

    at_ps: int = field(default=0, metadata=f.time("at", "When it begins, from the start of the run", "20 ms"))
    for_ps: int | None = field(default=None, metadata=f.time("for", "How long it lasts; forever when left out", "5 s"))
    every_ps: int | None = field(
        default=None, metadata=f.time("every", "From one beginning to the next, of what flaps", "30 s")
    )
    times: int = field(
        default=1, metadata=f.count("times", "How often it comes, with `every`", bounds=limits(1, MOST_SPELLS))
    )

    def __post_init__(self) -> None:
        """Rejects impossible times."""
        expect(self.at_ps >= 0, "a fault begins before the run", "at", f"{self.at_ps} ps", "at least 0 s")
        expect(
            self.for_ps is None or self.for_ps > 0,
            "the duration of a fault must be above 0",
            "for",
            self.for_ps,
            "above 0 s",
        )
        expect(1 <= self.times <= MOST_SPELLS, "expected a number of times", "times", self.times, f"1 to {MOST_SPELLS}")
        if self.times == 1 and self.every_ps is None:
            return
        expect(self.every_ps is not None, "a repeated fault needs `every`", "every", None, "a time")
        expect(self.for_ps is not None, "a repeated fault needs `for`", "for", None, "a time")
        between = self.every_ps is not None and self.for_ps is not None and self.every_ps > self.for_ps
        expect(between, "it starts again before it ends", "every", self.every_ps, f"above {self.for_ps} ps")

    @property
    def spells(self) -> tuple[Spell, ...]:
        """Start and end of each occurrence, in order."""
        step = self.every_ps or 0
        begins = [self.at_ps + turn * step for turn in range(self.times)]
        return tuple(Spell(begin, None if self.for_ps is None else begin + self.for_ps) for begin in begins)

    def rates(self, links: Links, factor: float) -> Iterator[LinkRate]:
        """The links with that share of their rate, each time."""
        return (LinkRate(links, factor, spell) for spell in self.spells)


@dataclass(frozen=True, kw_only=True)
class OnCable(Spells):
    """A fault of a cable: one cable, unless more of the bundle between two nodes are given."""

    cables: int | Literal["all"] = field(
        default=1,
        metadata=f.how_many("cables", "How many of the cables between the two nodes, or `all`; one when left out"),
    )
    first: int = field(
        default=0, metadata=f.count("first", "The first of these cables, from 0, where several join the two nodes")
    )

    def links(self, places: Places, ends: str) -> Links:
        """Both directions of the cables."""
        return places.cable(ends, self.cables, self.first)

    def need_cable(self, cable: str | None) -> None:
        """Rejects a number of cables without a cable.

        Raises:
            InputError: There is a count but no cable.
        """
        if cable is None and (self.cables != 1 or self.first):
            key, found = ("first", self.first) if self.first else ("cables", self.cables)
            raise InputError(f"`{key}` is about a `cable`, and none is named", key=key, found=found)


def some_cables(forth: Links, back: Links, cables: int | Literal["all"], first: int) -> Links:
    """Both directions of some of the cables between two nodes.

    Args:
        forth: int64[n], links from one node to the other, one per cable.
        back: int64[n], links in the other direction, in the same order.
        cables: Number of cables.
        first: The first of them.

    Raises:
        InputError: There are fewer cables.
    """
    last = len(forth) - 1
    expect(0 <= first <= last, "fewer cables join the two nodes", "first", first, f"0 to {last}")
    count = len(forth) - first if cables == "all" else cables
    expect(
        1 <= count <= len(forth) - first,
        "fewer cables join the two nodes",
        "cables",
        cables,
        f"`all`, or 1 to {len(forth) - first}",
    )
    return np.sort(np.concatenate([forth[first : first + count], back[first : first + count]]))


def expect(holds: bool, message: str, key: str, found: object, allowed: str) -> None:
    """Rejects a key's value.

    Raises:
        InputError: `holds` is false.
    """
    if not holds:
        raise InputError(message, key=key, found=found, allowed=allowed)


faults: Registry[type[Fault]] = Registry("fault", package="railyard.cluster.fault")
