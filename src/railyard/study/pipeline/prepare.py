"""Everything that a pipeline needs, made before anything is simulated: input errors appear here, not later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.economics.assumptions import Assumptions
from railyard.errors import InputError
from railyard.scenario.load import blaming, dump
from railyard.scenario.pipeline import (
    EncodeStage,
    HostStage,
    RetrieveStage,
    ToolStage,
)
from railyard.study import compose
from railyard.study.memo import Memo
from railyard.study.pipeline.batched import encoder, search
from railyard.study.pipeline.model_stage import answer
from railyard.study.pipeline.outside import Host, Tool
from railyard.study.pipeline.site import Site
from railyard.study.pipeline.through import through
from railyard.study.serving.requests import requests_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.catalog import Catalog
    from railyard.cluster import Cluster
    from railyard.scenario.pipeline import StageSection
    from railyard.scenario.variants import Variant
    from railyard.study.pipeline.stage import Hardware, Stage
    from railyard.study.pipeline.through import Journey, Tell
    from railyard.workload.serving.requests import Requests

_STAGES = ("workload", "pipeline", "stages")


@dataclass(frozen=True, eq=False)
class PipelineJob:
    """One variant, ready to run.

    Attributes:
        variant: Its name, settings and scenario.
        network: The cluster of the scenario, whose network all stages are on.
        stages: By name, in order.
        requests: What is asked.
        assumptions: Prices and rates.
    """

    variant: Variant
    network: Cluster
    stages: Mapping[str, Stage]
    requests: Requests
    assumptions: Assumptions

    def run(self, requests: Requests, tell: Tell | None = None) -> Journey:
        """Sends requests through all stages."""
        scenario = self.variant.draft.scenario
        return through(scenario.pipeline, self.stages, requests, scenario.seed, tell)


def prepare(variants: Sequence[Variant], engine: str | None = None) -> list[PipelineJob]:
    """All variants of a scenario, ready to run.

    Raises:
        InputError: One of them cannot be run; with the place in the scenario.
    """
    del engine  # there is one that serves requests
    memo = Memo()
    return [job_of(variant, memo) for variant in variants]


def job_of(variant: Variant, memo: Memo) -> PipelineJob:
    """One variant, ready to run.

    Args:
        variant: With a pipeline.
        memo: What other variants have made.

    Raises:
        InputError: It cannot be run; with the place in the scenario.
    """
    draft = variant.draft
    scenario = draft.scenario
    catalog: Catalog = memo.get("catalog", scenario.catalog, lambda: compose.catalog_of(draft))
    key = [scenario.catalog, dump(scenario.cluster)]
    network: Cluster = memo.get("cluster", key, lambda: compose.cluster_of(draft, catalog))
    with blaming(draft, "economics"):
        assumptions = Assumptions.from_catalog(catalog, scenario.economics.given())
    pipeline = scenario.pipeline
    asked = [dump(pipeline.requests), scenario.seed]
    requests: Requests = memo.get("requests", asked, lambda: requests_of(draft))
    site = Site(draft, catalog, network, memo)
    stages = {name: _stage(name, section, site) for name, section in pipeline.stages.items()}
    used = sum(nics_of(one) for stage in stages.values() for one in stage.hardware)
    room = network.bill().count("nic")
    if used > room:
        raise draft.blame(
            InputError(
                f"the stages need {used:.0f} ports of the network, which has {room}",
                key="cluster.accelerators",
                found=scenario.cluster.accelerators,
                hint="raise `cluster.accelerators`",
            )
        )
    return PipelineJob(variant, network, stages, requests, assumptions)


def nics_of(hardware: Hardware) -> float:
    """Ports of the network that devices need: their share of their servers' NICs."""
    return hardware.count * hardware.cluster.server.nics_per_accelerator


def _stage(name: str, section: StageSection, site: Site) -> Stage:
    with blaming(site.draft, *_STAGES, name):
        if isinstance(section, EncodeStage):
            devices = section.replicas * section.tp
            hardware = site.devices(section.server, devices, section.kind, section.replicas)
            return encoder(site.catalog, section, hardware, site.memo)
        if isinstance(section, RetrieveStage):
            devices = section.replicas * section.shards
            return search(section, site.devices(section.server, devices, section.kind, section.replicas))
        if isinstance(section, ToolStage):
            return Tool(name, section)
        if isinstance(section, HostStage):
            each = site.catalog.accelerator(site.catalog.server(section.server).accelerator).sm_count
            hardware = site.devices(section.server, -(-section.cores // each), "host", 1)
            return Host(name, section, hardware.nic_bps, (hardware,))
        return answer(name, section, site)
