"""When kinds of parts arrive, what can be built by then, and which of them the first job waits for.

The lead of a part is lognormal. A rack can be built when what stands in it is there: servers, switches, storage; and
the cables that are pulled from it. What is there is built first, in the order of racks. A part is *critical* in a draw
where its absence costs the first job the most days: the same draw is played once more with that part there from the
first day.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.ask.bring_up.site import Site

Z90 = 1.2815515655446004
"""Standard normal quantile of 90 %."""

PARTS = ("servers", "switches", "cables", "storage")


@dataclass(frozen=True)
class Lead:
    """When a kind of part arrives.

    Attributes:
        part: Of `PARTS`.
        median_d: Days from the first day of work.
        p90_d: The same, nine in ten.
    """

    part: str
    median_d: float
    p90_d: float

    def drawn_d(self, normal: float) -> float:
        """Of a standard normal draw."""
        if self.median_d == 0:
            return 0.0
        return self.median_d * math.exp(math.log(self.p90_d / self.median_d) / Z90 * normal)


def check(leads: Sequence[Lead]) -> None:
    """Refuses parts that stand twice and ends that are not in order.

    Raises:
        InputError: With the key in `bring_up`.
    """
    names = [lead.part for lead in leads]
    for number, lead in enumerate(leads):
        key = f"bring_up.parts.{number}"
        if names.index(lead.part) != number:
            raise InputError("this part stands twice", key=f"{key}.part", found=lead.part)
        if lead.p90_d < lead.median_d or (lead.p90_d > 0 and lead.median_d == 0):
            raise InputError(
                "nine in ten arrive later than half do",
                key=f"{key}.lead_p90",
                found=f"{lead.p90_d:g} d",
                allowed=f"at least the {lead.median_d:g} d of half of them, which are more than none",
            )


def drawn(leads: Sequence[Lead], seed: tuple[int, int]) -> dict[str, float]:
    """Days on which parts arrive in one draw; each part's draw is its own, whatever the others are."""
    days = {}
    for lead in leads:
        random = np.random.default_rng((*seed, 1 + PARTS.index(lead.part)))
        days[lead.part] = lead.drawn_d(float(random.standard_normal()))
    return days


@dataclass(frozen=True, eq=False)
class Arrivals:
    """An order of racks with what is there when.

    Attributes:
        order: Racks, those first that can be built first.
        built_d: float64[racks], day from which the rack at each place can be built.
        there_d: float64[racks], day on which what stands in it is there.
    """

    order: list[int]
    built_d: NDArray[np.float64]
    there_d: NDArray[np.float64]


def arrivals(site: Site, order: Sequence[int], delivered_d: NDArray[np.float64], days: dict[str, float]) -> Arrivals:
    """What can be built when.

    Args:
        site: The racks.
        order: Of the racks.
        delivered_d: float64[racks], when the empty rack at each place is there.
        days: When parts arrive; those that are not named come with the racks.
    """
    racks = np.asarray(order)
    servers, level = site.servers[racks] > 0, site.level[racks] > 0
    inside = np.where(servers, days.get("servers", 0.0), 0.0)
    inside = np.maximum(inside, np.where(level, days.get("switches", 0.0), 0.0))
    inside = np.maximum(inside, np.where(~servers & ~level, days.get("storage", 0.0), 0.0))
    there = np.maximum(delivered_d, inside)
    built = np.maximum(there, np.where(site.cables[racks] > 0, days.get("cables", 0.0), 0.0))
    first = np.argsort(built, kind="stable")
    return Arrivals(racks[first].tolist(), built[first], there[first])
