"""Which engines may be asked for where requests are served."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.machine import UNLIMITED
from railyard.engine.unlimited import kept
from railyard.kit.errors import InputError
from railyard.work.scenario.section import fault_of
from railyard.work.serving.costing import costs_of
from railyard.work.serving.deployment import deployment
from railyard.work.serving.prepare import links_of, profiles_of
from railyard.work.study.deaths import words
from railyard.work.study.provenance import Memo

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.engine.lowering import Free
    from railyard.work.scenario.load import Draft
    from railyard.work.serving.cost import IterationCost
    from railyard.work.serving.networks import Networks
    from railyard.work.serving.placing import PlacedPool
    from railyard.work.serving.prepare import ServingJob


_MOST_BPS = 1e18
"""The largest rate that the engine takes."""


def crosses(job: ServingJob) -> bool:
    """Whether anything of a service leaves a scale-up domain: replicas that span some, transfers, reads of storage."""
    domains = [job.networks.clusters[pool.home].scale_up_domain for pool in job.pools]
    spans = any(
        bool((pool.ranks // domain != pool.ranks[:, :1] // domain).any()) or pool.ffn is not None
        for pool, domain in zip(job.pools, domains, strict=True)
    )
    links = job.deployment.links
    return spans or (links is not None and bool((~_inside(job.networks)[links.link]).any()))


def _inside(networks: Networks) -> NDArray[np.bool_]:
    """bool[links of all networks]: those of scale-up domains."""
    found = np.zeros(networks.width, np.bool_)
    for cluster, start in zip(networks.clusters, networks.offsets, strict=False):
        links = cluster.links
        found[start : start + len(links)] = links.tier == links.tiers.index("scale-up")
    return found


def unlimited(job: ServingJob, free: Free) -> ServingJob:
    """The job without limits of the scale-out network (`scale-out`), or of all networks (`all`)."""

    def better(cluster: Cluster) -> Cluster:
        found = cluster.without_scale_out_limits()
        return found.scaled(scale_up=UNLIMITED, latency=1 / UNLIMITED) if free == "all" else found

    networks, serving, draft = job.networks, job.section, job.variant.draft
    gateway = networks.gateway
    if gateway is not None:
        gateway = gateway.model_copy(update={"rate": gateway.rate * UNLIMITED, "latency": 0.0})
    networks = replace(networks, clusters=tuple(map(better, networks.clusters)), gateway=gateway)
    pools = tuple(_placed(pool, better) for pool in job.pools)
    profiles, asked = profiles_of(draft.folder, serving.profiles), job.requests
    costs = costs_of(job.model, networks, pools, job.software, requests=asked, memo=Memo(), profiles=profiles)
    if free == "all":
        costs = tuple(map(_silent, costs))
    links = links_of(serving, networks, pools, costs, job.software)
    if links is not None:
        links = replace(links, rate_bps=np.minimum(links.rate_bps, _MOST_BPS))
    faults = tuple(map(fault_of, draft.scenario.faults)) if job.deaths else ()
    lasting = {words(fault) for fault in kept(faults, job.cluster, free)}
    deaths = tuple(death for death in job.deaths if death.what in lasting)
    deployed = deployment(serving, pools, costs, model=job.model, links=links, requests=asked, deaths=deaths)
    return replace(
        job,
        networks=networks,
        cluster=networks.clusters[0],
        pools=pools,
        costs=costs,
        deployment=deployed,
        deaths=deaths,
    )


def _placed(pool: PlacedPool, better: Callable[[Cluster], Cluster]) -> PlacedPool:
    ffn = None if pool.ffn is None else replace(pool.ffn, cluster=better(pool.ffn.cluster))
    return replace(pool, cluster=better(pool.cluster), ffn=ffn)


def _silent(cost: IterationCost) -> IterationCost:
    """The cost of an iteration whose collectives take no time."""
    return replace(
        cost,
        network_s=np.zeros_like(cost.network_s),
        hidden_s=np.zeros_like(cost.hidden_s),
        joint_network_s=np.zeros_like(cost.joint_network_s),
        scale_out_bytes_per_token=0.0,
        scale_out_bps=0.0,
        scale_out_slack_s=np.zeros(0),
    )


ENGINE = "serving"
_USUAL = ("flow", ENGINE)


def check_engine(draft: Draft, engine: str | None) -> None:
    """Refuses engines of training steps.

    Raises:
        InputError: It is one of them.
    """
    name = engine or draft.scenario.engine
    if name not in _USUAL:
        error = InputError(
            "requests are served by the serving engine, which shares links as `flow` does",
            key="engine",
            found=name,
            hint="leave `engine` out",
        )
        raise error.located(file=f"--engine {name}") if engine else draft.blame(error)
