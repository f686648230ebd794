"""The stage of a language model: the serving workload of `workload.serving` on a cluster of the stage's own size.

The stage is prepared as a separate serving workload, so that pools, routers, caches and transfers are those of a run
without stages. Drafts from other accelerators and sampling on the host are part of the costs of the replicas that
verify
and sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.bill import bill_of
from railyard.engine.stage import FIRST, PS, SERVING, RequestRule, columns, parts, visits
from railyard.engine.stage_chain import StageStep, StageTransfer, through
from railyard.kit.errors import InputError
from railyard.kit.quantities import ranges
from railyard.measure.serving.latencies import DROPPED, served
from railyard.work.pipeline.batched import (
    Built,
    BuiltHardware,
    StageSite,
    draft_figures,
    drafts_of,
    encoder,
    host,
    search,
    tool,
)
from railyard.work.pipeline.section import EncodeStage, HostStage, RetrieveStage, ToolStage, waits_for
from railyard.work.scenario.load import Variant, blaming, dump
from railyard.work.serving.figures import thrashed, too_long, uses_of
from railyard.work.serving.measuring import replicas_of
from railyard.work.serving.prepare import service_of
from railyard.work.serving.requests import requests_of
from railyard.work.serving.section import ServingSection
from railyard.work.study import compose
from railyard.work.study.provenance import sharing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from railyard.catalog import Catalog
    from railyard.cluster import Cluster
    from railyard.engine.serving import Pool
    from railyard.engine.stage import Drafting, Progress
    from railyard.graph import Record, RequestTable
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.measure.cost.evaluate import Use
    from railyard.work.pipeline.batched import Drafts
    from railyard.work.pipeline.section import ModelStage, PipelineSection, StageSection, WhenSection
    from railyard.work.scenario.cluster import ClusterSection
    from railyard.work.scenario.load import Draft
    from railyard.work.serving.prepare import ServingJob
    from railyard.work.study.provenance import Memo


_BYTES_PER_TOKEN = 4.0
_SCORE_BYTES = 4.0
_TRIAL = 400
"""Requests of a trial run that finds how many sequences decode at once."""


@dataclass(frozen=True, eq=False)
class Answer:
    """A language model as the stage engine runs it.

    Attributes:
        nic_bps: Rate of a NIC of the prefill replicas.
        drafting: Drafts from other accelerators; None without.
    """

    section: ModelStage
    job: ServingJob
    nic_bps: float
    drafting: Drafting | None

    def sends_bytes(self, requests: RequestTable) -> NDArray[np.float64]:
        """Bytes of the text of prompt and response."""
        out = requests.output_tokens if self.section.output is None else self.section.output
        return np.asarray(_BYTES_PER_TOKEN * (requests.input_tokens + out), np.float64)

    def run(self, requests: RequestTable, rows: NDArray[np.int64], seed: int, progress: Progress | None) -> Record:
        """Runs prompts and responses."""
        del seed
        asked = self.asked(requests)
        if self.drafting is None:
            return self._visits(asked, rows, self.job.run(asked, progress=progress), {})
        trial = asked.head(_TRIAL)
        drafting = self.drafting.settled(lambda found: self._with(found).run(trial), self._decodes)
        run = self._with(drafting).run(asked, progress=progress)
        return self._visits(asked, rows, run, {"draft_batch": drafting.batch})

    def _with(self, drafting: Drafting) -> ServingJob:
        return replace(self.job, deployment=drafting.applied(self.job.deployment))

    @property
    def _decodes(self) -> NDArray[np.bool_]:
        """bool[replicas], those that verify drafts."""
        return np.array([self.job.pools[number].role != "prefill" for number in self.job.deployment.pool_of_replica])

    def asked(self, requests: RequestTable) -> RequestTable:
        """The requests as this model receives them."""
        section, count = self.section, len(requests)
        prompt = requests.input_tokens if section.input is None else np.full(count, section.input, np.int32)
        answer = requests.output_tokens if section.output is None else np.full(count, section.output, np.int32)
        columns: dict[str, Any] = {"input_tokens": prompt + np.int32(section.add_input), "output_tokens": answer}
        if section.input is not None or requests.block_tokens == 0:
            columns |= {"block_ptr": np.zeros(0, np.int64), "block_hash": np.zeros(0, np.uint64), "block_tokens": 0}
        elif section.add_input:
            columns |= _full_blocks(requests)
        return replace(requests, **columns)

    def _visits(self, asked: RequestTable, rows: NDArray[np.int64], run: Record, meta: dict[str, Any]) -> Record:
        found = served(
            asked.arrival_ps,
            asked.input_tokens,
            asked.output_tokens,
            run,
            entry_ps=self.job.entry_ps,
            handover_ps=self.job.handover_ps,
        )
        steps = np.maximum(asked.output_tokens - 1.0, 0.0)
        decode = np.where(steps > 0, np.nan_to_num(found.decode_collectives_s) * steps, 0.0)
        later = np.nan_to_num(found.e2e_s - found.ttft_s)
        first = np.nan_to_num(
            parts(
                queue=found.queue_s, compute=found.compute_s, collectives=found.collectives_s, transfer=found.transfer_s
            )
        )
        done = found.done
        seen_ps = np.where(done, asked.arrival_ps + np.rint(np.nan_to_num(found.ttft_s) * PS).astype(np.int64), -1)
        return visits(
            rows,
            asked.arrival_ps,
            np.where(done, np.maximum(run.end_ps, seen_ps), -1),
            first + parts(collectives=decode, compute=later - decode),
            refused=np.asarray(found.status == DROPPED),
            overloaded=run.meta["overloaded"],
            optional={
                "first_token_ps": seen_ps,
                **columns(FIRST, first),
                "decode_collectives_s": np.nan_to_num(found.decode_collectives_s),
                "cached_tokens": found.cached_tokens,
            },
            run=replace(run, work=asked),
            meta=meta,
        )


def _full_blocks(requests: RequestTable) -> dict[str, Any]:
    """Hashes of the blocks that are full before anything is appended."""
    known = np.diff(requests.block_ptr)
    count = np.minimum(known, requests.input_tokens // requests.block_tokens)
    return {
        "block_ptr": np.concatenate(([0], np.cumsum(count))),
        "block_hash": requests.block_hash[ranges(requests.block_ptr[:-1], count)],
    }


def answer(name: str, section: ModelStage, site: StageSite) -> Built:
    """The stage of a language model, ready to run.

    Raises:
        InputError: It cannot be run; names its place in the scenario.
    """
    draft, catalog = site.draft, site.catalog
    machine = _machine(section, site)
    place = ("workload", "pipeline", "stages", name)
    job = service_of(Variant(name, {}, draft), _serving(section, draft), machine, place, site.memo)
    if section.sampling is not None:
        job = _sampled(job, section, catalog)
    drafts = None if section.draft is None else drafts_of(section.draft, job, site)
    pools = tuple(BuiltHardware(pool.cluster, int(pool.ranks.size), pool.role, pool.replicas) for pool in job.pools)
    nic_bps = min(one.nic_bps for one in pools if one.role != "decode")
    stage = Answer(section, job, nic_bps, None if drafts is None else drafts.drafting)
    return Built(
        kind="model",
        stage=stage,
        hardware=pools if drafts is None else (*pools, drafts.hardware),
        uses=partial(_uses, job, drafts),
        replicas=lambda visited, span_s: replicas_of(job, visited.parts[SERVING], span_s),
        notes=partial(_notes, stage),
        draft=lambda visited: None if drafts is None else draft_figures(_settled(drafts, visited)),
    )


def _settled(drafts: Drafts, visited: Record) -> Drafting:
    """The guesses with the batch that the run found."""
    return replace(drafts.drafting, batch=visited.meta["draft_batch"])


def _uses(job: ServingJob, drafts: Drafts | None, visited: Record, span_s: float) -> list[Use]:
    run = visited.parts[SERVING]
    uses = uses_of(job, run, span_s)[: len(job.pools)]
    return uses if drafts is None else [*uses, drafts.use(_settled(drafts, visited), run, span_s)]


def _notes(stage: Answer, requests: RequestTable, visited: Record) -> Iterator[str]:
    asked = stage.asked(requests)
    yield from too_long(asked, stage.job.model)
    yield from thrashed(asked, visited.parts[SERVING])


def _machine(section: ModelStage, site: StageSite) -> ClusterSection:
    """The scenario's cluster with the stage's servers, as many as its pools need."""
    written = site.draft.scenario.cluster
    server = section.server or written.server
    back_end = written.back_end
    if site.back_end(server).link_rate_bps != site.network.spec.back_end.link_rate_bps:
        back_end = back_end.model_copy(update={"link_rate": None})
    devices = size_of(section, site.catalog, server)
    return written.model_copy(update={"server": server, "accelerators": devices, "back_end": back_end})


def _serving(section: ModelStage, draft: Draft) -> ServingSection:
    """The stage as a serving workload that is asked what the pipeline is."""
    keys = {name: getattr(section, name) for name in ServingSection.model_fields if name in type(section).model_fields}
    if section.input is not None:  # prompts of its own have nothing in common that is known
        keys["cache"] = keys["cache"].model_copy(update={"prefix": False})
    return ServingSection.model_construct(requests=draft.scenario.pipeline.requests, **keys)


def size_of(section: ModelStage, catalog: Catalog, server: str) -> int:
    """Devices of whole servers on which all pools find room, none of their replicas across two domains.

    Pools of two kinds of servers share none.

    Raises:
        InputError: A pool does not say how many replicas it has.
    """
    known = catalog.server(server)
    devices, last = 0, None
    for role, pool in section.pools.given.items():
        if pool.replicas is None:
            raise InputError("a stage says how many replicas a pool has", key=f"pools.{role}.replicas")
        for key in ("attention", "network"):
            if getattr(pool, key) is not None:
                raise InputError(
                    "pools of a stage have all of a layer on the same accelerators, and the network of the pipeline",
                    key=f"pools.{role}.{key}",
                    hint="a scenario with `serving` in place of `pipeline` may have it",
                )
        if last not in {None, pool.server or server}:
            devices = math.ceil(devices / known.accelerators) * known.accelerators
        last = pool.server or server
        each = pool.tp * pool.pp * pool.dp_attention * pool.cp
        domain = known.scale_up_domain
        devices += math.ceil(pool.replicas / (domain // each)) * domain if each <= domain else pool.replicas * each
    servers = max(known.accelerators, known.scale_up_domain if known.scale_up_domain > known.accelerators else 1)
    return math.ceil(devices / servers) * servers


def _sampled(job: ServingJob, section: ModelStage, catalog: Catalog) -> ServingJob:
    """The job with sampling on the host: the vocabulary's scores over PCIe, and the time of a core for a token."""
    sampling = section.sampling
    if sampling is None:
        return job
    vocabulary = catalog.model(section.model).vocab

    def slower(number: int, pool: Pool) -> Pool:
        server = job.pools[number].cluster.server
        each = vocabulary * _SCORE_BYTES * 8 / server.pcie_bps + sampling.per_token / sampling.cores
        cost = replace(pool.cost, host_per_seq_s=pool.cost.host_per_seq_s + each)
        return replace(pool, cost=cost)

    return with_pools(job, dict(enumerate(slower(number, pool) for number, pool in enumerate(job.deployment.pools))))


def with_pools(job: ServingJob, pools: Mapping[int, Pool]) -> ServingJob:
    """The job with other pools in the places of some."""
    changed = tuple(pools.get(number, pool) for number, pool in enumerate(job.deployment.pools))
    return replace(job, deployment=replace(job.deployment, pools=changed))


_STAGES = ("workload", "pipeline", "stages")


@dataclass(frozen=True, eq=False)
class PipelineJob:
    """One variant, ready to run.

    Attributes:
        network: The cluster of the scenario, whose network all stages are on.
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
        between = StageTransfer(section.between.latency, section.between.rate)
        return through(steps, requests, between=between, seed=seed, progress=progress)


def job_of(variant: Variant, memo: Memo, section: PipelineSection | None = None) -> PipelineJob:
    """One variant, ready to run.

    Raises:
        InputError: It cannot be run; with the place in the scenario.
    """
    draft = variant.draft
    scenario = draft.scenario
    catalog = compose.shared_catalog(draft, memo)
    network = compose.shared_cluster(draft, catalog, memo)
    assumptions = compose.economics_of(draft, catalog)
    pipeline = section or scenario.pipeline
    asked = [dump(pipeline.requests), scenario.seed]
    requests: RequestTable = memo.get("requests", asked, lambda: requests_of(draft))
    site = StageSite(draft, catalog, network, memo)
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


prepare = sharing(job_of)


def _step(built: Built, stages: Mapping[str, StageSection], name: str) -> StageStep:
    section = stages[name]
    return StageStep(built.stage, waits_for(dict(stages), name), section.quorum, takers_of(section.when))


def takers_of(when: WhenSection) -> RequestRule:
    """Which requests take a stage, as the engine draws them."""
    return RequestRule(when.share, when.long, when.share_long, when.unless)


def nics_of(hardware: BuiltHardware) -> float:
    """Ports of the network that devices need: their share of their servers' NICs."""
    return hardware.count * hardware.cluster.server.nics_per_accelerator


def _stage(name: str, section: StageSection, site: StageSite) -> Built:
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
