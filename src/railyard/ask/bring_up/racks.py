"""One draw of how a cluster is built: crews, racks, repairs and burn-in as events.

A crew takes a waiting repair, else the next lot of cables of the order once its rack is delivered; nobody overtakes. A
lot is a shift's cables of one rack, so that several crews cable a rack of many; the first sets it up. With an audit the
crew that finishes a rack fixes its wrong cables at once. Without one they show when burn-in ends, wait for a crew, and
burn-in runs again; those of a rack of switches show a burn-in's time after it was cabled. Servers that fail burn-in are
replaced, and their own burn-in runs again. Times are in days of the calendar.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.ask.deploy.cabling import CablingPlan


Z90 = 1.2815515655446004
"""Standard normal quantile of 90 %."""

PARTS = ("servers", "switches", "cables", "storage")


@dataclass(frozen=True)
class Lead:
    """When a kind of part arrives.

    Attributes:
        median_d: Days from the first day of work.
    """

    part: str
    median_d: float
    p90_d: float

    def drawn_d(self, normal: float) -> float:
        """Days until the part arrives, by a standard normal draw."""
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
            raise InputError("this part is listed twice", key=f"{key}.part", found=lead.part)
        if lead.p90_d < lead.median_d or (lead.p90_d > 0 and lead.median_d == 0):
            raise InputError(
                "the 90th percentile must be later than the median",
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
class RackArrivals:
    """An order of racks with what is there when.

    Attributes:
        order: Racks, those first that can be built first.
        built_d: float64[racks], day from which the rack at each place can be built.
        there_d: float64[racks], day on which the equipment of each rack has arrived.
    """

    order: list[int]
    built_d: NDArray[np.float64]
    there_d: NDArray[np.float64]


def arrivals(
    site: RackSite, order: Sequence[int], delivered_d: NDArray[np.float64], days: dict[str, float]
) -> RackArrivals:
    """Days on which racks can be built."""
    racks = np.asarray(order)
    servers, level = site.servers[racks] > 0, site.level[racks] > 0
    inside = np.where(servers, days.get("servers", 0.0), 0.0)
    inside = np.maximum(inside, np.where(level, days.get("switches", 0.0), 0.0))
    inside = np.maximum(inside, np.where(~servers & ~level, days.get("storage", 0.0), 0.0))
    there = np.maximum(delivered_d, inside)
    built = np.maximum(there, np.where(site.cables[racks] > 0, days.get("cables", 0.0), 0.0))
    first = np.argsort(built, kind="stable")
    return RackArrivals(racks[first].tolist(), built[first], there[first])


@dataclass(frozen=True, eq=False)
class RackSite:
    """Racks of a plan.

    Attributes:
        servers: int64[racks], servers in each.
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


def site_of(plan: CablingPlan) -> RackSite:
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
    return RackSite(
        servers=np.bincount(racks.rack[: plan.devices.servers], minlength=count),
        accelerators=plan.cluster.ranks_per_server,
        cables=np.bincount(a, minlength=count),
        level=highest,
        near=near,
        far=tuple(tuple({far for one in those for far in above[one]} - set(those)) for those in near),
        place=place,
    )


def _joined(count: int, a: NDArray[np.int32], b: NDArray[np.int32]) -> tuple[tuple[int, ...], ...]:
    """For each rack, the racks that cables lead to."""
    found: list[list[int]] = [[] for _ in range(count)]
    pairs = np.unique(np.stack([a, b])[:, a != b], axis=1)
    for one, other in pairs.T.tolist():
        found[one].append(other)
    return tuple(map(tuple, found))


def order_of(site: RackSite, name: str) -> list[int]:
    """Racks in the order in which they are built."""
    place, network = site.place.tolist(), (site.servers == 0).tolist()
    racks = range(len(site))
    if name == "rows":
        return sorted(racks, key=place.__getitem__)
    if name in ("network-first", "servers-first"):
        first = name == "network-first"
        return sorted(racks, key=lambda rack: (network[rack] != first, -site.level[rack], place[rack]))
    return _blocks(site, sorted((rack for rack in racks if not network[rack]), key=place.__getitem__))


def _blocks(site: RackSite, servers: Sequence[int]) -> list[int]:
    """Before each rack of servers what it needs and is not there yet; racks that nothing needs come last."""
    out: dict[int, None] = {}
    for rack in servers:
        needed = (*site.far[rack], *site.near[rack])
        out |= dict.fromkeys(sorted(needed, key=lambda one: (-site.level[one], site.place[one])))
        out[rack] = None
    out |= dict.fromkeys(sorted(range(len(site)), key=site.place.__getitem__))
    return list(out)


@dataclass(frozen=True)
class BuildPace:
    """Pace of work, in days of the calendar, and how often it goes wrong.

    Attributes:
        miscabling: Share of cables.
        rejected: Share of servers.
        audit: Whether wrong cables are found when the rack is cabled.
    """

    crews: int
    install_d: float
    pulls: float
    repair_d: float
    burn_in_d: float
    replacement_d: float
    miscabling: float
    rejected: float
    audit: bool


class BuiltRacks(NamedTuple):
    """A draw.

    Attributes:
        ready_d: float64[racks], when the servers of each earn, without replaced ones; of others when they are
            built.
        replaced: int64[racks], servers that were replaced.
        replaced_d: float64[racks], when these earn.
    """

    ready_d: NDArray[np.float64]
    replaced: NDArray[np.int64]
    replaced_d: NDArray[np.float64]
    wrong: int
    crew_d: float


_DELIVERED, _CREW, _CABLED, _BURNT = range(4)


class _Play:
    def __init__(self, site: RackSite, pace: BuildPace, order: Sequence[int], delivered_d: NDArray[np.float64]) -> None:
        self.site, self.pace, self.delivered_d = site, pace, delivered_d
        self.events: list[tuple[float, int, int]] = []
        self.repairs: list[tuple[float, int]] = []
        self.idle = 0
        self.next = 0
        self.left = [0] * len(site)
        self.done = [0.0] * len(site)
        self.lots = list(self._lots(order, delivered_d))
        self.crew_d = 0.0
        self.sound = np.full(len(site), np.inf)
        self.burnt = np.full(len(site), np.inf)
        self.waiting: dict[int, list[int]] = {}
        self.missing = [0] * len(site)

    def _lots(self, order: Sequence[int], delivered_d: NDArray[np.float64]) -> Iterator[tuple[float, int, float]]:
        """For each piece of work its first possible day, its rack, and its days."""
        for rack, day in zip(order, delivered_d.tolist(), strict=True):
            count = max(math.ceil(self.site.cables[rack] / self.pace.pulls), 1)
            self.left[rack] = count
            each = self.site.cables[rack] / count / self.pace.pulls
            yield day, rack, self.pace.install_d + each
            for _ in range(1, count):
                yield day, rack, each

    def run(self, wrong: NDArray[np.int64]) -> None:
        """Builds until all is done."""
        self.wrong = wrong.copy()
        for rack, near in enumerate(self.site.near):
            needed = {rack, *near}
            self.missing[rack] = len(needed)
            for one in needed:
                self.waiting.setdefault(one, []).append(rack)
        self.events = [(day, _DELIVERED, 0) for day in np.unique(self.delivered_d).tolist()]
        self.idle = self.pace.crews
        heapify(self.events)
        while self.events:
            now, kind, what = heappop(self.events)
            if kind == _DELIVERED:
                self._call(now, self.idle)
            elif kind == _CREW:
                self._work(now)
            elif kind == _CABLED:
                self._cabled(now, what)
            else:
                self._burnt(now, what)

    def _work(self, now: float) -> None:
        """A crew is free: a repair, else the next rack, else it waits."""
        if self.repairs:
            _, rack = heappop(self.repairs)
            spent = self.wrong[rack] * self.pace.repair_d
            self.wrong[rack] = 0
            heappush(self.events, (now + spent, _CABLED, rack))
        elif self.next < len(self.lots) and self.lots[self.next][0] <= now:
            _, rack, spent = self.lots[self.next]
            self.next += 1
            self.left[rack] -= 1
            if not self.left[rack] and self.pace.audit:
                spent += self.wrong[rack] * self.pace.repair_d
                self.wrong[rack] = 0
            self.done[rack] = max(self.done[rack], now + spent)
            if not self.left[rack]:
                heappush(self.events, (self.done[rack], _CABLED, rack))
        else:
            self.idle += 1
            return
        self.crew_d += spent
        heappush(self.events, (now + spent, _CREW, 0))

    def _cabled(self, now: float, rack: int) -> None:
        """Continues once its cables are plugged, the wrong ones too, or were fixed."""
        first = self.sound[rack] == np.inf
        self.sound[rack] = now
        if not first:
            if self.site.servers[rack]:
                heappush(self.events, (now + self.pace.burn_in_d, _BURNT, rack))
            return
        if not self.site.servers[rack] and self.wrong[rack]:
            heappush(self.events, (now + self.pace.burn_in_d, _BURNT, rack))
        for one in self.waiting[rack]:
            self.missing[one] -= 1
            if not self.missing[one] and self.site.servers[one]:
                heappush(self.events, (now + self.pace.burn_in_d, _BURNT, one))

    def _burnt(self, now: float, rack: int) -> None:
        self.burnt[rack] = now
        if self.wrong[rack]:
            heappush(self.repairs, (now, rack))
            self._call(now, min(self.idle, 1))

    def _call(self, now: float, crews: int) -> None:
        self.idle -= crews
        for _ in range(crews):
            heappush(self.events, (now, _CREW, 0))


def play(
    site: RackSite, pace: BuildPace, order: Sequence[int], delivered_d: NDArray[np.float64], random: np.random.Generator
) -> BuiltRacks:
    """One draw."""
    wrong = random.binomial(site.cables, pace.miscabling)
    replaced = random.binomial(site.servers, pace.rejected)
    state = _Play(site, pace, order, delivered_d)
    state.run(wrong)
    ready = np.where(site.servers > 0, state.burnt, state.sound)
    needed = [(*near, *far) for near, far in zip(site.near, site.far, strict=True)]
    above = np.array([max((state.sound[one] for one in those), default=0.0) for those in needed])
    ready = np.where(site.servers > 0, np.maximum(ready, above), ready)
    again = np.maximum(state.burnt + pace.replacement_d + pace.burn_in_d, above)
    return BuiltRacks(ready, replaced, np.where(replaced > 0, again, ready), int(wrong.sum()), state.crew_d)
