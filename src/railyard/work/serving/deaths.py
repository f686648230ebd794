"""Deaths in a serving run: which replicas they take away, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.cluster.fault import LinkRate, RankDeath
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.cluster.fault.recovery import Recovery
from railyard.kit.errors import InputError
from railyard.work.scenario.load import blaming
from railyard.work.scenario.section import build, fault_of
from railyard.work.study.deaths import cut_off, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Effect, Fault
    from railyard.work.scenario.load import Draft
    from railyard.work.serving.placing import PlacedPool


@dataclass(frozen=True)
class ReplicaDeath:
    """One time that something dies, and the replicas that are away for it.

    Attributes:
        replicas: Counted over all pools; none where nothing needs what died.
        begin_s: From when on.
        end_s: Until their processes run again, without the loading of their weights.
        what: What died, in words.
    """

    replicas: tuple[int, ...]
    begin_s: float
    end_s: float
    what: str


def replica_deaths(draft: Draft, pools: Sequence[PlacedPool], cluster: Cluster) -> tuple[ReplicaDeath, ...]:
    """What the scenario's faults take away, in the order of time.

    A replica dies with any of its ranks. A NIC without any link left takes away replicas that need it: those that span
    servers, or that send or get keys and values. Deaths that leave every NIC a link take none away.

    Args:
        draft: The scenario.
        pools: On the cluster; those with networks of their own are not named by faults.
        cluster: The cluster.

    Raises:
        InputError: A fault names a place that is not there, or is none after which something is dead.
    """
    with blaming(draft, "recovery"):
        recovery: Recovery = build(draft.scenario.recovery, Recovery)
    found: list[ReplicaDeath] = []
    for number, section in enumerate(draft.scenario.faults):
        with blaming(draft, "faults", str(number)):
            fault = fault_of(section)
            effects = [_checked(fault, effect) for effect in fault.effects(ClusterPlaces.of(cluster))]
            found += _of_fault(fault, effects, pools, cluster, recovery)
    return tuple(sorted(found, key=lambda one: (one.begin_s, one.what)))


def _checked(fault: Fault, effect: Effect) -> LinkRate | RankDeath:
    if isinstance(effect, RankDeath) or (isinstance(effect, LinkRate) and effect.factor == 0):
        return effect
    raise InputError(
        "a serving run knows faults after which something is dead",
        key="kind",
        found=fault.kind,
        allowed="link-down, switch-down, nic-down, host-down, accelerator-down",
    )


def _of_fault(
    fault: Fault,
    effects: Sequence[LinkRate | RankDeath],
    pools: Sequence[PlacedPool],
    cluster: Cluster,
    recovery: Recovery,
) -> Iterator[ReplicaDeath]:
    """A row for each time that it comes."""
    back_s = recovery.schedule_s if recovery.spares else recovery.repair_s
    for spell in dict.fromkeys(effect.spell for effect in effects):
        replicas = {
            replica for effect in effects if effect.spell == spell for replica in _taken(effect, pools, cluster)
        }
        begin_s = spell.begin_ps * 1e-12
        over_s = begin_s + back_s if spell.end_ps is None else spell.end_ps * 1e-12
        yield ReplicaDeath(tuple(sorted(replicas)), begin_s, over_s + recovery.process_s, words(fault))


def _taken(effect: LinkRate | RankDeath, pools: Sequence[PlacedPool], cluster: Cluster) -> Iterator[int]:
    if isinstance(effect, RankDeath):
        return _replicas(set(effect.ranks), pools, cluster, needs_nics=False)
    return _replicas(cut_off(effect.link, cluster), pools, cluster, needs_nics=True)


def _replicas(dead: set[int], pools: Sequence[PlacedPool], cluster: Cluster, *, needs_nics: bool) -> Iterator[int]:
    number = 0
    for pool in pools:
        for ranks in pool.ranks.tolist():
            servers = {rank // cluster.ranks_per_server for rank in ranks}
            needs = not needs_nics or pool.role != "both" or len(servers) > 1
            if pool.home == 0 and needs and dead.intersection(ranks):
                yield number
            number += 1
