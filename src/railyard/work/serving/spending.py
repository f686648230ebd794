"""What a serving run's accelerators did and drew, and the bill of all that was bought for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.catalog import Range
from railyard.cluster.bill import bill_of
from railyard.measure.cost.deployment import Use
from railyard.measure.cost.parts import Part, component_of, parts_of_rows
from railyard.work.serving.attention_ffn import ffn_share

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from railyard.catalog import Accelerator
    from railyard.graph import Record
    from railyard.work.serving.placing import Ffn, PlacedPool
    from railyard.work.serving.prepare import ServingJob

_DRAW_BAND = 0.12
"""Median error of the law of power with a model left out; see `workload.serving.power`."""


def uses_of(job: ServingJob, run: Record, span_s: float) -> list[Use]:
    """How each pool's accelerators spend the run, those of FFNs apart after them; the cluster's others stand idle."""
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
    """Of a replica's accelerators, both sides, with no model on them."""
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


def parts_of_bill(job: ServingJob) -> list[Part]:
    """The bill of the cluster, with the servers, accelerators and NICs of pools that have their own in their place."""
    separate = [side for pool in job.pools for side in pool.separate]
    left = 1 - sum(ranks.size for _, ranks in separate) / job.cluster.ranks
    parts = []
    for row in bill_of(job.cluster):
        count = row.count * left if row.kind in {"accelerator", "server", "nic"} else row.count
        parts.append(Part(component_of(row.kind), row.name, count, row.price_usd, row.power_w))
    for machine, ranks in separate:
        share = ranks.size / machine.ranks
        parts += [
            Part(component_of(row.kind), row.name, row.count * share, row.price_usd, row.power_w)
            for row in bill_of(machine)
            if row.kind in {"accelerator", "server", "nic"}
        ]
    for cluster in job.networks.clusters[1:]:
        parts += parts_of_rows(bill_of(cluster))
    return parts
