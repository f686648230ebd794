"""Ports of switches: how many are bought, how many have a link, how many are stranded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.topology.wiring import taken_bps

if TYPE_CHECKING:
    from railyard.cluster.plan import NetworkPlan


@dataclass(frozen=True)
class Ports:
    """Switches of one role and box.

    Attributes:
        role: `leaf`, `spine`, `core`, `router`, `border`.
        box: Catalogue name.
        count: Boxes.
        used: Ports with a link, of all boxes.
        free: Ports without, at the highest rate of their links: what the capacity that is left would make.
    """

    role: str
    box: str
    count: int
    used: int
    free: int

    @property
    def ports(self) -> int:
        """Ports that are bought."""
        return self.used + self.free

    @property
    def stranded(self) -> int:
        """Ports that are bought and empty."""
        return self.free


def ports_of(plan: NetworkPlan) -> list[Ports]:
    """A row for each role and box of a network; planes, rails and sites together."""
    wiring = plan.wiring
    line, back = np.unique(wiring.line_bps, return_inverse=True)
    rates = np.array([taken_bps(float(rate)) for rate in line])[back]
    found: dict[tuple[str, str], list[int]] = {}
    for group in wiring.groups:
        mine = (wiring.source >= group.first) & (wiring.source < group.first + group.count)
        used = int(np.count_nonzero(mine))
        box = plan.switches[group.box]
        capacity = group.count * (box.capacity_bps + box.fabric_bps)
        left = max(capacity - float(rates[mine].sum()), 0.0)
        free = math.floor(left / float(rates[mine].max()) * (1 + 1e-9)) if used else group.count * box.ports
        free = min(free, group.count * box.max_ports - used) if box.fabric_bps == 0 else free
        row = found.setdefault((group.role, group.box), [0, 0, 0])
        for place, number in enumerate((group.count, used, max(free, 0))):
            row[place] += number
    return [Ports(role, box, *numbers) for (role, box), numbers in found.items()]
