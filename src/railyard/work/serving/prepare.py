"""Everything that a serving run needs, made before anything is simulated: input errors appear here, not later."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.engine.serving import simulate
from railyard.kit.errors import InputError, Refusals
from railyard.work.scenario.load import blaming, dump
from railyard.work.serving.costing import costs_of
from railyard.work.serving.deaths import replica_deaths
from railyard.work.serving.deployment import deployment
from railyard.work.serving.links import replica_links, with_collectives
from railyard.work.serving.networks import networks_of
from railyard.work.serving.placing import PROMPTS, ROLES, check_pools, separate_needs
from railyard.work.serving.placing import place as place_pools
from railyard.work.serving.requests import requests_of
from railyard.work.serving.software import profile, read_profiles
from railyard.work.serving.steady import arrival_s
from railyard.work.serving.storage import loads_from, with_storage
from railyard.work.study import compose
from railyard.work.study.provenance import Memo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.catalog import Model
    from railyard.cluster import Cluster
    from railyard.engine.serving import Deployment, Links
    from railyard.graph import Record
    from railyard.graph.request_table import RequestTable
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.work.scenario.cluster import ClusterSection
    from railyard.work.scenario.variants import Variant
    from railyard.work.serving.deaths import ReplicaDeath
    from railyard.work.serving.networks import Networks
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
        variant: Its name, settings and scenario.
        section: How it answers.
        model: What answers.
        cluster: On what it runs; the network between its pools.
        networks: That, and those of pools that have their own.
        pools: On which ranks, with which machine and layout.
        costs: An iteration of a replica of each pool.
        software: Names of the profiles.
        deployment: What the engine runs.
        requests: What is asked.
        assumptions: Prices and rates.
        deaths: What dies, and which replicas with it.
    """

    variant: Variant
    section: ServingSection
    model: Model
    cluster: Cluster
    networks: Networks
    pools: tuple[PlacedPool, ...]
    costs: tuple[Any, ...]
    software: tuple[Any, ...]
    deployment: Deployment
    requests: RequestTable
    assumptions: Assumptions
    deaths: tuple[ReplicaDeath, ...] = ()

    @property
    def entry_ps(self) -> int:
        """From the arrival of a request until an engine has it: tokenizer of a mean prompt, first schedule."""
        first = next(number for number, pool in enumerate(self.pools) if pool.role != "decode")
        entry_s: float = arrival_s(self.software[first], float(np.mean(self.requests.input_tokens)))
        return round(entry_s * 1e12)

    @property
    def handover_ps(self) -> int:
        """What engines need for a request that goes on to another pool, beside its way."""
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
        """From an answer to its user's next request, in a closed loop."""
        drawn = self.section.requests.synthetic
        return round(((drawn and drawn.think) or 0.0) * 1e12)

    def as_sent(self, run: Record) -> ServingJob:
        """The job with its requests as a closed loop's users sent them; as it is where they came by themselves."""
        if not self.section.requests.users:
            return self
        return replace(self, requests=replace(self.requests, arrival_ps=run.start_ps - self.entry_ps))


def prepare(variants: Sequence[Variant], engine: str | None = None) -> list[ServingJob]:
    """All variants of a scenario, ready to run.

    Raises:
        InputError: One of them cannot be run; with the place in the scenario.
    """
    del engine  # there is one that serves requests
    memo = Memo()
    return [job_of(variant, memo) for variant in variants]


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

    Args:
        variant: Its scenario names catalogue, prices, requests and seed.
        serving: How it answers.
        machine: What it runs on.
        place: Where the section stands in the scenario.
        memo: What other variants have made.
        dies: Whether the scenario's faults are its.

    Raises:
        InputError: It cannot be run; with the place in the scenario.
    """
    draft, scenario, wrong = variant.draft, variant.draft.scenario, Refusals()
    catalog = memo.get("catalog", scenario.catalog, lambda: compose.catalog_of(draft))
    key = [scenario.catalog, dump(machine)]
    with wrong:
        cluster = memo.get("cluster", key, lambda: compose.cluster_of(draft, catalog, machine))
        return service_on(cluster, variant, serving, place, memo, dies=dies)
    parts_of(variant, serving, place, memo, wrong)
    raise InputError.many(wrong.problems)


def parts_of(
    variant: Variant, serving: ServingSection, place: tuple[str, ...], memo: Memo, wrong: Refusals
) -> tuple[Model, Assumptions, RequestTable, Profiles] | None:
    """What does not depend on the cluster: model, prices, requests, profiles; None where one is refused.

    Args:
        variant: Its scenario names catalogue, prices and seed.
        serving: How it answers.
        place: Where the section stands in the scenario.
        memo: What other variants have made.
        wrong: Takes the errors.
    """
    from railyard.measure.cost.assumptions import Assumptions

    draft, scenario = variant.draft, variant.draft.scenario
    catalog = memo.get("catalog", scenario.catalog, lambda: compose.catalog_of(draft))
    asked = [dump(serving.requests), scenario.seed]
    requests = wrong.kept(lambda: memo.get("requests", asked, lambda: requests_of(draft)))
    model = assumptions = profiles = None
    with wrong, blaming(draft, *place, "model"):
        model = compose.model_of(draft.folder, serving.model, catalog)
    with wrong, blaming(draft, "economics"):
        assumptions = Assumptions.from_catalog(catalog, scenario.economics.given())
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

    Args:
        cluster: What it runs on.
        variant: Its scenario names catalogue, prices, requests and seed.
        serving: How it answers.
        place: Where the section stands in the scenario.
        memo: What other variants have made.
        dies: Whether the scenario's faults are its.

    Raises:
        InputError: It cannot be run; with the place in the scenario.
    """
    draft, scenario, wrong = variant.draft, variant.draft.scenario, Refusals()
    catalog = memo.get("catalog", scenario.catalog, lambda: compose.catalog_of(draft))
    parts = parts_of(variant, serving, place, memo, wrong)
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
    """What engines need for a request that goes on to the pool that decodes, beside the way; 0 without such a pool."""
    behind = next((known for pool, known in zip(pools, software, strict=True) if pool.role == "decode"), None)
    return round(float(behind.handover_s) * 1e12) if behind else 0


def links_of(
    serving: ServingSection,
    networks: Networks,
    pools: tuple[PlacedPool, ...],
    costs: tuple[Any, ...],
    software: tuple[Any, ...],
) -> Links | None:
    """What transfers take: between pools, to storage, and from the collectives of the replicas.

    Args:
        serving: As written.
        networks: Of the pools.
        pools: As replicas are numbered.
        costs: An iteration of a replica of each pool.
        software: Of each pool.

    Raises:
        InputError: Two ranks have no path.
    """
    peers = ROLES if "peer" in loads_from(serving, pools) else PROMPTS if serving.router.move else ()
    late = handover_ps(pools, software)
    links = replica_links(networks, pools, serving.transfer.nic, among=peers, handover_ps=late)
    return with_collectives(with_storage(links, networks, pools, serving), networks, pools, costs)
