"""How far the closed form of a step is off, from those layouts that were simulated.

Misses in logarithms are a sum of four: one that all layouts of a scenario share, one that layouts of a kind share, one
that neighbours share, and what is left. Sizes of the second and third are read off the misses themselves, a small one
assumed before any are seen; which is a Gaussian process over sizes in doublings (Rasmussen and Williams, 2006, ch. 2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fault import LinkRate, RankDeath, RankSpeed
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.work.study.deaths import cut_off, cut_off_by, dead_links, parted, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Effect, Fault
    from railyard.cluster.fault.recovery import Recovery


@dataclass(frozen=True, eq=False)
class ClosedFaults:
    """What faults leave of a cluster.

    Attributes:
        cluster: With the rates that are left for good.
        ended: The first fault that ends the job, in words; empty where it goes on.
        lost_s: From the abort until the processes run again, without loading and repeated work; 0 where it goes on.
    """

    cluster: Cluster
    ended: str = ""
    lost_s: float = 0.0


def closed_faults(cluster: Cluster, faults: Sequence[Fault], recovery: Recovery) -> ClosedFaults:
    """A cluster under faults.

    Args:
        cluster: As it is.
        faults: In the order of the scenario.
        recovery: What the job does after one that ends it.

    Raises:
        InputError: A fault names a place that is not there.
    """
    places, found = ClusterPlaces.of(cluster), ClosedFaults(cluster)
    lasting: list[Effect] = []
    for fault in faults:
        effects = tuple(fault.effects(places))
        spell_s = None if (length := getattr(fault, "for_ps", None)) is None else length * 1e-12
        lost_s = _lost_s(effects, spell_s, cluster, recovery)
        if lost_s:
            found = replace(found, ended=found.ended or words(fault), lost_s=found.lost_s + lost_s)
        elif spell_s is None:
            lasting += effects
    return replace(found, cluster=_slowed(cluster, lasting)) if lasting else found


def _lost_s(effects: Sequence[Effect], spell_s: float | None, cluster: Cluster, recovery: Recovery) -> float:
    """What a fault that ends the job takes; 0 of one that does not."""
    killed = {rank for effect in effects if isinstance(effect, RankDeath) for rank in effect.ranks}
    dead = dead_links(effects)
    hung = len(dead) > 0 and bool(cut_off(dead, cluster) or (not cluster.is_bound and parted(dead, cluster)))
    if not killed and (not hung or (spell_s is not None and spell_s < recovery.abort_s)):
        return 0.0
    abort_s = recovery.process_s if killed else recovery.abort_s
    hosts = len({rank // cluster.ranks_per_server for rank in killed | cut_off_by(effects, cluster)})
    return abort_s + sum(
        seconds for _, seconds in recovery.restart(hosts=hosts, spell_s=spell_s, read_s=0.0, unsaved_s=0.0)
    )


def _slowed(cluster: Cluster, effects: Sequence[Effect]) -> Cluster:
    """The cluster with every tier at the rate of what is slowest in it."""
    pace = min((effect.factor for effect in effects if isinstance(effect, RankSpeed)), default=1.0)
    kept = _kept(cluster, (effect for effect in effects if isinstance(effect, LinkRate)))
    access = {tier.name for tier in cluster.back_end.tiers if tier.kind == "access"}
    return cluster.scaled(
        flops=pace,
        memory_bandwidth=pace,
        nic=min((kept[name] for name in access if name in kept), default=1.0),
        fabric_tiers={name: factor for name, factor in kept.items() if name not in access},
    )


def _kept(cluster: Cluster, effects: Iterable[LinkRate]) -> dict[str, float]:
    """Share of its rate that is left of each tier that loses any."""
    links = cluster.links
    rate = links.rate_bps.copy()
    for effect in effects:
        rate[effect.link] *= effect.factor
    rate = links.with_bundles(rate)
    found = {}
    for number in np.unique(links.tier[: links.physical][rate[: links.physical] < links.rate_bps[: links.physical]]):
        name = links.tiers[number]
        mine = np.flatnonzero((links.tier == number) & (links.rate_bps > 0))
        bundles = mine[mine >= links.physical]
        alone = mine[mine < links.physical]
        kept = rate[bundles] / links.rate_bps[bundles] if len(bundles) else _by_link(cluster, alone, rate)
        found[name] = float(max(kept.min(initial=1.0) if len(kept) else 0.0, _LEAST))
    return found


_LEAST = 1e-3
"""Rate left on a tier that is dead and that the job does not need: a closed form divides by it."""


def _by_link(cluster: Cluster, alone: NDArray[np.int64], rate: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[], of hashed links: the slowest that is alive, and what switches with dead ones have left."""
    links = cluster.links
    alive = alone[rate[alone] > 0]
    total, left = (
        np.bincount(links.source[some], links.rate_bps[some], minlength=cluster.nodes) for some in (alone, alive)
    )
    switches = np.flatnonzero((total > 0) & (left > 0))
    return np.concatenate([rate[alive] / links.rate_bps[alive], left[switches] / total[switches]])


# Deviations of the three that are shared and of the rest, as logarithms. Those of kinds and neighbours are the least,
# and a first guess that counts as so many misses; what is missed by a factor of ten is not missed alike, so the guess
# grows with the misses. Neighbours lie up to about two doublings apart.
_ALL, _KIND, _NEAR, _REST = 0.1, 0.1, 0.03, 0.01
_GROWS = 0.2
_GUESS, _REACH = 3.0, 2.0


@dataclass(frozen=True)
class ClosedError:
    """Layouts in closed form, and how their errors go together.

    Attributes:
        closed: float64[n], logarithms of steps in closed form.
        places: float64[n, sizes], where layouts lie, in doublings.
        kinds: int64[n], layouts whose traffic is of one law.
    """

    closed: NDArray[np.float64]
    places: NDArray[np.float64]
    kinds: NDArray[np.int64]

    def best_of_kinds(self) -> list[int]:
        """Of each kind the layout that is fastest in closed form, the fastest first."""
        order = np.argsort(self.closed, kind="stable")
        _, first = np.unique(self.kinds[order], return_index=True)
        return [int(order[place]) for place in np.sort(first)]

    def expected(self, known: Mapping[int, float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Steps and how far they may be off: float64[n] logarithms, and deviations.

        Args:
            known: Logarithms of simulated steps, by number; endless where a layout cannot be run.
        """
        seen = np.array([number for number, value in known.items() if np.isfinite(value)], np.int64)
        if not seen.size:
            return self.closed.copy(), np.full(len(self.closed), np.hypot(_ALL, _KIND))
        misses = np.array([known[int(number)] for number in seen]) - self.closed[seen]
        near = self._alike(seen, seen)
        kind, neighbour = self._kind_variance(seen, misses), self._near_variance(seen, misses, near)
        same = self.kinds[:, None] == self.kinds[seen]
        to_all = _ALL**2 + kind * same + neighbour * self._alike(np.arange(len(self.closed)), seen)
        among = _ALL**2 + kind * same[seen] + neighbour * near + _REST**2 * np.eye(seen.size)
        solved = np.linalg.solve(among, np.column_stack([misses, to_all.T]))
        left = _ALL**2 + kind + neighbour - np.sum(to_all * solved[:, 1:].T, axis=1)
        return self.closed + to_all @ solved[:, 0], np.sqrt(np.maximum(left, 0.0))

    def _alike(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
        """How much the errors of neighbours go together: float64[a, b]."""
        away = np.zeros((one.size, other.size))
        for column in self.places.T:
            away += np.abs(column[one][:, None] - column[other])
        return np.asarray(np.exp(-away / _REACH))

    def _kind_variance(self, seen: NDArray[np.int64], misses: NDArray[np.float64]) -> float:
        """Of what the layouts of a kind share."""
        means = np.array([misses[self.kinds[seen] == kind].mean() for kind in np.unique(self.kinds[seen])])
        return max(_KIND**2, float(np.mean((means - np.median(means)) ** 2)))

    def _near_variance(self, seen: NDArray[np.int64], misses: NDArray[np.float64], near: NDArray[np.float64]) -> float:
        """Of what neighbours share: misses about the mean of their kind, each as far as it says something new."""
        squares, count = _GUESS * (_NEAR**2 + _GROWS**2 * float(np.mean(misses**2))), _GUESS
        for kind in np.unique(self.kinds[seen]):
            (some,) = np.nonzero(self.kinds[seen] == kind)
            new = np.linalg.inv(near[np.ix_(some, some)] + (_REST / _NEAR) ** 2 * np.eye(some.size))
            apart = misses[some] - (new @ misses[some]).sum() / new.sum()
            squares, count = squares + float(apart @ new @ apart), count + some.size - 1
        return squares / count
