"""Stages that serve batches: encoders of texts, and searches of vectors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.serving import Cost, Deployment, Pool, Router
from railyard.engine.stages import PS, SERVING, Batched
from railyard.kit.errors import InputError
from railyard.measure.cost.deployment import Use
from railyard.measure.result.serving import ReplicaRow
from railyard.work.pipeline.built import Built
from railyard.work.serving.costing import cost_of
from railyard.work.serving.layout import ServingLayout
from railyard.work.serving.power import BUSY, IDLE, MEMORY
from railyard.work.serving.prepare import SOFTWARE
from railyard.work.serving.profiles import profile
from railyard.work.serving.retrieval import Index, search_s
from railyard.work.serving.spending import drawn_w, metered_j

if TYPE_CHECKING:
    from railyard.catalog import Catalog
    from railyard.graph import Record
    from railyard.work.pipeline.built import BuiltHardware
    from railyard.work.pipeline.section import EncodeStage, RetrieveStage
    from railyard.work.study.memo import Memo

_FLOAT_BYTES = 4.0
_SCORE_BYTES = 8.0


def encoder(catalog: Catalog, section: EncodeStage, hardware: BuiltHardware, memo: Memo) -> Built:
    """An encoder: prompts only, which see all of their text unless the model is causal.

    Args:
        catalog: Of the scenario.
        section: As written.
        hardware: Its devices.
        memo: What other variants have made.

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
    core = replace(Cost.of(cost), attention_per_pair_s=directions * cost.attention_per_pair_s)
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
    stage = Batched(
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
    stage = Batched(
        deployment=Deployment((pool,), Router("least-loaded")),
        nic_bps=hardware.nic_bps,
        items=1,
        tokens=1,
        most_tokens=1,
        entry_ps=round(section.overhead * PS),
        carries_bytes=float(section.top * section.passage),
    )
    return _built("retrieve", stage, hardware)


def _built(kind: str, stage: Batched, hardware: BuiltHardware) -> Built:
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
