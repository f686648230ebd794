"""A plan as racks that are built one after another, and what each needs before it earns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.ask.deploy.cabling import Plan


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


@dataclass(frozen=True, eq=False)
class Site:
    """Racks of a plan.

    Attributes:
        servers: int64[racks], servers that stand in each.
        accelerators: Of a server.
        cables: int64[racks], cables whose lower end is in each: who builds the rack pulls them.
        level: int64[racks], highest tier of what stands there: 0 of servers and storage.
        near: Of each rack the others whose switches its servers are cabled to: without them no burn-in.
        far: Of each rack those whose switches these lead to: without them no job beyond a leaf.
        place: int64[racks], order in the hall, row by row.
    """

    servers: NDArray[np.int64]
    accelerators: int
    cables: NDArray[np.int64]
    level: NDArray[np.int64]
    near: tuple[tuple[int, ...], ...]
    far: tuple[tuple[int, ...], ...]
    place: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.servers)


def site_of(plan: Plan) -> Site:
    """The racks of a plan."""
    racks, rows, level = plan.racks, plan.cables, plan.devices.level.astype(np.int64)
    count = len(racks)
    a, b = racks.rack[rows.a], racks.rack[rows.b]
    highest = np.zeros(count, np.int64)
    np.maximum.at(highest, racks.rack, level)
    own = level[rows.a] == 0
    near = _joined(count, a[own], b[own])
    above = _joined(count, a[~own], b[~own])
    place = np.empty(count, np.int64)
    place[np.lexsort((racks.floor.column, racks.floor.row))] = np.arange(count)
    return Site(
        servers=np.bincount(racks.rack[: plan.devices.servers], minlength=count),
        accelerators=plan.cluster.ranks_per_server,
        cables=np.bincount(a, minlength=count),
        level=highest,
        near=near,
        far=tuple(tuple({far for one in those for far in above[one]} - set(those)) for those in near),
        place=place,
    )


def _joined(count: int, a: NDArray[np.int32], b: NDArray[np.int32]) -> tuple[tuple[int, ...], ...]:
    """Of each rack the other racks that cables lead to from it."""
    found: list[list[int]] = [[] for _ in range(count)]
    pairs = np.unique(np.stack([a, b])[:, a != b], axis=1)
    for one, other in pairs.T.tolist():
        found[one].append(other)
    return tuple(map(tuple, found))


def order_of(site: Site, name: str) -> list[int]:
    """Racks in the order in which they are built.

    Args:
        site: The racks.
        name: `blocks`, `network-first`, `rows` or `servers-first`.
    """
    place, network = site.place.tolist(), (site.servers == 0).tolist()
    racks = range(len(site))
    if name == "rows":
        return sorted(racks, key=place.__getitem__)
    if name in ("network-first", "servers-first"):
        first = name == "network-first"
        return sorted(racks, key=lambda rack: (network[rack] != first, -site.level[rack], place[rack]))
    return _blocks(site, sorted((rack for rack in racks if not network[rack]), key=place.__getitem__))


def _blocks(site: Site, servers: Sequence[int]) -> list[int]:
    """Before each rack of servers what it needs and is not there yet; racks that nothing needs come last."""
    out: dict[int, None] = {}
    for rack in servers:
        needed = (*site.far[rack], *site.near[rack])
        out |= dict.fromkeys(sorted(needed, key=lambda one: (-site.level[one], site.place[one])))
        out[rack] = None
    out |= dict.fromkeys(sorted(range(len(site)), key=site.place.__getitem__))
    return list(out)
