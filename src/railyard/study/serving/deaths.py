"""Deaths in a serving run: which replicas they take away, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.errors import InputError
from railyard.fault import LinkRate, RankDeath
from railyard.fault.cluster_places import ClusterPlaces
from railyard.fault.recovery import Recovery
from railyard.scenario.load import blaming
from railyard.scenario.section import build
from railyard.scenario.unions import fault_of
from railyard.study.deaths import cut_off, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.cluster import Cluster
    from railyard.fault import Effect, Fault
    from railyard.scenario.load import Draft
    from railyard.study.serving.placing import PlacedPool


@dataclass(frozen=True)
class ReplicaDeath:
    """A replica that is away because something of it died.

    Attributes:
        replica: Counted over all pools.
        begin_s: From when on.
        end_s: Until its processes run again, without the loading of its weights.
        what: What died, in words.
    """

    replica: int
    begin_s: float
    end_s: float
    what: str


def replica_deaths(draft: Draft, pools: Sequence[PlacedPool], cluster: Cluster) -> tuple[ReplicaDeath, ...]:
    """What the scenario's faults take away.

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
            for effect in fault.effects(ClusterPlaces.of(cluster)):
                found += _of_effect(fault, effect, pools, cluster, recovery)
    once = {(one.replica, one.begin_s): one for one in found}
    return tuple(once[key] for key in sorted(once))


def _of_effect(
    fault: Fault, effect: Effect, pools: Sequence[PlacedPool], cluster: Cluster, recovery: Recovery
) -> Iterator[ReplicaDeath]:
    if isinstance(effect, RankDeath):
        dead, needed = set(effect.ranks), False
    elif isinstance(effect, LinkRate) and effect.factor == 0:
        dead, needed = cut_off(effect.link, cluster), True
    else:
        raise InputError(
            "a serving run knows faults after which something is dead",
            key="kind",
            found=fault.kind,
            allowed="link-down, switch-down, nic-down, host-down, accelerator-down",
        )
    begin_s = effect.spell.begin_ps * 1e-12
    back_s = recovery.schedule_s if recovery.spares else recovery.repair_s
    over_s = begin_s + back_s if effect.spell.end_ps is None else effect.spell.end_ps * 1e-12
    for replica in _replicas(dead, pools, cluster, needs_nics=needed):
        yield ReplicaDeath(replica, begin_s, over_s + recovery.process_s, words(fault))


def _replicas(dead: set[int], pools: Sequence[PlacedPool], cluster: Cluster, *, needs_nics: bool) -> Iterator[int]:
    number = 0
    for pool in pools:
        for ranks in pool.ranks.tolist():
            servers = {rank // cluster.ranks_per_server for rank in ranks}
            needs = not needs_nics or pool.role != "both" or len(servers) > 1
            if pool.home == 0 and needs and dead.intersection(ranks):
                yield number
            number += 1
