"""Where the flow engine is known to be far from packets, or was never held to them: warnings that name the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fault import DegradeLink, Late, LinkDown, SwitchDown
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.graph import Kind, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.engine.background import Bursts
    from railyard.engine.contract import Jitter
    from railyard.graph import Job, Merged, TaskGraph


_STREAM = 0x57A11
_SIX = 6.0
_MOST = 100_000
"""Interruptions of one step beyond which a rate is no rate of rare events."""


def swung(merged: Merged, jitter: Jitter, seed: int) -> TaskGraph:
    """The graph with every computation of a job as much longer or shorter as this step's are."""
    if jitter.step_sigma <= 0:
        return merged.graph
    duration_ps = merged.graph.duration_ps.copy()
    for job, first in zip(merged.jobs, merged.task_ptr, strict=False):
        rows = slice(first, first + len(job.work))
        draw = float(np.clip(_random(seed, job.seed).standard_normal(), -_SIX, _SIX))
        factor = max(1.0 + jitter.step_sigma * draw, 0.0)
        duration_ps[rows] = np.rint(duration_ps[rows] * factor)
    return replace(merged.graph, duration_ps=duration_ps)


def drawn(merged: Merged, jitter: Jitter, seed: int) -> tuple[Late, ...]:
    """The interruptions of one step of every job, by the seed."""
    found: list[Late] = []
    for job, to in zip(merged.jobs, merged.ranks, strict=True):
        found += [replace(late, rank=int(to[late.rank])) for late in _of_job(job, jitter, seed)]
    return tuple(found)


def _of_job(job: Job, jitter: Jitter, seed: int) -> Iterator[Late]:
    graph = job.work
    computes = (graph.kind == Kind.COMPUTE) & np.isin(graph.stream, (Stream.COMPUTE, Stream.FREE))
    busy_ps = np.bincount(graph.rank[computes], graph.duration_ps[computes], minlength=graph.ranks)
    longest_ps = float(busy_ps.max(initial=0.0))
    for number, kind in enumerate(jitter.stalls):
        rng = _random(seed, job.seed, number + 1)
        count = min(int(rng.poisson(kind.rate_hz * graph.ranks * longest_ps * 1e-12)), _MOST)
        rank = rng.integers(0, graph.ranks, count)
        at_ps = (rng.random(count) * busy_ps[rank]).astype(np.int64) + job.start_ps
        by_ps = np.rint(-np.log1p(-rng.random(count)) * kind.mean_s * 1e12).astype(np.int64)
        yield from (Late(int(r), int(by), int(at)) for r, by, at in zip(rank, by_ps, at_ps, strict=True) if by > 0)


def _random(seed: int, job_seed: int, *number: int) -> np.random.Generator:
    """The draws of one job; those of a job without a seed are the run's."""
    return np.random.default_rng([seed, _STREAM, *number, *((job_seed,) if job_seed else ())])


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
