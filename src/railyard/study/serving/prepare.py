"""Everything that a serving run needs, made before anything is simulated: input errors appear here, not later."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from railyard.engine.serving import simulate
from railyard.errors import InputError
from railyard.scenario.load import blaming, dump
from railyard.study import compose
from railyard.study.serving.collective_links import with_own
from railyard.study.serving.costing import costs_of
from railyard.study.serving.deployment import deployment
from railyard.study.serving.networks import networks_of
from railyard.study.serving.placing import PROMPTS, ROLES, own_needs, place
from railyard.study.serving.requests import requests_of
from railyard.study.serving.storage import loads_from, with_storage
from railyard.study.serving.transfer_links import ways
from railyard.workload.serving.devices import read_profiles
from railyard.workload.serving.profiles import profile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.catalog import Catalog, Model
    from railyard.cluster import Cluster
    from railyard.economics.assumptions import Assumptions
    from railyard.engine.serving import Deployment, ServingRun
    from railyard.scenario.variants import Variant
    from railyard.study.serving.networks import Networks
    from railyard.study.serving.placing import Placed
    from railyard.workload.serving.devices import Profiles
    from railyard.workload.serving.requests import Requests

_SERVING = ("workload", "serving")
SOFTWARE = "vllm"
"""The engine where the scenario names none: the one that most published measurements ran on."""


@dataclass(frozen=True)
class ServingJob:
    """One variant, ready to run.

    Attributes:
        variant: Its name, settings and scenario.
        model: What answers.
        cluster: On what it runs; the network between its pools.
        networks: That, and those of pools that have their own.
        pools: On which ranks, with which machine and layout.
        costs: An iteration of a replica of each pool.
        software: Names of the profiles.
        deployment: What the engine runs.
        requests: What is asked.
        assumptions: Prices and rates.
    """

    variant: Variant
    model: Model
    cluster: Cluster
    networks: Networks
    pools: tuple[Placed, ...]
    costs: tuple[Any, ...]
    software: tuple[Any, ...]
    deployment: Deployment
    requests: Requests
    assumptions: Assumptions

    @property
    def entry_ps(self) -> int:
        """From the arrival of a request until an engine has it: tokenizer, first schedule."""
        first = next(number for number, pool in enumerate(self.pools) if pool.role != "decode")
        return round(float(self.software[first].prompt_s) * 1e12)

    def run(
        self, requests: Requests, *, log: Sequence[int] = (), progress: Callable[[int, int], None] | None = None
    ) -> ServingRun:
        """Serves requests, which reach the engines `entry_ps` after their arrival."""
        entered = replace(requests, arrival_ps=requests.arrival_ps + self.entry_ps)
        scenario = self.variant.draft.scenario
        return simulate(
            entered,
            self.deployment,
            seed=scenario.seed,
            log_replicas=log,
            users=scenario.serving.requests.users,
            think_ps=self.think_ps + self.entry_ps,
            progress=progress,
        )

    @property
    def think_ps(self) -> int:
        """From an answer to its user's next request, in a closed loop."""
        drawn = self.variant.draft.scenario.serving.requests.synthetic
        return round(((drawn and drawn.think) or 0.0) * 1e12)

    def as_sent(self, run: ServingRun) -> ServingJob:
        """The job with its requests as a closed loop's users sent them; as it is where they came by themselves."""
        if not self.variant.draft.scenario.serving.requests.users:
            return self
        return replace(self, requests=replace(self.requests, arrival_ps=run.sent_ps - self.entry_ps))


def prepare(variants: Sequence[Variant], engine: str | None = None) -> list[ServingJob]:
    """All variants of a scenario, ready to run.

    Raises:
        InputError: One of them cannot be run; with the place in the scenario.
    """
    del engine  # there is one that serves requests
    known = Known()
    return [job_of(variant, known) for variant in variants]


class Known:
    """Catalogues, clusters, requests and costs of iterations that several variants share."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}

    def get(self, what: str, key: object, make: Any) -> Any:
        """What was made before under that name and key, or what `make` gives."""
        text = f"{what} {json.dumps(key, default=str, sort_keys=True)}"
        if text not in self._kept:
            self._kept[text] = make()
        return self._kept[text]


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


def job_of(variant: Variant, known: Known) -> ServingJob:
    """One variant, ready to run.

    Raises:
        InputError: It cannot be run; with the place in the scenario.
    """
    from railyard.economics.assumptions import Assumptions

    draft = variant.draft
    scenario, serving = draft.scenario, draft.scenario.serving
    catalog: Catalog = known.get("catalog", scenario.catalog, lambda: compose.catalog_of(draft))
    key = [scenario.catalog, dump(scenario.cluster)]
    cluster: Cluster = known.get("cluster", key, lambda: compose.cluster_of(draft, catalog))
    model = compose.model_of(draft, catalog)
    with blaming(draft, "economics"):
        assumptions = Assumptions.from_catalog(catalog, scenario.economics.given())
    asked = [dump(serving.requests), scenario.seed]
    requests: Requests = known.get("requests", asked, lambda: requests_of(draft))
    with blaming(draft, *_SERVING):
        networks = networks_of(serving, catalog, cluster, own_needs(serving))
        pools = place(serving, catalog, networks)
        own = known.get("profiles", serving.profiles, lambda: profiles_of(draft.folder, serving.profiles))
        software = tuple(profile(serving.software or SOFTWARE, pool.cluster.accelerator, own=own) for pool in pools)
        costs = costs_of(model, networks, pools, software, requests=requests, known=known, own=own)
        peers = ROLES if "peer" in loads_from(serving, pools) else PROMPTS if serving.router.move else ()
        between = ways(networks, pools, serving.transfer.nic, among=peers)
        between = with_storage(between, networks, pools, serving)
        between = with_own(between, networks, pools, costs)
        deployed = deployment(serving, pools, costs, model=model, links=between, hash_tokens=requests.block_tokens)
    joined = networks.clusters[0]
    return ServingJob(variant, model, joined, networks, pools, costs, software, deployed, requests, assumptions)
