"""Everything that a pipeline needs, made before anything is simulated: input errors appear here, not later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.cluster.bill import bill_of
from railyard.engine.stages import Between, StageStep, Takers, through
from railyard.kit.errors import InputError
from railyard.measure.cost.assumptions import Assumptions
from railyard.work.pipeline.batched import encoder, host, search, tool
from railyard.work.pipeline.built import Site
from railyard.work.pipeline.model_stage import answer
from railyard.work.pipeline.section import EncodeStage, HostStage, RetrieveStage, ToolStage, waits_for
from railyard.work.scenario.load import blaming, dump
from railyard.work.serving.requests import requests_of
from railyard.work.study import compose
from railyard.work.study.provenance import Memo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from railyard.catalog import Catalog
    from railyard.cluster import Cluster
    from railyard.graph import Record, RequestTable
    from railyard.work.pipeline.built import Built, BuiltHardware
    from railyard.work.pipeline.section import PipelineSection, StageSection, WhenSection
    from railyard.work.scenario.variants import Variant

_STAGES = ("workload", "pipeline", "stages")


@dataclass(frozen=True, eq=False)
class PipelineJob:
    """One variant, ready to run.

    Attributes:
        variant: Its name, settings and scenario.
        section: The stages as written.
        network: The cluster of the scenario, whose network all stages are on.
        stages: By name, in order.
        requests: What is asked.
        assumptions: Prices and rates.
    """

    variant: Variant
    section: PipelineSection
    network: Cluster
    stages: Mapping[str, Built]
    requests: RequestTable
    assumptions: Assumptions

    def run(self, requests: RequestTable, progress: Callable[[str, int], None] | None = None) -> Record:
        """Sends requests through all stages."""
        section, seed = self.section, self.variant.draft.scenario.seed
        steps = {name: _step(built, section.stages, name) for name, built in self.stages.items()}
        between = Between(section.between.latency, section.between.rate)
        return through(steps, requests, between=between, seed=seed, progress=progress)


def prepare(variants: Sequence[Variant], engine: str | None = None) -> list[PipelineJob]:
    """All variants of a scenario, ready to run.

    Raises:
        InputError: One of them cannot be run; with the place in the scenario.
    """
    del engine  # there is one that serves requests
    memo = Memo()
    return [job_of(variant, memo) for variant in variants]


def job_of(variant: Variant, memo: Memo, section: PipelineSection | None = None) -> PipelineJob:
    """One variant, ready to run.

    Args:
        variant: With a pipeline.
        memo: What other variants have made.
        section: In place of the scenario's pipeline.

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
    pipeline = section or scenario.pipeline
    asked = [dump(pipeline.requests), scenario.seed]
    requests: RequestTable = memo.get("requests", asked, lambda: requests_of(draft))
    site = Site(draft, catalog, network, memo)
    stages = {name: _stage(name, section, site) for name, section in pipeline.stages.items()}
    used = sum(nics_of(one) for stage in stages.values() for one in stage.hardware)
    room = bill_of(network).count("nic")
    if used > room:
        raise draft.blame(
            InputError(
                f"the stages need {used:.0f} ports of the network, which has {room}",
                key="cluster.accelerators",
                found=scenario.cluster.accelerators,
                hint="raise `cluster.accelerators`",
            )
        )
    return PipelineJob(variant, pipeline, network, stages, requests, assumptions)


def _step(built: Built, stages: Mapping[str, StageSection], name: str) -> StageStep:
    section = stages[name]
    return StageStep(built.stage, waits_for(dict(stages), name), section.quorum, takers_of(section.when))


def takers_of(when: WhenSection) -> Takers:
    """Which requests take a stage, as the engine draws them."""
    return Takers(when.share, when.long, when.share_long, when.unless)


def nics_of(hardware: BuiltHardware) -> float:
    """Ports of the network that devices need: their share of their servers' NICs."""
    return hardware.count * hardware.cluster.server.nics_per_accelerator


def _stage(name: str, section: StageSection, site: Site) -> Built:
    with blaming(site.draft, *_STAGES, name):
        if isinstance(section, EncodeStage):
            devices = section.replicas * section.tp
            hardware = site.devices(section.server, devices, section.kind, section.replicas)
            return encoder(site.catalog, section, hardware, site.memo)
        if isinstance(section, RetrieveStage):
            devices = section.replicas * section.shards
            return search(section, site.devices(section.server, devices, section.kind, section.replicas))
        if isinstance(section, ToolStage):
            return tool(name, section)
        if isinstance(section, HostStage):
            each = site.catalog.accelerator(site.catalog.server(section.server).accelerator).sm_count
            hardware = site.devices(section.server, -(-section.cores // each), "host", 1)
            return host(section, hardware)
        return answer(name, section, site)
