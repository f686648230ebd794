"""Where the flow engine is known to be far from packets, or was never held to them: warnings that name the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fault import DegradeLink, LinkDown, SwitchDown
from railyard.cluster.fault.cluster_places import ClusterPlaces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.engine.bursts import Bursts

WORDS = {
    "healthy": "nothing in the way",
    "slower link": "a slower link",
    "dead spine": "a dead link",
    "slow NIC": "a slow NIC",
    "background": "background traffic",
    "incast": "an incast",
    "oversubscription": "oversubscribed links between switches",
    "distance": "sites far apart",
}

OVER = 1.1
"""Oversubscription that is compared with packets; uneven ports of leafs make a few per cent."""

_WHAT = {"healthy": "times", "oversubscription": "times", "distance": "times"}
"""What was compared; slowdowns where a healthy network is the measure."""


def doubts(cluster: Cluster, faults: Sequence[Fault], background: Sequence[Bursts]) -> Iterator[str]:
    """A warning for every situation of a run in which another engine should be asked.

    Args:
        cluster: Whose back-end fabric answers.
        faults: Of the run.
        background: Other traffic of the run.
    """
    fabric = cluster.fabric
    if any(item.network == "back_end" for item in cluster.spec.background):
        yield (
            "`cluster.background` is capacity that is not there: what its packets and the job's cost each other is"
            " simulated by the engine `packet`"
        )
    for situation in _situations(cluster, faults, background):
        spread = fabric.behaves.spread.get(situation)
        if spread is None:
            yield (
                f"how `{fabric.name}` behaves with {WORDS[situation]} was not compared with packets: "
                "use the engine `packet`"
            )
        elif fabric.behaves.uncertain(situation):
            low, high = spread
            yield (
                f"with {WORDS[situation]} {_WHAT.get(situation, 'slowdowns')} on `{fabric.name}` lie {low:+.0%} to"
                f" {high:+.0%} from those of packets: use the engine `packet`"
            )


def _situations(cluster: Cluster, faults: Sequence[Fault], background: Sequence[Bursts]) -> list[str]:
    found = ["healthy"] if "healthy" in cluster.fabric.behaves.spread else []
    ideal = cluster.is_bound
    nics = {_of_nics(cluster, fault) for fault in faults if isinstance(fault, DegradeLink)}
    if not ideal:
        found += [word for word, is_nic in (("slower link", False), ("slow NIC", True)) if is_nic in nics]
    if not ideal and any(isinstance(fault, LinkDown | SwitchDown) for fault in faults):
        found.append("dead spine")
    if any(one.pattern != "incast" for one in background):
        found.append("background")
    if any(one.pattern == "incast" for one in background):
        found.append("incast")
    if not ideal and cluster.plans["back_end"].border is not None:
        found.append("distance")
    if not ideal and _oversubscribed(cluster):
        found.append("oversubscription")
    return found


def _of_nics(cluster: Cluster, fault: DegradeLink) -> bool:
    """Whether the links of a fault all join NICs to their switches."""
    links, network = cluster.links, cluster.back_end
    first = int(links.tier[network.link_offset])
    access = [first + at for at, tier in enumerate(network.tiers) if tier.kind == "access"]
    found = np.concatenate([effect.link for effect in fault.effects(ClusterPlaces.of(cluster))])
    return bool(np.isin(links.tier[found], access).all())


def _oversubscribed(cluster: Cluster) -> bool:
    """Whether some tier between switches of a site carries less than what is below it brings."""
    long_links = {tier.name for tier in cluster.back_end.tiers if tier.kind == "long"}
    tiers = cluster.back_end.oversubscription()
    return any(over > OVER for name, over in tiers.items() if name not in long_links)
