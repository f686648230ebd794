"""One thing that is wrong, where, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.ask.audit.loads import Change, Move
    from railyard.ask.audit.settings.setting import Setting

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
        detail: In words.
        other: Ends of the second cable of a swap.
        block: Number of the block in which it changes the tables; -1: none.
        changes: What it changes there.
        slower: Factor on the time of all communication of those who wait for it, besides the tables.
        idle: Accelerators that it leaves without a network.
        part: Of the traffic that it concerns.
        loss: Share of the accelerators' time that it costs by itself, or of the cluster's price where the parts that
            are absent cost more; from 0 to 1.
        usd_per_month: The same in dollars.
        worst_load: Flows on the fullest cable of the worst shift permutation, with this fault alone.
        all_reduce: Time of an all-reduce by recursive halving and doubling with it over that without.
        step_s: Step of the scenario with this fault alone; None without a scenario.
        settings: Of a switch, which packets are played with.
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
