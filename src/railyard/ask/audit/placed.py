"""Symptoms in terms of an inferred design: which tables of which block they change, and who waits or stands idle."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from railyard.ask.audit.loads import Change, Move

if TYPE_CHECKING:
    from railyard.ask.audit.design.infer import Design
    from railyard.ask.audit.evidence.symptom import Symptom
    from railyard.ask.audit.finding import Finding
    from railyard.ask.audit.network import Found


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


def placed(found: Found, places: Places, symptom: Symptom) -> Finding:
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
