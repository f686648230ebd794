"""A cluster under the faults of a scenario, as closed forms see it.

A closed form knows the rate of a tier, not of a link. Collectives wait for their slowest member, so a tier is as slow
as its slowest link, or the slowest bundle where traffic is sprayed; after deaths that leave other paths, as the switch
that has least of its links left. Accelerators are as slow as the slowest. A job dies where processes are gone, where a
NIC has no link left, or servers no longer reach one another. Engines know more; designs are searched by this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fault import LinkRate, RankDeath, RankSpeed
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.work.study.deaths import cut_off, cut_off_by, dead_links, parted, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
