"""Weighted max-min sharing of links again, slow and plain: all flows together, filled from nothing at every event.

Written from the definition: the rates of all grow in proportion to their weights until a link is full, or a flow has
all that it asks for; who meets that stays at his rate, the others go on (Bertsekas and Gallager, Data Networks, 1992,
section 6.5.2). Time and rates are floating point numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class Flow:
    """Bits that join it at given times; they travel together, `uses[link]` bits on the wire for each."""

    uses: dict[int, float]
    joins: list[tuple[float, float]]  # s, bits; ascending
    weight: float = 1.0
    cap_bps: float = math.inf
    until_s: float = math.inf
    left: float = field(default=0.0, init=False)
    ends_s: float = field(default=math.nan, init=False)


def rates(links_bps: list[float], flows: list[Flow]) -> list[float]:
    """Max-min fair rates of flows that all have something to send."""
    found = [0.0] * len(flows)
    growing = set(range(len(flows)))
    while growing:
        # level at which each link is full and each flow has what it asks for
        full = {}
        for link, rate in enumerate(links_bps):
            width = sum(flows[i].uses.get(link, 0.0) * flows[i].weight for i in growing)
            if width > 0:
                taken = sum(flows[i].uses.get(link, 0.0) * found[i] for i in range(len(flows)) if i not in growing)
                full[link] = max(0.0, rate - taken) / width
        link = min(full, key=lambda one: full[one])
        level = full[link]
        capped = {i for i in growing if flows[i].cap_bps <= level * flows[i].weight}
        if capped:
            lowest = min(flows[i].cap_bps / flows[i].weight for i in capped)
            stay = {i for i in capped if flows[i].cap_bps / flows[i].weight == lowest}
            level = lowest
        else:
            stay = {i for i in growing if link in flows[i].uses}
        for i in stay:
            found[i] = level * flows[i].weight
        growing -= stay
    return found


def run(links_bps: list[float], flows: list[Flow], end_s: float) -> list[float]:
    """Sets `ends_s` of each flow, when nothing of it is left; returns the bytes of each link until `end_s`."""
    wire = [0.0] * len(links_bps)
    coming = [list(one.joins) for one in flows]
    now = 0.0
    while now < end_s:
        for one, joins in zip(flows, coming, strict=True):
            while joins and joins[0][0] <= now:
                one.left += joins.pop(0)[1]
                one.ends_s = now  # unless something is left
            if one.until_s <= now:
                one.left = 0.0
        active = [one for one in flows if one.left > 0]
        speed = rates(links_bps, active)
        ends = [now + one.left / rate for one, rate in zip(active, speed, strict=True)]
        over = [one.until_s for one in active]
        step = min([end_s, *ends, *over, *(joins[0][0] for joins in coming if joins)])
        for one, rate, end in zip(active, speed, ends, strict=True):
            moved = one.left if end == step else rate * (step - now)
            for link, share in one.uses.items():
                wire[link] += share * moved / 8
            one.left = 0.0 if end == step else one.left - moved
            if one.left == 0:
                one.ends_s = step
        now = step
    return wire
