"""Symptoms in terms of an inferred design: which tables of which block they change, and who waits or stands idle."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from railyard.ask.audit.loads import Change, Move

if TYPE_CHECKING:
    from railyard.ask.audit.infer import Design
    from railyard.cluster.asbuilt.discovery import Discovery


@dataclass(frozen=True)
class Symptom:
    """A finding and what it does.

    Attributes:
        finding: What is wrong, unpriced but for `slower` and `idle`.
        cables: Cables as found, by number, and what they have of their rate; 0: they carry nothing.
    """

    finding: Finding
    cables: tuple[tuple[int, float], ...] = ()
    part: float = 1.0


class Places:
    """Rows and columns of devices in the blocks of a design."""

    def __init__(self, design: Design) -> None:
        self.at: dict[tuple[int, str], dict[int, int]] = {}
        for number, block in enumerate(design.blocks):
            for side, listed in (("low", block.low), ("high", block.high)):
                for place, device in enumerate(listed.tolist()):
                    self.at.setdefault((device, side), {})[number] = place

    def change(self, one: int, other: int, cables: int, speed: float) -> tuple[int, Change] | None:
        """The block of two devices, and what changes there; None where no block joins them."""
        for low, high in ((one, other), (other, one)):
            lows, highs = self.at.get((low, "low"), {}), self.at.get((high, "high"), {})
            both = lows.keys() & highs.keys()
            if both:
                number = min(both)
                return number, Change(lows[number], highs[number], cables, speed)
        return None

    def move(self, host: int, leaf: int, to: int) -> tuple[int, Move] | None:
        """The block of two leafs, and a host's port that moves from one to the other; None where no block has both."""
        lows, others = self.at.get((leaf, "low"), {}), self.at.get((to, "low"), {})
        both = lows.keys() & others.keys()
        return (min(both), Move(host, lows[min(both)], others[min(both)])) if both else None


def placed(found: Discovery, places: Places, symptom: Symptom) -> Finding:
    """The finding of a symptom, ready to be priced."""
    finding = symptom.finding
    slower, idle = finding.slower, finding.idle
    changes: dict[int, list[Change]] = {}
    for cable, share in symptom.cables:
        one, other = found.ends[cable].tolist()
        if found.host[one] or found.host[other]:
            slower, idle = (max(slower, 1.0 / share), idle) if share else (slower, idle + 1.0)
            continue
        change = places.change(one, other, 0 if share else -1, share or 1.0)
        if change is not None:
            changes.setdefault(change[0], []).append(change[1])
    block = Counter({number: len(listed) for number, listed in changes.items()}).most_common(1)
    number = block[0][0] if block else -1
    return replace(
        finding,
        slower=slower,
        idle=idle,
        part=symptom.part,
        block=number,
        changes=tuple(changes.get(number, ())),
    )


What = Literal["pause", "mark", "headroom"]


@dataclass(frozen=True)
class Setting:
    """Ports of a switch that do otherwise than the fabric needs.

    Attributes:
        ports: Its wrong ports, by name; empty: all.
        what: `pause`: they neither pause nor obey; `mark`: their queues mark nothing; `headroom`: of what may still
            come after a pause they hold `kept`.
        kept: 0 to 1.
        below, above: Shares of its ports to what is below it, and to what is above it, that are wrong.
    """

    device: str
    ports: tuple[str, ...]
    what: What
    kept: float
    leaf: bool
    below: float = 1.0
    above: float = 1.0


KINDS = {
    "missing": "a cable of the design is not there, or is dead",
    "missing-switch": "a switch of the design is not there, nor any of its cables",
    "missing-host": "a host of the design is not there, nor any of its cables",
    "extra": "a cable that the design does not have",
    "misplaced": "one end of a cable is in the wrong switch",
    "swapped": "two cables have their ends exchanged",
    "degraded": "a cable runs slower than its like",
    "wrong-speed": "a cable runs faster or slower than planned",
    "mislabelled": "the right devices, but not the planned ports",
    "wrong-length": "a cable is not as long as planned",
    "wrong-mtu": "the two ends, or most others, take other frames",
    "duplicate-guid": "two devices have one GUID",
    "duplicate-address": "two devices have one MAC address",
    "duplicate-name": "two devices have one name",
    "unknown-neighbour": "a device that the plan does not have",
    "ecmp": "a switch does not use all of its equal-cost paths to some prefixes",
    "errors": "a port counts errors of the cable",
    "flapping": "a link went down several times",
    "session-down": "a routing session over a cable that is there is not established",
    "no-route": "forwarding tables do not lead to some destinations",
    "unbalanced": "forwarding tables load cables unequally",
    "wrong-qos": "queues, pauses or marks are not as planned, or as those of most others",
    "wrong-setting": "a switch runs something else than planned",
    "missing-part": "a host has fewer accelerators or NICs",
    "link-down": "a port of a host has no link",
    "firmware": "another version than that of most",
}


@dataclass(frozen=True)
class Finding:
    """A fault.

    Attributes:
        kind: One of `KINDS`.
        a, b: Ends of the cable, as the file names them, with ports in brackets; `?` where a port is not known.
        block: Number of the block in which it changes the tables; -1: none.
        slower: Factor on the time of all communication of those who wait for it, besides the tables.
        loss: Share of the accelerators' time that it costs by itself, or of the cluster's price where the parts that
            are absent cost more; from 0 to 1.
        worst_load: Flows on the fullest cable of the worst shift permutation, with this fault alone.
        all_reduce: Time of an all-reduce by recursive halving and doubling with it over that without.
        step_s: Step of the scenario with this fault alone; None without a scenario.
        band: Least and most of the loss, where it is one; None: what is given is simulated exactly.
        priced_by: Engine and load behind the price, where it is not the audit's usual one.
        unpriced: Why it has no price; its loss is then not 0 but unknown.
    """

    kind: str
    a: str
    b: str
    detail: str = ""
    other: tuple[str, str] | None = None
    block: int = -1
    changes: tuple[Change | Move, ...] = ()
    slower: float = 1.0
    idle: float = 0.0
    part: float = 1.0
    loss: float = 0.0
    usd_per_month: float = 0.0
    worst_load: float = 1.0
    all_reduce: float = 1.0
    step_s: float | None = field(default=None)
    settings: tuple[Setting, ...] = ()
    band: tuple[float, float] | None = None
    priced_by: str = ""
    unpriced: str = ""
