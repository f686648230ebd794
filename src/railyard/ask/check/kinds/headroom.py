"""`headroom holds at 300 m`: with every cable of the back-end at least so long, what arrives after a pause fits.

By the law that rendered configurations follow (`deploy.emit.intent`): that of the ASIC in SONiC, as buffer taken when
all packets are small, not as bytes on the cable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np

from railyard.ask.check.assertion import AssertionOutcome, assertions, rounded
from railyard.ask.deploy.emit.intent import asic_of, headroom
from railyard.cluster.credits import HEADROOM_SHARE
from railyard.cluster.names import node_name
from railyard.kit import quantities
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.ask.check.assertion import CheckSubject
    from railyard.ask.deploy.emit.intent import Asic
    from railyard.cluster import Cluster
    from railyard.cluster.plan import NetworkPlan
    from railyard.cluster.topology.wiring import Wiring

_FORM = re.compile(r"headroom holds at (.+)", re.IGNORECASE)


class PortHeadroom(NamedTuple):
    """Headroom of the switch that has least to spare.

    Attributes:
        needed_bytes: Of all its links, or of one where the fabric gives each so much.
        law: Chip whose figures say what is needed; another one where those of its own are not public.
    """

    where: str
    needed_bytes: float
    had_bytes: float
    chip: str
    law: str


@dataclass(frozen=True)
class HeadroomHolds:
    """Headroom for cables of some length.

    Attributes:
        length_m: Least length of every cable; longer ones count as they are.
    """

    forms: ClassVar[tuple[str, ...]] = ("headroom holds at 300 m",)

    length_m: float

    @classmethod
    def read(cls, text: str) -> Self:
        """See `Assertion`."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise InputError(f"`{text}` lacks the cable length", found=text, allowed=f"`{cls.forms[0]}`")
        return cls(quantities.length(found[1]))

    def check(self, subject: CheckSubject) -> None:
        """See `Assertion`."""
        fabric, network = subject.cluster.fabric, subject.cluster.back_end
        if not fabric.pauses:
            raise InputError(f"the fabric `{fabric.name}` does not pause: it needs no headroom", found=fabric.name)
        if not network.wiring.groups:
            raise InputError("the back-end has no switch that pauses", found=network.topology)

    def judge(self, subject: CheckSubject) -> AssertionOutcome:
        """See `Assertion`."""
        cluster, fabric = subject.cluster, subject.cluster.fabric
        room = tightest(cluster, self.length_m)
        each = " a link" if fabric.headroom_bytes else ""
        found = (
            f"{room.where} needs {rounded(quantities.format_size, room.needed_bytes)}{each}"
            f" and has {rounded(quantities.format_size, room.had_bytes)}, by SONiC's law for {room.law}"
        )
        other = "" if room.law == room.chip else f"figures of {room.chip} are not public: those of {room.law} are used"
        return AssertionOutcome(found, room.needed_bytes <= room.had_bytes, other)


def tightest(cluster: Cluster, length_m: float) -> PortHeadroom:
    """The switch with the largest share of its headroom needed.

    Where the fabric says how much a link has, that is compared link by link; else the headroom of all links into a
    switch together with the share of its buffer that headroom may take. One lossless class.
    """
    plan, network = cluster.plans["back_end"], cluster.back_end
    target = network.wiring.target
    given = plan.fabric.headroom_bytes
    rooms = []
    for group in network.wiring.groups:
        box = plan.switches[group.box]
        asic, law = asic_of(box)
        into = np.flatnonzero((target >= group.first) & (target < group.first + group.count))
        needed, node = _needed(plan, network.wiring, into, asic, length_m), target[into] - group.first
        if given:
            at = int(np.argmax(needed))
            most, had, worst = float(needed[at]), float(given), int(node[at])
        else:
            total = np.bincount(node, needed, minlength=group.count)
            worst = int(np.argmax(total))
            most, had = float(total[worst]), HEADROOM_SHARE * box.buffer_bytes
        where = node_name(cluster, network.node_offset + group.first + worst)
        rooms.append(PortHeadroom(where, most, had, box.chip, law))
    return max(rooms, key=lambda room: room.needed_bytes / room.had_bytes if room.had_bytes else np.inf)


def _needed(
    plan: NetworkPlan, wiring: Wiring, into: NDArray[np.int64], asic: Asic, length_m: float
) -> NDArray[np.float64]:
    """float64[links], bytes that may still come into switches of one kind over each of their links after a pause."""
    links = np.stack([wiring.tier[into], wiring.line_bps[into]])
    kinds, kind = np.unique(links, axis=1, return_inverse=True)
    xoff = [
        headroom(rate, max(length_m, plan.runs[int(tier)].length_m), asic=asic).xoff for tier, rate in kinds.T.tolist()
    ]
    return np.array(xoff, np.float64)[kind.ravel()]


assertions.add("headroom", HeadroomHolds)
