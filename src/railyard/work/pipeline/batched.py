"""Stages that serve batches: encoders of texts, and searches of vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from railyard.catalog import Range
from railyard.cluster import ClusterSpec, build
from railyard.collective.lowering.table import lower_transfers
from railyard.engine.serving import Cost, Deployment, Pool, Router
from railyard.engine.stage import PS, SERVING, BatchingStage, Cores, Drafting, Tool
from railyard.kit.errors import InputError
from railyard.measure.cost.evaluate import Use
from railyard.measure.result.serving import DraftFigures, ReplicaRow
from railyard.model.machine import Machine
from railyard.work.serving.cost import IterationCost, iteration_cost
from railyard.work.serving.costing import cost_of
from railyard.work.serving.figures import drawn_w, metered_j
from railyard.work.serving.layout import ServingLayout
from railyard.work.serving.memory import BUSY, IDLE, MEMORY
from railyard.work.serving.prepare import SOFTWARE
from railyard.work.serving.reuse import Index, search_s
from railyard.work.serving.software import profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from railyard.catalog import Catalog
    from railyard.cluster import Cluster, NetworkSpec
    from railyard.engine.stage import Stage
    from railyard.graph import Record, RequestTable
    from railyard.work.pipeline.section import DraftSection, EncodeStage, HostStage, RetrieveStage, ToolStage
    from railyard.work.scenario.load import Draft
    from railyard.work.serving.prepare import ServingJob
    from railyard.work.study.provenance import Memo


@dataclass(frozen=True)
class BuiltHardware:
    """Devices of a stage, for the bill."""

    cluster: Cluster
    count: int
    role: str
    replicas: int

    @property
    def nic_bps(self) -> float:
        """Rate of one of its NICs' links."""
        return self.cluster.spec.back_end.link_rate_bps or self.cluster.nic.rate_bps


@dataclass(frozen=True, eq=False)
class Built:
    """A stage, ready to run.

    Attributes:
        uses: Time shares of its devices over a run of some seconds, given the stage's visits.
        replicas: Rows of the result's `replicas`, from the same arguments.
        notes: Notes on its figures, given the requests that used it.
        draft: Figures of its draft model; None if it has none.
    """

    kind: str
    stage: Stage
    hardware: tuple[BuiltHardware, ...]
    uses: Callable[[Record, float], list[Use]]
    replicas: Callable[[Record, float], Sequence[ReplicaRow]] = lambda *_: ()
    notes: Callable[[RequestTable, Record], Iterable[str]] = lambda *_: ()
    draft: Callable[[Record], DraftFigures | None] = lambda _: None


@dataclass(frozen=True)
class StageSite:
    """The site of all stages."""

    draft: Draft
    catalog: Catalog
    network: Cluster
    memo: Memo

    def devices(self, server: str, count: int, role: str, replicas: int) -> BuiltHardware:
        """A number of devices of a server type, in whole servers on the scenario's network.

        Raises:
            InputError: The server is unknown.
        """
        back_end = self.back_end(server)
        each = self.catalog.server(server).accelerators
        total = max(-(-count // each), 1) * each
        spec = ClusterSpec(total, server, back_end)
        key = [server, total, repr(back_end)]
        cluster: Cluster = self.memo.get("devices", key, lambda: build(spec, self.catalog))
        return BuiltHardware(cluster, count, role, replicas)

    def back_end(self, server: str) -> NetworkSpec:
        """The scenario's network with a server's NICs: at their own rate if they are slower."""
        back_end, nic = self.network.spec.back_end, self.catalog.nic(self.catalog.server(server).nic)
        rate = back_end.link_rate_bps
        return back_end if rate is None or rate <= nic.rate_bps else replace(back_end, link_rate_bps=None)


def tool(name: str, section: ToolStage) -> Built:
    """An external tool.

    Raises:
        InputError: The delays do not fit a distribution.
    """
    stage = Tool(name, section.delay, section.p99, section.at_most, float(section.size))
    return Built("tool", stage, (), lambda _visits, _span_s: [])


def host(section: HostStage, hardware: BuiltHardware) -> Built:
    """Cores of a server's processors."""
    stage = Cores(
        section.cores, section.per_request, section.per_input_token, section.per_output_token, hardware.nic_bps
    )
    return Built("host", stage, (hardware,), partial(_processors_uses, hardware))


def _processors_uses(on: BuiltHardware, visits: Record, span_s: float) -> list[Use]:
    device = on.cluster.accelerator
    busy = min(visits.meta["busy_s"] / span_s / (on.count * device.sm_count), 1.0) if span_s > 0 else 0.0
    idle, full = device.idle_power_w, device.power_w
    drawn = [
        getattr(idle, end) + busy * max(getattr(full, end) - getattr(idle, end), 0.0)
        for end in ("low", "typical", "high")
    ]
    return [Use(device, on.count, Range(*drawn), prompt=busy)]


_TOKEN_BYTES, _PROBABILITY_BYTES = 4.0, 2.0


@dataclass(frozen=True, eq=False)
class Drafts:
    """Accelerators that run a draft model.

    Attributes:
        cost: Cost of an iteration of one replica of it.
    """

    drafting: Drafting
    hardware: BuiltHardware
    cost: IterationCost

    def use(self, settled: Drafting, run: Record, span_s: float) -> Use:
        """Time shares of the run."""
        device, count, copies = self.hardware.cluster.accelerator, self.hardware.count, self.hardware.replicas
        iterations = float(run.table("replicas")["iterations"].sum()) / max(settled.checked_by * copies, 1.0)
        busy = min(iterations * settled.tokens * settled.pass_s / span_s, 1.0) if span_s > 0 else 0.0
        watt = copies * (self.cost.idle_w + busy * self.cost.busy_w)
        return Use(device, count, drawn_w(device, watt * span_s, count, span_s), decode=busy)


def drafts_of(section: DraftSection, job: ServingJob, site: StageSite) -> Drafts:
    """The draft accelerators of a section.

    Raises:
        InputError: The draft model is unknown or does not fit.
    """
    catalog, network = site.catalog, site.network
    hardware = site.devices(section.server, section.replicas * section.tp, "draft", section.replicas)
    cluster, device = hardware.cluster, hardware.cluster.accelerator
    layout = ServingLayout(tp=section.tp, precision=section.precision)
    cost = iteration_cost(catalog.model(section.model), layout, Machine.of(cluster), profile(SOFTWARE, device))
    checking = sum(pool.replicas for pool in job.pools if pool.role != "prefill")
    context = float(job.requests.input_tokens.mean() + job.requests.output_tokens.mean() / 2)
    nic = min(hardware.nic_bps, job.cluster.spec.back_end.link_rate_bps or job.cluster.nic.rate_bps)
    vocabulary = catalog.model(job.section.model).vocab if section.distributions else 0

    def pass_s(sequences: float) -> float:
        batch = np.array([sequences])
        return float(cost.seconds(batch, batch, batch * context, np.zeros(1))[0])

    drafting = Drafting(
        tokens=section.tokens,
        acceptance=section.acceptance,
        pass_law_s=pass_s,
        checked_by=checking / section.replicas,
        latency_s=_latency_s(network) if section.latency is None else section.latency,
        rate_bps=nic * network.fabric.payload_efficiency,
        guess_bytes=_TOKEN_BYTES + _PROBABILITY_BYTES * vocabulary,
    )
    return Drafts(drafting, hardware, cost)


def draft_figures(settled: Drafting) -> DraftFigures:
    """The result's `draft` of a stage."""
    return DraftFigures(
        batch=settled.batch,
        pass_s=settled.pass_s,
        travel_s=settled.travel_s,
        wait_s=settled.each_s * settled.tokens,
        tokens_per_iteration=settled.guess.yields,
    )


def _latency_s(network: Cluster) -> float:
    """One-way latency of a small message between two servers of the network, or within one if there is only one."""
    far = np.array([network.ranks - 1], np.int32)
    one = np.ones(1, np.int32)
    table = lower_transfers(network, np.zeros(1, np.int32), far, np.array([4096], np.int64), one)
    return float(table.alone_ps[0]) / PS


_FLOAT_BYTES = 4.0
_SCORE_BYTES = 8.0


def encoder(catalog: Catalog, section: EncodeStage, hardware: BuiltHardware, memo: Memo) -> Built:
    """An encoder: prefill only, with full attention unless the model is causal.

    Raises:
        InputError: The model does not fit, or its texts are longer than a batch.
    """
    # Of the table of embeddings only the rows of its tokens are read, and there is no projection to words.
    model = replace(catalog.model(section.model), vocab=1)
    layout = ServingLayout(tp=section.tp, precision=section.precision)
    software = profile(section.software or SOFTWARE, hardware.cluster.accelerator)
    cost = cost_of(model, hardware.cluster, layout, software, most=section.max_batched_tokens, memo=memo)
    most = min(model.max_seq, section.max_batched_tokens)
    if section.tokens is not None and section.tokens > most:
        raise InputError(
            "a text must fit into the model and into a batch", key="tokens", found=section.tokens, allowed=most
        )
    directions = 1.0 if section.causal else 2.0  # every query sees every key, not only those before it
    core = replace(cost, attention_per_pair_s=directions * cost.attention_per_pair_s)
    pool = Pool(
        name=section.kind,
        cost=core,
        replicas=section.replicas,
        kv_blocks=max(int(cost.kv_capacity_tokens) // 16, 1),
        max_sequences=section.max_sequences,
        max_batched_tokens=section.max_batched_tokens,
        chunked=section.causal,
    )
    carried = section.items * (model.hidden * _FLOAT_BYTES if section.kind == "embed" else _SCORE_BYTES)
    stage = BatchingStage(
        deployment=Deployment((pool,), Router("least-loaded")),
        nic_bps=hardware.nic_bps,
        items=section.items,
        tokens=section.tokens,
        most_tokens=most,
        entry_ps=round(section.overhead * PS),
        carries_bytes=carried,
    )
    return _built(section.kind, stage, hardware)


def search(section: RetrieveStage, hardware: BuiltHardware) -> Built:
    """A search of vectors: a query counts as one token, and a batch of B takes what the law of the index says.

    Raises:
        InputError: The index does not fit.
    """
    device = hardware.cluster.accelerator
    size = section.vector_size or 4 * section.dimensions
    index = Index(section.index, section.vectors, section.dimensions, size, section.probed, section.visited)
    queries = np.arange(1, section.batch + 1, dtype=np.int64)
    seconds = search_s(index, device, queries, section.shards)
    limit = device.tdp_w * section.shards
    cost = Cost(
        tokens=queries if len(queries) > 1 else np.array([1, 2]),
        compute_s=seconds if len(queries) > 1 else np.repeat(seconds, 2),
        network_s=np.zeros(max(len(queries), 2)),
        idle_w=IDLE * limit,
        busy_w=(BUSY + MEMORY) * limit,
    )
    pool = Pool(
        name="retrieve",
        cost=cost,
        replicas=section.replicas,
        max_sequences=section.batch,
        max_batched_tokens=section.batch,
    )
    stage = BatchingStage(
        deployment=Deployment((pool,), Router("least-loaded")),
        nic_bps=hardware.nic_bps,
        items=1,
        tokens=1,
        most_tokens=1,
        entry_ps=round(section.overhead * PS),
        carries_bytes=float(section.top * section.passage),
    )
    return _built("retrieve", stage, hardware)


def _built(kind: str, stage: BatchingStage, hardware: BuiltHardware) -> Built:
    return Built(kind, stage, (hardware,), partial(_uses, hardware, stage.deployment.pools[0].cost.idle_w), _replicas)


def _uses(hardware: BuiltHardware, idle_w: float, visits: Record, span_s: float) -> list[Use]:
    run = visits.parts[SERVING]
    totals, device = run.table("replicas"), hardware.cluster.accelerator
    busy = float(totals["busy_ps"].sum()) / PS / (span_s * len(totals["pool"])) if span_s > 0 else 0.0
    energy = metered_j(run, np.ones(len(totals["pool"]), np.bool_), idle_w, 0.0, span_s)
    return [Use(device, hardware.count, drawn_w(device, energy, hardware.count, span_s), prompt=min(busy, 1.0))]


def _replicas(visits: Record, span_s: float) -> list[ReplicaRow]:
    totals = visits.parts[SERVING].table("replicas")
    return [
        ReplicaRow(
            pool="both",
            busy=float(totals["busy_ps"][number] / PS / span_s) if span_s > 0 else 0.0,
            iterations=int(totals["iterations"][number]),
            input_tokens=int(totals["input_tokens"][number]),
            output_tokens=0,
            cached_tokens=0,
            kv_peak_share=0.0,
        )
        for number in range(len(totals["pool"]))
    ]
