"""Orders of racks and measures against faults, compared: first job, all at work, what stands idle, in dollars.

Idle is the capital of what was delivered and does not work yet: the annuity of the cluster (`economics.capital`),
shared among its accelerators from the delivery of their rack on. Crews are paid for the days that they work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.bring_up import racks as parts
from railyard.ask.bring_up.racks import BuildPace, BuiltRacks, Lead, RackSite, order_of, play, site_of
from railyard.ask.deploy.cabling import capital_of, plan_of
from railyard.kit.errors import InputError
from railyard.kit.quantities import percentile
from railyard.measure.cost.assumptions import HOURS_PER_YEAR, Assumptions
from railyard.measure.cost.capital import capital_recovery_factor
from railyard.work.scenario.plan_section import BringUpSection
from railyard.work.study import compose

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.work.scenario.load import Draft

DAY_S, DAY_H = 86400.0, 24.0
FIRST = 1 / 8
"""Share of all accelerators that the first job needs if the scenario does not say."""


@dataclass(frozen=True)
class DrawSpread:
    """Spread of draws: every tenth is below `low`, every tenth above `high`."""

    low: float
    typical: float
    high: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> DrawSpread:
        """The 10th, 50th and 90th percentile."""
        ordered = np.sort(values)
        return cls(*(percentile(ordered, share) for share in (0.1, 0.5, 0.9)))


@dataclass(frozen=True)
class BringUpOutcome:
    """One way to build, over all draws.

    Attributes:
        change: What is otherwise than in the scenario; empty where nothing.
        first_job_d: Days until the first job can run.
    """

    order: str
    change: str
    first_job_d: DrawSpread
    half_d: DrawSpread
    all_d: DrawSpread
    idle_usd: DrawSpread
    crew_usd: DrawSpread
    wrong: DrawSpread
    replaced: DrawSpread


@dataclass(frozen=True)
class PartWait:
    """Delay by a kind of part.

    Attributes:
        part: Of `parts.PARTS`.
        critical: Share of draws in which nothing delays the first job more.
        first_job_d: Days by which the first job is later than if it were there from the first day.
        idle_usd: Capital that stands idle for it; less than nothing where others would wait longer without its delay.
    """

    part: str
    arrives_d: DrawSpread
    critical: float
    first_job_d: DrawSpread
    all_d: DrawSpread
    idle_usd: DrawSpread


@dataclass(frozen=True)
class BringUp:
    """The study.

    Attributes:
        orders: As the scenario is, the cheapest first.
        parts: In the cheapest order, what waits for each part that arrives by itself; the most critical first.
    """

    capital_usd_per_d: float
    first_job: int
    racks: int
    cables: int
    orders: tuple[BringUpOutcome, ...]
    measures: tuple[BringUpOutcome, ...]
    parts: tuple[PartWait, ...] = ()


def study(draft: Draft, progress: Callable[[str, float], None]) -> BringUp:
    """Compares ways to build the cluster of a scenario.

    Args:
        draft: The scenario; without `bring_up` all of it is assumed.
        progress: Takes what is being done, and its share from 0 to 1.

    Raises:
        InputError: Deliveries are not in order or not all, or the first job is too large.
    """
    section = draft.scenario.bring_up or BringUpSection()
    _check(draft, section)
    cluster = compose.cluster_of(draft, compose.catalog_of(draft))
    first = section.first_job or max(round(cluster.ranks * FIRST), 1)
    if first > cluster.ranks:
        message, allowed = "the first job is larger than the cluster", f"up to {cluster.ranks}"
        raise draft.blame(InputError(message, key="bring_up.first_job", found=first, allowed=allowed))
    site = site_of(plan_of(cluster))
    usd_per_d = capital_usd_per_h(draft, cluster) * DAY_H
    case = _Case(site, section, first, usd_per_d, draft.seed)
    names = list(dict.fromkeys(section.orders))
    found = []
    for number, name in enumerate(names):
        progress(f"building {name}", number / (len(names) + 1))
        found.append(case.outcome(name, _pace(section), ""))
    found.sort(key=lambda one: one.idle_usd.typical + one.crew_usd.typical)
    progress("the value of each measure", len(names) / (len(names) + 1))
    measures = [case.outcome(found[0].order, pace, words) for words, pace in _measures(section)]
    waits = case.waits(found[0].order)
    return BringUp(usd_per_d, first, len(site), int(site.cables.sum()), tuple(found), tuple(measures), tuple(waits))


def _check(draft: Draft, section: BringUpSection) -> None:
    try:
        parts.check(leads_of(section))
    except InputError as error:
        raise draft.blame(error) from None
    times = [one.at for one in section.deliveries]
    total = sum(one.share for one in section.deliveries)
    if times != sorted(times) or abs(total - 1) > 1e-9:
        words = ", ".join(f"{one.share:g} at {one.at / DAY_S:g} d" for one in section.deliveries)
        allowed = "in the order of their times, shares of together 1"
        message, key = "deliveries do not bring all racks in time", "bring_up.deliveries"
        raise draft.blame(InputError(message, key=key, found=words, allowed=allowed))


def capital_usd_per_h(draft: Draft, cluster: Cluster) -> float:
    """The annuity of a cluster with its installation, by the hour, typical."""
    world = Assumptions.from_catalog(cluster.catalog, draft.scenario.economics.given())
    total = capital_of(draft, cluster).total_usd.typical
    return total * capital_recovery_factor(world.cost_of_capital.typical, world.life_years.typical) / HOURS_PER_YEAR


def _pace(section: BringUpSection) -> BuildPace:
    return BuildPace(
        crews=section.crews,
        install_d=section.install / section.shift,
        pulls=section.pulls,
        repair_d=section.repair / section.shift,
        burn_in_d=section.burn_in / DAY_S,
        replacement_d=section.replacement / DAY_S,
        miscabling=section.miscabling,
        rejected=0.0 if section.checked == "before" else section.rejected,
        audit=section.audit,
    )


def _measures(section: BringUpSection) -> list[tuple[str, BuildPace]]:
    pace = _pace(section)
    rejected = section.rejected if section.checked == "before" else 0.0
    where = "after" if section.checked == "before" else "before"
    return [
        ("no cable audit" if pace.audit else "a cable audit", replace(pace, audit=not pace.audit)),
        (f"servers checked {where} delivery", replace(pace, rejected=rejected)),
        ("one more crew", replace(pace, crews=pace.crews + 1)),
        ("twice the crews", replace(pace, crews=2 * pace.crews)),
        ("ten times as many wrong cables", replace(pace, miscabling=min(10 * pace.miscabling, 1.0))),
        ("one day of burn-in", replace(pace, burn_in_d=1.0)),
    ]


@dataclass(frozen=True, eq=False)
class _Case:
    """Common parts of all ways to build; the same draws meet each of them."""

    site: RackSite
    section: BringUpSection
    first: int
    usd_per_d: float
    seed: int

    def outcome(self, name: str, pace: BuildPace, change: str) -> BringUpOutcome:
        """Outcome of an order of racks at a pace."""
        rows = [self._draw(name, pace, draw, self._days(draw)) for draw in range(self.section.draws)]
        return BringUpOutcome(name, change, *(DrawSpread.of(column) for column in np.array(rows, np.float64).T))

    def waits(self, name: str) -> list[PartWait]:
        """Delays by each part that arrives by itself, the most critical first."""
        names = [lead.part for lead in self.leads]
        if not names:
            return []
        pace, draws = _pace(self.section), range(self.section.draws)
        days = [self._days(draw) for draw in draws]
        late = np.array([self._draw(name, pace, draw, days[draw])[:4] for draw in draws])
        delays = np.empty((len(names), len(draws), 4))
        for number, part in enumerate(names):
            soon = [self._draw(name, pace, draw, {**days[draw], part: 0.0})[:4] for draw in draws]
            delays[number] = late - np.array(soon)
        first = delays[:, :, 0]
        most = (first > 0) & (first == first.max(axis=0))
        found = [
            PartWait(
                part,
                DrawSpread.of(np.array([one[part] for one in days])),
                float(most[number].mean()),
                *(DrawSpread.of(delays[number, :, column]) for column in (0, 2, 3)),
            )
            for number, part in enumerate(names)
        ]
        return sorted(found, key=lambda one: (-one.critical, -one.first_job_d.typical))

    @cached_property
    def leads(self) -> tuple[Lead, ...]:
        """Parts that arrive by themselves."""
        return leads_of(self.section)

    def _days(self, draw: int) -> dict[str, float]:
        return parts.drawn(self.leads, (self.seed, draw))

    def _draw(self, name: str, pace: BuildPace, draw: int, days: dict[str, float]) -> tuple[float, ...]:
        """First job, half, all, idle dollars, crews' dollars, wrong cables, servers replaced."""
        order = order_of(self.site, name)
        racks = delivered(len(order), [(one.at / DAY_S, one.share) for one in self.section.deliveries])
        come = parts.arrivals(self.site, order, racks, days)
        built = play(self.site, pace, come.order, come.built_d, np.random.default_rng((self.seed, draw)))
        first, half, last, waited = earning(self.site, built, come.order, come.there_d, self.first)
        idle = waited / (self.site.servers.sum() * self.site.accelerators) * self.usd_per_d
        crews = built.crew_d * self.section.crew_shift
        return first, half, last, idle, crews, float(built.wrong), float(built.replaced.sum())


def leads_of(section: BringUpSection) -> tuple[Lead, ...]:
    """Parts that arrive by themselves."""
    return tuple(
        Lead(one.part, one.lead / DAY_S, (one.lead if one.lead_p90 is None else one.lead_p90) / DAY_S)
        for one in section.parts
    )


def delivered(racks: int, deliveries: list[tuple[float, float]]) -> NDArray[np.float64]:
    """float64[racks], day on which the rack at each place of the order is there."""
    share = np.cumsum([share for _, share in deliveries])
    last = np.minimum(np.ceil(share * racks - 1e-9).astype(int), racks)
    last[-1] = racks
    return np.repeat([day for day, _ in deliveries], np.diff(last, prepend=0))


def earning(
    site: RackSite, built: BuiltRacks, order: list[int], arrived_d: NDArray[np.float64], first: int
) -> tuple[float, float, float, float]:
    """Days until `first` accelerators earn, half, all; and accelerator-days for which delivered ones stood idle."""
    day = np.empty(len(site))
    day[order] = arrived_d
    count = np.concatenate([site.servers - built.replaced, built.replaced]) * site.accelerators
    when = np.concatenate([built.ready_d, built.replaced_d])
    there = count > 0
    by_time = np.argsort(when[there], kind="stable")
    times, sums = when[there][by_time], np.cumsum(count[there][by_time])
    total = int(sums[-1])
    first_d, half_d = (float(times[np.searchsorted(sums, many)]) for many in (first, -(-total // 2)))
    waited = float((count * (when - np.concatenate([day, day])))[there].sum())
    return first_d, half_d, float(times[-1]), waited
