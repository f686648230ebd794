"""Figures of the result that services and pipelines have alike: requests, latencies, objective, throughput."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from railyard.catalog import Range
from railyard.cluster.bill import bill_of
from railyard.measure.cost.capital import CostPart, component_of, parts_of_rows
from railyard.measure.cost.evaluate import Use
from railyard.measure.result.serving import (
    LEVELS,
    CommunicationShare,
    LatencyParts,
    Level,
    ObjectiveFigures,
    Percentiles,
    RequestsFigures,
    ThroughputFigures,
)
from railyard.measure.serving.latencies import DROPPED, PARTS, UNFINISHED, parts_by_percentile, quantiles
from railyard.work.serving.afd import ffn_share
from railyard.work.study.deaths import span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.catalog import Accelerator, Model
    from railyard.engine.serving import Pool
    from railyard.graph import Record
    from railyard.graph.request_table import RequestTable
    from railyard.measure.cost.evaluate import DeploymentCost
    from railyard.measure.serving.latencies import Served
    from railyard.measure.serving.objective import Goodput, Objective
    from railyard.work.serving.deployment import ReplicaDeath
    from railyard.work.serving.placing import Ffn, PlacedPool
    from railyard.work.serving.prepare import ServingJob


_DRAW_BAND = 0.12
"""Median error of the law of power with a model left out; see `workload.serving.power`."""


def uses_of(job: ServingJob, run: Record, span_s: float) -> list[Use]:
    """How each pool's accelerators spend the run, then those of separate FFNs; the cluster's others are idle."""
    totals = run.table("replicas")
    uses: list[Use] = []
    apart: list[Use] = []
    for number, (pool, cost) in enumerate(zip(job.pools, job.costs, strict=True)):
        rows = totals["pool"] == number
        total_s = span_s * pool.replicas
        busy = float(totals["busy_ps"][rows].sum()) * 1e-12
        prompt = busy if pool.role == "prefill" else 0.0
        if pool.role == "both":
            prompt = min(busy, _prompt_s(cost, totals["input_tokens"][rows], totals["pairs"][rows]))
        tokens = float(totals["tokens"][rows].sum()) / max(float(totals["iterations"][rows].sum()), 1.0)
        each, behind = cost.collectives_s(tokens, pool.layout.dp_attention)
        iterations = float(totals["iterations"][rows].sum())
        network, hidden = min(busy, each * iterations), min(busy, behind * iterations)
        rest = 1 - network / busy if busy > 0 else 0.0
        spent = prompt * rest, (busy - prompt) * rest, network, hidden
        shares = [part / total_s if total_s > 0 else 0.0 for part in spent]
        energy, other = metered_j(run, rows, cost.idle_w, _unloaded_w(pool), span_s), ffn_share(pool)
        count = int(pool.ranks.size)
        drawn = drawn_w(pool.cluster.accelerator, energy * (1 - other), count, span_s)
        uses.append(Use(pool.cluster.accelerator, count, drawn, *shares))
        if pool.ffn is not None:
            device, count = pool.ffn.cluster.accelerator, int(pool.ffn.ranks.size)
            apart.append(Use(device, count, drawn_w(device, energy * other, count, span_s), *shares))
    uses += apart
    for number, cluster in enumerate(job.networks.clusters):
        idle = idle_of(job, number)
        if idle:
            uses.append(Use(cluster.accelerator, idle, cluster.accelerator.idle_power_w))
    return uses


def metered_j(run: Record, rows: NDArray[np.bool_], idle_w: float, unloaded_w: float, span_s: float) -> float:
    """Energy of some replicas' accelerators.

    The core meters a replica while it is up, until the last event of its own run. In a pipeline that may end before all
    is done: replicas wait from then on. Accelerators of a replica that is down stand there without a model.

    Args:
        run: What the engine found.
        rows: bool[replicas], which of them.
        idle_w: Of a replica that waits.
        unloaded_w: Of one that is down.
        span_s: Of the whole run.
    """
    totals, end_s = run.table("replicas"), float(run.meta["end_ps"] * 1e-12)
    energy = float(totals["energy_j"][rows].sum())
    if end_s <= 0:
        return energy
    up_s = float(totals["up_ps"][rows].sum()) * 1e-12
    down_s, after = max(int(rows.sum()) * end_s - up_s, 0.0), max(span_s / end_s - 1, 0.0)
    return energy + after * idle_w * up_s + (1 + after) * unloaded_w * down_s


def _unloaded_w(pool: PlacedPool) -> float:
    """Power of a replica's accelerators, both sides, with no model on them."""
    sides: list[PlacedPool | Ffn] = [pool] if pool.ffn is None else [pool, pool.ffn]
    return float(sum(side.cluster.accelerator.idle_power_w.typical * side.ranks.shape[1] for side in sides))


def idle_of(job: ServingJob, network: int) -> int:
    """Accelerators of a network that belong to no pool."""
    return job.networks.clusters[network].ranks - sum(pool.accelerators for pool in job.pools if pool.home == network)


def drawn_w(accelerator: Accelerator, energy_j: float, count: int, span_s: float) -> Range:
    """Mean power of one accelerator: from its energy, within the band of the law, up to its limit."""
    mean = energy_j / count / span_s if span_s > 0 else accelerator.idle_power_w.typical
    return Range(*(min(mean * factor, accelerator.tdp_w) for factor in (1 - _DRAW_BAND, 1.0, 1 + _DRAW_BAND)))


def _prompt_s(cost: Any, computed: NDArray[np.int64], pairs: NDArray[np.float64]) -> float:
    """Time that prompts take of iterations which they share with answers: at the rate of the fullest iteration."""
    each = float(cost.compute_s[-1] + cost.network_s[-1]) / float(cost.tokens[-1])
    return float(computed.sum()) * each + float(pairs.sum()) * float(cost.attention_per_pair_s)


def parts_of_bill(job: ServingJob) -> list[CostPart]:
    """The bill of the cluster, with the servers, accelerators and NICs of pools that have their own in their place."""
    separate = [side for pool in job.pools for side in pool.separate]
    left = 1 - sum(ranks.size for _, ranks in separate) / job.cluster.ranks
    parts = []
    for row in bill_of(job.cluster):
        count = row.count * left if row.kind in {"accelerator", "server", "nic"} else row.count
        parts.append(CostPart(component_of(row.kind), row.name, count, row.price_usd, row.power_w))
    for machine, ranks in separate:
        share = ranks.size / machine.ranks
        parts += [
            CostPart(component_of(row.kind), row.name, row.count * share, row.price_usd, row.power_w)
            for row in bill_of(machine)
            if row.kind in {"accelerator", "server", "nic"}
        ]
    for cluster in job.networks.clusters[1:]:
        parts += parts_of_rows(bill_of(cluster))
    return parts


_AGAIN = 0.05
"""Share of computed prompt tokens that had been computed before, from which on a cache is called too small."""
_END = 1.1
"""A run that takes so many times as long as its requests arrive has an end that shows in its rates."""

_FIFTHS, _GROWN = 5, 0.1
"""Part of all requests at either end whose queues are compared; share of the time of all that the last ones queue where
the load is too large: a queue that fills at a tenth above capacity does."""


def too_long(requests: RequestTable, model: Model) -> Iterator[str]:
    """Requests beyond the context of the model.

    Engines refuse them (vLLM, `max_model_len`, which is the model's unless one says otherwise). They are served here,
    for studies send the prompts of one model to the shape of another, as Mooncake's do.
    """
    tokens = requests.input_tokens.astype(np.int64) + requests.output_tokens
    over = int((tokens > model.max_seq).sum())
    if over:
        yield (
            f"{over} of {len(requests)} requests are longer than the {model.max_seq} tokens that {model.name} is made"
            f" for, prompt and answer (the longest {int(tokens.max())}): served all the same; engines refuse them"
        )


def bounded(model: Model, pools: Sequence[PlacedPool], made: Sequence[Pool]) -> Iterator[str]:
    """Pools in which states of recurrences leave room for fewer sequences than the section allows."""
    if model.recurrent is None:
        return
    for pool, runs in zip(pools, made, strict=True):
        if runs.max_sequences < pool.section.max_sequences:
            yield (
                f"pool {pool.role}: memory holds the states of {runs.max_sequences} of the {pool.section.max_sequences}"
                " sequences that `max_sequences` allows, with keys and values of requests of this length"
            )
    if len(pools) > 1:
        yield "transfers between pools contain the KV cache, but not recurrent states"


def computed_again(requests: RequestTable, run: Record) -> float:
    """Share of the prompt tokens computed that had been computed before, at least: of preempted requests."""
    computed = float(run.table("replicas")["input_tokens"].sum())
    begun = run.column("prefill_start_ps") >= 0
    once = (requests.input_tokens - run.column("cached_tokens"))[begun].sum()
    lost = (requests.input_tokens * run.column("requeued").astype(np.int64)).sum()
    return max(computed - float(once) - float(lost), 0.0) / computed if computed > 0 else 0.0


def died(deaths: Sequence[ReplicaDeath], run: Record) -> Iterator[str]:
    """Replicas that died, and the requests that started again for it."""
    for one in deaths:
        if not one.replicas:
            yield f"{one.what} at {span(one.begin_s)} takes no replica away"
            continue
        plural = "replica" if len(one.replicas) == 1 else "replicas"
        yield (
            f"{one.what} at {span(one.begin_s)} takes {plural} {', '.join(map(str, one.replicas))} away for"
            f" {span(one.end_s - one.begin_s)} and the loading of weights"
        )
    if any(one.replicas for one in deaths):
        yield f"{begun_anew(run)} requests started again on other replicas, their keys and values lost"


def begun_anew(run: Record) -> int:
    """Requests of replicas that died, which others began again."""
    return int((run.column("requeued") > 0).sum())


def thrashed(requests: RequestTable, run: Record) -> Iterator[str]:
    """A cache that is too small for what runs at once."""
    count, again = int(run.column("preemptions").sum()), computed_again(requests, run)
    if count and (again >= _AGAIN or 2 * count >= len(requests)):
        yield (
            f"{count} preemptions of {len(requests)} requests: the cache is too small, and"
            f" {100 * again:.0f} % of the prompt tokens were computed again; lower `max_sequences` or"
            " `kv_bits`, or raise `tp` or `replicas`"
        )


def refused(found: Served, by: str) -> Iterator[str]:
    """What to know of requests that were refused."""
    dropped = int((found.status == DROPPED).sum())
    if dropped:
        which = "1 request is" if dropped == 1 else f"{dropped} requests are"
        yield f"{which} longer than {by}: refused"


def drained(found: Served) -> Iterator[str]:
    """What to know of a run whose last answers came long after its last request: its rates do not count that time.

    The longest answers may be all there is to it; otherwise requests have waited, in a queue or for keys and values.
    """
    arrivals_s = float(found.arrival_s[-1] - found.arrival_s[0])
    late_s = found.span_s - arrivals_s
    if found.span_s <= _END * arrivals_s or arrivals_s <= 0:
        return
    described = f"the last answer came {late_s:.0f} s after the last request; rates and prices leave that time out: "
    if _queues_grow(found, arrivals_s):
        yield (
            f"{described}queues grow as long as requests come, for the load is beyond what the deployment can serve;"
            " its figures are of this many requests, and worse with more"
        )
    elif late_s > float(np.nanmax(found.e2e_s - found.queue_s - found.transfer_s)):
        yield f"{described}the load is near or beyond what the deployment can serve"
    else:
        yield (
            f"{described}the longest answers take that long;"
            " simulate more requests to see whether the deployment is overloaded"
        )


def _queues_grow(found: Served, arrivals_s: float) -> bool:
    """Whether the last requests queue for far longer than the first, and for a good part of the time of all."""
    waits = found.queue_s[np.isfinite(found.queue_s)]
    if len(waits) < _FIFTHS:
        return False
    fifth = len(waits) // _FIFTHS
    first, last = float(np.median(waits[:fifth])), float(np.median(waits[-fifth:]))
    return last > _GROWN * arrivals_s and last > _FIFTHS * first


class Latencies(TypedDict):
    """The result's percentiles of every latency, and what they are made of."""

    ttft_s: Percentiles
    tpot_s: Percentiles
    itl_s: Percentiles
    e2e_s: Percentiles
    queue_s: Percentiles
    ttft_parts: dict[Level, LatencyParts]
    communication_share: CommunicationShare


def requests_of(asked: RequestTable, found: Served) -> RequestsFigures:
    """The result's `requests`."""
    return RequestsFigures(
        count=len(asked),
        rate_per_s=asked.rate_per_s,
        input_tokens_mean=float(asked.input_tokens.mean()),
        output_tokens_mean=float(asked.output_tokens.mean()),
        done=int(found.done.sum()),
        dropped=int((found.status == DROPPED).sum()),
        unfinished=int((found.status == UNFINISHED).sum()),
        source=asked.source,
    )


def percentiles(values: NDArray[np.float64]) -> Percentiles:
    """Percentiles of the values that are not NaN, as a result has them."""
    return Percentiles(**quantiles(values))


def latencies_of(found: Served, gaps: Mapping[str, float | None]) -> Latencies:
    """Percentiles of every latency, and what they are made of."""
    parts = parts_by_percentile(found.ttft_s, {f"{part}_s": getattr(found, f"{part}_s") for part in PARTS})
    ttft = {level: LatencyParts(**parts[level]) for level in LEVELS if parts}
    tpot = parts_by_percentile(
        found.tpot_s, {"collectives": found.decode_collectives_s, "rest": found.tpot_s - found.decode_collectives_s}
    )
    return Latencies(
        ttft_s=percentiles(found.ttft_s),
        tpot_s=percentiles(found.tpot_s),
        itl_s=Percentiles(**gaps),
        e2e_s=percentiles(found.e2e_s),
        queue_s=percentiles(found.queue_s),
        ttft_parts=ttft,
        communication_share=CommunicationShare(
            ttft={level: _share(row["collectives_s"] + row["transfer_s"], row) for level, row in _levels(parts)},
            tpot={level: _share(row["collectives"], row) for level, row in _levels(tpot)},
        ),
    )


def _levels(parts: Mapping[str, dict[str, float]]) -> list[tuple[Level, dict[str, float]]]:
    return [(level, parts[level]) for level in LEVELS if parts]


def _share(part: float, row: dict[str, float]) -> float:
    total = sum(row.values())
    return part / total if total > 0 else 0.0


def slo_of(objective: Objective, good: Goodput) -> ObjectiveFigures:
    """The result's `slo`: the limits, and what met them."""
    return ObjectiveFigures(
        ttft_s=objective.ttft_s,
        tpot_s=objective.tpot_s,
        e2e_s=objective.e2e_s,
        target=objective.attainment,
        attainment=good.attainment,
        goodput_rps=good.requests_per_s,
        goodput_input_tokens_per_s=good.input_tokens_per_s,
        goodput_output_tokens_per_s=good.output_tokens_per_s,
    )


def throughput_of(found: Served, good: Goodput, cost: DeploymentCost, accelerators: int) -> ThroughputFigures:
    """The result's `throughput`; `per_gpu` and `per_mw` are output tokens a second, of facility power."""
    tpot = quantiles(found.tpot_s)["p50"]
    return ThroughputFigures(
        span_s=good.span_s,
        input_tokens_per_s=good.all_input_tokens_per_s,
        output_tokens_per_s=good.all_output_tokens_per_s,
        accelerators=accelerators,
        per_gpu=good.all_output_tokens_per_s / accelerators,
        per_user=None if not tpot else 1 / tpot,
        per_mw=good.all_output_tokens_per_s / cost.power.total_w.typical * 1e6,
    )
