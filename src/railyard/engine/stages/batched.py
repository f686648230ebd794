"""Stages that serve batches on the serving core: encoders of texts, and searches of vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.economics.deployment import Use
from railyard.engine.serving import Cost, Deployment, Pool, Router, simulate
from railyard.errors import InputError
from railyard.study.pipeline.stage import PS, Hardware, Passed, parts
from railyard.study.serving.costing import cost_of
from railyard.study.serving.prepare import SOFTWARE
from railyard.study.serving.spending import drawn_w, metered_j
from railyard.workload.serving.layout import ServingLayout
from railyard.workload.serving.power import BUSY, IDLE, MEMORY
from railyard.workload.serving.profiles import profile
from railyard.workload.serving.requests import Requests
from railyard.workload.serving.retrieval import Index, search_s

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Catalog
    from railyard.engine.serving import ServingRun
    from railyard.scenario.pipeline import EncodeStage, RetrieveStage
    from railyard.study.memo import Memo
    from railyard.study.pipeline.stage import Progress


_FLOAT_BYTES = 4.0
_SCORE_BYTES = 8.0


@dataclass(frozen=True, eq=False)
class Batched:
    """A stage on the serving core whose requests are prompts without answers.

    Attributes:
        kind: `embed`, `rerank` or `retrieve`.
        deployment: What runs.
        hardware: On what.
        nic_bps: Of a replica.
        items: Texts of a request; it is through when the last one is.
        tokens: Of each text; None: those of the request.
        most_tokens: Longer texts are cut, as encoders do.
        entry_ps: From its coming until a replica has it.
        carries_bytes: What each request carries on.
    """

    kind: str
    deployment: Deployment
    hardware: tuple[Hardware, ...]
    nic_bps: float
    items: int
    tokens: int | None
    most_tokens: int
    entry_ps: int
    carries_bytes: float

    def sends_bytes(self, requests: Requests) -> NDArray[np.float64]:
        """Vectors, scores or passages."""
        return np.full(len(requests), self.carries_bytes)

    def run(self, requests: Requests, rows: NDArray[np.int64], seed: int, progress: Progress | None) -> Passed:
        """Every text of every request, in batches."""
        del rows
        said = requests.input_tokens if self.tokens is None else np.full(len(requests), self.tokens, np.int32)
        tokens = np.minimum(said, np.int32(self.most_tokens))
        asked = Requests(
            arrival_ps=np.repeat(requests.arrival_ps, self.items) + self.entry_ps,
            input_tokens=np.repeat(tokens, self.items),
            output_tokens=np.ones(len(requests) * self.items, np.int32),
        )
        return self._passed(asked, simulate(asked, self.deployment, seed=seed, progress=progress))

    def _passed(self, asked: Requests, run: ServingRun) -> Passed:
        done = run.done_ps.reshape(-1, self.items)
        last = np.arange(len(done)) * self.items + done.argmax(axis=1)
        whole = (run.status == 0).reshape(-1, self.items).all(axis=1)
        end = run.done_ps[last]
        queue = (run.admitted_ps[last] - asked.arrival_ps[last]) / PS
        network = run.network_ps[last] / PS
        total = (end - asked.arrival_ps[last] + self.entry_ps) / PS
        return Passed(
            end_ps=np.where(whole, end, -1),
            parts=parts(queue=queue, network=network, compute=total - queue - network),
            refused=(run.status == 1).reshape(-1, self.items).any(axis=1),
            overloaded=run.overloaded,
            uses=lambda span_s: self._uses(run, span_s),
            replicas=lambda span_s: self._replicas(run, span_s),
        )

    def _uses(self, run: ServingRun, span_s: float) -> list[Use]:
        on, totals = self.hardware[0], run.replicas
        busy = float(totals.busy_ps.sum()) / PS / (span_s * len(totals.pool)) if span_s > 0 else 0.0
        device = on.cluster.accelerator
        energy = metered_j(run, np.ones(len(totals.pool), np.bool_), self.deployment.pools[0].cost.idle_w, 0.0, span_s)
        return [Use(device, on.count, drawn_w(device, energy, on.count, span_s), prompt=min(busy, 1.0))]

    def _replicas(self, run: ServingRun, span_s: float) -> list[dict[str, Any]]:
        totals = run.replicas
        return [
            {
                "busy": float(totals.busy_ps[number] / PS / span_s) if span_s > 0 else 0.0,
                "iterations": int(totals.iterations[number]),
                "input_tokens": int(totals.input_tokens[number]),
                "output_tokens": 0,
                "cached_tokens": 0,
                "kv_peak_share": 0.0,
            }
            for number in range(len(totals.pool))
        ]


def encoder(catalog: Catalog, section: EncodeStage, hardware: Hardware, memo: Memo) -> Batched:
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
    ways = 1.0 if section.causal else 2.0  # every query sees every key, not only those before it
    core = replace(Cost.of(cost), attention_per_pair_s=ways * cost.attention_per_pair_s)
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
    return Batched(
        kind=section.kind,
        deployment=Deployment((pool,), Router("least-loaded")),
        hardware=(hardware,),
        nic_bps=hardware.nic_bps,
        items=section.items,
        tokens=section.tokens,
        most_tokens=most,
        entry_ps=round(section.overhead * PS),
        carries_bytes=carried,
    )


def search(section: RetrieveStage, hardware: Hardware) -> Batched:
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
    return Batched(
        kind="retrieve",
        deployment=Deployment((pool,), Router("least-loaded")),
        hardware=(hardware,),
        nic_bps=hardware.nic_bps,
        items=1,
        tokens=1,
        most_tokens=1,
        entry_ps=round(section.overhead * PS),
        carries_bytes=float(section.top * section.passage),
    )
