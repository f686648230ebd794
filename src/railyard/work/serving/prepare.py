"""Everything that a serving run needs, made before anything is simulated: input errors appear here, not later."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.machine import UNLIMITED
from railyard.engine.flow import kept
from railyard.engine.serving import simulate
from railyard.kit.errors import InputError, Refusals
from railyard.work.scenario.load import blaming, dump
from railyard.work.scenario.section import fault_of
from railyard.work.serving.closed_loop import arrival_s
from railyard.work.serving.costing import costs_of
from railyard.work.serving.deployment import deployment, replica_deaths
from railyard.work.serving.links import loads_from, replica_links, with_collectives, with_storage
from railyard.work.serving.networks import networks_of
from railyard.work.serving.placing import PROMPTS, ROLES, check_pools, separate_needs
from railyard.work.serving.placing import place as place_pools
from railyard.work.serving.requests import requests_of
from railyard.work.serving.software import profile, read_profiles
from railyard.work.study import compose
from railyard.work.study.deaths import words
from railyard.work.study.provenance import Memo, sharing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.catalog import Model
    from railyard.cluster import Cluster
    from railyard.engine.lowering import Free
    from railyard.engine.serving import Deployment, Links
    from railyard.graph import Record
    from railyard.graph.request_table import RequestTable
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.work.scenario.cluster import ClusterSection
    from railyard.work.scenario.load import Draft, Variant
    from railyard.work.serving.cost import IterationCost
    from railyard.work.serving.deployment import ReplicaDeath
    from railyard.work.serving.networks import ServingNetworks
    from railyard.work.serving.placing import PlacedPool
    from railyard.work.serving.section import ServingSection
    from railyard.work.serving.software import Profiles


_SERVING = ("workload", "serving")
SOFTWARE = "vllm"
"""The engine where the scenario names none: the one that most published measurements ran on."""


@dataclass(frozen=True)
class ServingJob:
    """One variant, ready to run.

    Attributes:
        cluster: On what it runs; the network between its pools.
        networks: That, and those of pools that have their own.
        pools: On which ranks, with which machine and layout.
    """

    variant: Variant
    section: ServingSection
    model: Model
    cluster: Cluster
    networks: ServingNetworks
    pools: tuple[PlacedPool, ...]
    costs: tuple[Any, ...]
    software: tuple[Any, ...]
    deployment: Deployment
    requests: RequestTable
    assumptions: Assumptions
    deaths: tuple[ReplicaDeath, ...] = ()

    @property
    def entry_ps(self) -> int:
        """Time from the arrival of a request until an engine has it: tokenizer of a mean prompt, first schedule."""
        first = next(number for number, pool in enumerate(self.pools) if pool.role != "decode")
        entry_s: float = arrival_s(self.software[first], float(np.mean(self.requests.input_tokens)))
        return round(entry_s * 1e12)

    @property
    def handover_ps(self) -> int:
        """What engines need in addition to the transfer for a request that goes on to another pool."""
        return handover_ps(self.pools, self.software)

    def run(
        self, requests: RequestTable, *, log: Sequence[int] = (), progress: Callable[[int, int], None] | None = None
    ) -> Record:
        """Serves requests, which reach the engines `entry_ps` after their arrival."""
        entered = replace(requests, arrival_ps=requests.arrival_ps + self.entry_ps)
        return simulate(
            entered,
            self.deployment,
            seed=self.variant.draft.scenario.seed,
            log_replicas=log,
            users=self.section.requests.users,
            think_ps=self.think_ps + self.entry_ps,
            progress=progress,
        )

    @property
    def think_ps(self) -> int:
        """Time from an answer to its user's next request, in a closed loop."""
        drawn = self.section.requests.synthetic
        return round(((drawn and drawn.think) or 0.0) * 1e12)

    def as_sent(self, run: Record) -> ServingJob:
        """The job with its requests as a closed loop's users sent them; as it is where they came by themselves."""
        if not self.section.requests.users:
            return self
        return replace(self, requests=replace(self.requests, arrival_ps=run.start_ps - self.entry_ps))


def profiles_of(folder: Path, name: str | None) -> Profiles:
    """The profiles of a scenario's own file, which stand over those that ship.

    Raises:
        InputError: The file cannot be read or is wrong.
    """
    if name is None:
        return {}
    if not (folder / name).is_file():
        raise InputError("there is no such file of profiles", key="profiles", found=name)
    return read_profiles(folder / name)


def job_of(variant: Variant, memo: Memo) -> ServingJob:
    """One variant, ready to run.

    Raises:
        InputError: It cannot be run; with the place in the scenario.
    """
    scenario = variant.draft.scenario
    return service_of(variant, scenario.serving, scenario.cluster, _SERVING, memo, dies=True)


prepare = sharing(job_of)


def service_of(
    variant: Variant,
    serving: ServingSection,
    machine: ClusterSection,
    place: tuple[str, ...],
    memo: Memo,
    *,
    dies: bool = False,
) -> ServingJob:
    """One model that answers, ready to run: a scenario's, or a stage of its pipeline.

    Raises:
        InputError: It cannot be run; with the place in the scenario.
    """
    draft, wrong = variant.draft, Refusals()
    catalog = compose.shared_catalog(draft, memo)
    with wrong:
        cluster = compose.shared_cluster(draft, catalog, memo, machine)
        return service_on(cluster, variant, serving, place, memo, dies=dies)
    service_inputs(variant, serving, place, memo, wrong)
    raise InputError.many(wrong.problems)


def service_inputs(
    variant: Variant, serving: ServingSection, place: tuple[str, ...], memo: Memo, wrong: Refusals
) -> tuple[Model, Assumptions, RequestTable, Profiles] | None:
    """What does not depend on the cluster: model, prices, requests, profiles; None where one is refused."""
    draft = variant.draft
    catalog = compose.shared_catalog(draft, memo)
    asked = [dump(serving.requests), draft.seed]
    requests = wrong.kept(lambda: memo.get("requests", asked, lambda: requests_of(draft)))
    model = assumptions = profiles = None
    with wrong, blaming(draft, *place, "model"):
        model = compose.model_of(draft.folder, serving.model, catalog)
    with wrong:
        assumptions = compose.economics_of(draft, catalog)
    with wrong, blaming(draft, *place):
        check_pools(serving, catalog)
    with wrong, blaming(draft, *place):
        profiles = memo.get("profiles", serving.profiles, lambda: profiles_of(draft.folder, serving.profiles))
    if model is None or assumptions is None or requests is None or profiles is None:
        return None
    return model, assumptions, requests, profiles


def service_on(
    cluster: Cluster,
    variant: Variant,
    serving: ServingSection,
    place: tuple[str, ...],
    memo: Memo,
    *,
    dies: bool = False,
) -> ServingJob:
    """One model that answers on a cluster, ready to run.

    Raises:
        InputError: It cannot be run; with the place in the scenario.
    """
    draft, wrong = variant.draft, Refusals()
    catalog = compose.shared_catalog(draft, memo)
    parts = service_inputs(variant, serving, place, memo, wrong)
    placed = None
    with wrong, blaming(draft, *place):
        networks = networks_of(serving, catalog, cluster, separate_needs(serving))
        placed = networks, place_pools(serving, catalog, networks)
    wrong.raise_all()
    assert parts is not None  # else `wrong` has raised
    assert placed is not None
    (model, assumptions, requests, profiles), (networks, pools) = parts, placed
    with blaming(draft, *place):
        software = tuple(
            profile(serving.software or SOFTWARE, pool.cluster.accelerator, profiles=profiles) for pool in pools
        )
        costs = costs_of(model, networks, pools, software, requests=requests, memo=memo, profiles=profiles)
        links = links_of(serving, networks, pools, costs, software)
    joined = networks.clusters[0]
    deaths = replica_deaths(draft, pools, joined) if dies else ()
    with blaming(draft, *place):
        deployed = deployment(serving, pools, costs, model=model, links=links, requests=requests, deaths=deaths)
    return ServingJob(
        variant, serving, model, joined, networks, pools, costs, software, deployed, requests, assumptions, deaths
    )


def handover_ps(pools: tuple[PlacedPool, ...], software: tuple[Any, ...]) -> int:
    """What engines need in addition to the transfer to the pool that decodes; 0 without such a pool."""
    behind = next((known for pool, known in zip(pools, software, strict=True) if pool.role == "decode"), None)
    return round(float(behind.handover_s) * 1e12) if behind else 0


def links_of(
    serving: ServingSection,
    networks: ServingNetworks,
    pools: tuple[PlacedPool, ...],
    costs: tuple[Any, ...],
    software: tuple[Any, ...],
) -> Links | None:
    """What transfers take: between pools, to storage, and from the collectives of the replicas.

    Raises:
        InputError: Two ranks have no path.
    """
    peers = ROLES if "peer" in loads_from(serving, pools) else PROMPTS if serving.router.move else ()
    late = handover_ps(pools, software)
    links = replica_links(networks, pools, serving.transfer.nic, among=peers, handover_ps=late)
    return with_collectives(with_storage(links, networks, pools, serving), networks, pools, costs)


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


def _inside(networks: ServingNetworks) -> NDArray[np.bool_]:
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
