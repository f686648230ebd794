"""Faults as the core takes them: points in time at which a link's or a rank's state changes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

import railyard._core as _core
from railyard.cluster.fault import LinkErrors, LinkRate, LinkSetting, RankDeath, RankDelay, RankSpeed
from railyard.cluster.fault.fault import Spell
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Effect, Fault, Places
    from railyard.cluster.links import LinkTable
    from railyard.cluster.network import Network


@dataclass(frozen=True, eq=False)
class Outage:
    """Links of one network that are dead for a while.

    What is on its way is lost and sent again whenever the sender's timer runs out (`Fabric.recovery_ps`): traffic moves
    again with the first try after routes know, or after the links are back if that is sooner.

    Attributes:
        link: int64[], physical links.
        end_ps: When what uses them moves again because they are back; None: never.
        withdrawn_ps: From when on routes keep off them, and what was sent has been sent again; None: they never do.
        restored_ps: From when on routes use them again; None: never.
    """

    link: NDArray[np.int64]
    begin_ps: int
    end_ps: int | None
    withdrawn_ps: int | None
    restored_ps: int | None

    @property
    def times(self) -> set[int]:
        """Times at which something changes."""
        return {time for time in (self.begin_ps, self.end_ps, self.withdrawn_ps, self.restored_ps) if time is not None}

    def is_dead(self, at_ps: int) -> bool:
        """Whether the links carry nothing."""
        return self.begin_ps <= at_ps and (self.end_ps is None or at_ps < self.end_ps)

    def is_withdrawn(self, at_ps: int) -> bool:
        """Whether routes keep off the links."""
        if self.withdrawn_ps is None or at_ps < self.withdrawn_ps:
            return False
        return self.restored_ps is None or at_ps < self.restored_ps


def outages_of(effects: Iterable[tuple[int, Effect]], cluster: Cluster) -> list[Outage]:
    """The outages of dead links, each in the way of its network's fabric."""
    found: list[Outage] = []
    for _, effect in effects:
        if isinstance(effect, LinkRate) and effect.factor == 0:
            found += _of_effect(effect, cluster)
    return found


def _of_effect(effect: LinkRate, cluster: Cluster) -> list[Outage]:
    found, left = [], effect.link
    for network in cluster.networks:
        own = left[(left >= network.link_offset) & (left < network.link_offset + network.wiring.links)]
        if len(own):
            found.append(_of_network(own, effect, network))
        left = np.setdiff1d(left, own)
    if len(left):
        found.append(Outage(left, effect.spell.begin_ps, effect.spell.end_ps, None, None))
    return found


def _of_network(link: NDArray[np.int64], effect: LinkRate, network: Network) -> Outage:
    begin, end, fabric = effect.spell.begin_ps, effect.spell.end_ps, network.fabric
    withdrawn = begin + fabric.recovery_ps() if begin > 0 else 0  # routes know what is dead before the run
    return Outage(
        link,
        begin,
        None if end is None else begin + fabric.recovery_ps(end - begin),
        withdrawn,
        None if end is None else max(end + fabric.reroute_ps, withdrawn),
    )


LINK_FACTOR, _RANK_SPEED, _RANK_LATE, REROUTED = 0, 1, 2, 3

Row = tuple[int, int, int, float, int]
"""When, kind, target, value, index of the fault."""


@dataclass(frozen=True)
class FaultColumns:
    """Changes of state; one row a change.

    Attributes:
        at_ps: int64, when.
        kind: uint8; 0: factor of a link's rate, 1: speed of a rank, 2: delay of a rank's computation in ps, 3: row by
            which an entity flows.
        target: int32, link, rank or entity.
        value: float64, the new factor, speed, the delay, the row.
        origin: int32, index of the fault that a row comes from, -1 where several overlap.
    """

    at_ps: NDArray[np.int64]
    kind: NDArray[np.uint8]
    target: NDArray[np.int32]
    value: NDArray[np.float64]
    origin: NDArray[np.int32]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> FaultColumns:
        """Builds the changes from rows."""
        at, kind, target, value, origin = zip(*rows, strict=True) if rows else ((),) * 5
        return cls(
            np.array(at, np.int64),
            np.array(kind, np.uint8),
            np.array(target, np.int32),
            np.array(value, np.float64),
            np.array(origin, np.int32),
        )

    def core(self) -> _core.Faults:
        """The same for the core, which copies nothing."""
        return _core.Faults(at_ps=self.at_ps, kind=self.kind, target=self.target, value=self.value)


def placed(faults: Sequence[Fault], rank: NDArray[np.int32]) -> tuple[Fault, ...]:
    """The faults of several jobs with the ranks of the graph that all are one of.

    Args:
        faults: Their ranks count from those of the first job on.
        rank: int32[ranks of all jobs], the rank of each in the graph.

    Raises:
        InputError: A fault names a rank that does not exist.
    """
    return tuple(_placed(fault, rank, index) for index, fault in enumerate(faults))


def _placed(fault: Fault, rank: NDArray[np.int32], index: int) -> Fault:
    own = getattr(fault, "rank", None)
    if own is None:
        return fault
    if not 0 <= own < len(rank):
        allowed = f"0 to {len(rank) - 1}"
        raise InputError("there is no such rank", key=f"faults.{index}.rank", found=own, allowed=allowed)
    return cast("Fault", replace(cast("Any", fault), rank=int(rank[own])))


def effects_of(faults: Sequence[Fault], places: Places) -> list[tuple[int, Effect]]:
    """Effects of faults, each with the index of its fault.

    Raises:
        InputError: A place that a fault names is not there.
    """
    found: list[tuple[int, Effect]] = []
    for index, fault in enumerate(faults):
        try:
            found += [(index, effect) for effect in fault.effects(places)]
        except InputError as error:
            raise error.located(key=f"faults.{index}") from None
    return found


def slowed(cluster: Cluster, effects: Iterable[tuple[int, Effect]]) -> Cluster:
    """The cluster at the rates that slow links have permanently, on which communications are lowered.

    A ring hides latencies behind its slowest edge, whether flows collide there or the link is slow. The core changes
    the rates of the cluster as it is.
    """
    links = cluster.links
    rate_bps = links.rate_bps.copy()
    for _, effect in effects:
        if isinstance(effect, LinkRate) and effect.factor > 0 and effect.spell == Spell(0):
            rate_bps[effect.link] *= effect.factor
    if (rate_bps == links.rate_bps).all():
        return cluster
    return replace(cluster, links=replace(links, rate_bps=links.with_bundles(rate_bps)))


def expand(effects: Iterable[tuple[int, Effect]], links: LinkTable, outages: Sequence[Outage] = ()) -> list[Row]:
    """Effects as changes of state; where those of one kind overlap on one thing, their factors are multiplied.

    Args:
        effects: With the index of the fault of each.
        links: The cluster's links; a bundle loses what its members lose.
        outages: Of dead links.

    Raises:
        InputError: An effect that no flow can have.
    """
    rows: list[Row] = []
    speeds: list[RankSpeed] = []
    rates: list[LinkRate] = []
    for index, effect in effects:
        match effect:
            case RankDelay():
                rows.append((effect.at_ps, _RANK_LATE, effect.rank, float(effect.by_ps), index))
            case RankSpeed():
                speeds.append(effect)
            case LinkRate() if effect.factor > 0:
                rates.append(effect)
            case RankDeath() | LinkErrors() | LinkSetting():
                _refuse(effect, index)
    return [*rows, *_speeds(speeds), *_capacities(rates, outages, links)]


def _refuse(effect: RankDeath | LinkErrors | LinkSetting, index: int) -> None:
    if isinstance(effect, LinkSetting):
        raise InputError(
            "flows know no pauses, marks and headroom", key=f"faults.{index}", hint="use the engine `packet`"
        )
    if isinstance(effect, LinkErrors):
        raise InputError(
            "flows know no bit errors", key=f"faults.{index}", hint="use the engine `packet`, or `railyard packet`"
        )
    raise InputError(
        "an engine cannot run a job that a fault has ended",
        key=f"faults.{index}",
        hint="where a scenario has one training job, that starts again from its checkpoint; links die in any run",
    )


def _speeds(effects: Sequence[RankSpeed]) -> Iterator[Row]:
    by_rank: dict[int, list[RankSpeed]] = defaultdict(list)
    for effect in effects:
        by_rank[effect.rank].append(effect)
    for rank, of_rank in by_rank.items():
        for at in _times(of_rank):
            yield at, _RANK_SPEED, rank, float(np.prod([e.factor for e in of_rank if e.spell.holds(at)])), -1


def _capacities(effects: Sequence[LinkRate], outages: Sequence[Outage], links: LinkTable) -> Iterator[Row]:
    before = links.rate_bps
    times = {time for outage in outages for time in outage.times}
    for at in sorted({*_times(effects), *times}):
        rate = links.rate_bps.copy()
        for effect in effects:
            if effect.spell.holds(at):
                rate[effect.link] *= effect.factor
        rate = _with_outages(rate, outages, links, at)
        for changed in np.flatnonzero(rate != before).tolist():
            nominal = links.rate_bps[changed]
            yield at, LINK_FACTOR, changed, float(rate[changed] / nominal) if nominal > 0 else 0.0, -1
        before = rate


def _with_outages(
    rate_bps: NDArray[np.float64], outages: Sequence[Outage], links: LinkTable, at_ps: int
) -> NDArray[np.float64]:
    """Rates with bundles: what is sprayed over a dead link stops until routes know, and then has what is left."""
    usable = rate_bps.copy()
    for outage in outages:
        if outage.is_dead(at_ps) or outage.is_withdrawn(at_ps):
            usable[outage.link] = 0.0
        if outage.is_dead(at_ps):
            rate_bps[outage.link] = 0.0
    rate_bps[links.physical :] = links.with_bundles(usable)[links.physical :]
    for outage in outages:
        if outage.is_dead(at_ps) and not outage.is_withdrawn(at_ps):
            bundle = links.bundle_of[outage.link]
            rate_bps[bundle[bundle >= 0]] = 0.0
    return rate_bps


def _times(effects: Sequence[RankSpeed] | Sequence[LinkRate]) -> list[int]:
    ends = {effect.spell.end_ps for effect in effects} - {None}
    return sorted({effect.spell.begin_ps for effect in effects} | cast("set[int]", ends))
