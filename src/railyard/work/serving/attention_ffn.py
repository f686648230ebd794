"""Attention and FFN apart, in the result: which side works how much of an iteration, and which one waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.measure.result.serving import ApartFigures, SideRow
from railyard.work.serving.afd import ApartCost

if TYPE_CHECKING:
    from railyard.work.serving.placing import PlacedPool

_LIKE = 0.95
"""Sides of which one works at least this share of the other's time wait for nobody."""


def sides_of(pool: PlacedPool, cost: Any, tokens: float, kv_tokens: float) -> ApartFigures | None:
    """The two sides in the mean iteration of a run; None where they are together.

    Args:
        pool: On the cluster.
        cost: Of an iteration of its replicas.
        tokens: Of the mean iteration.
        kv_tokens: Cached tokens that it reads.
    """
    if pool.ffn is None or not isinstance(cost, ApartCost) or tokens <= 0:
        return None
    beat = cost.at(tokens, kv_tokens)
    times = {"attention": beat.attention, "ffn": beat.ffn, "dispatch": beat.dispatch, "combine": beat.combine}
    total = float(beat.iteration_s(cost.layers, cost.micro_batches))
    busy = {name: cost.micro_batches * cost.layers * float(part) / total for name, part in times.items()}
    network = max(busy["dispatch"], busy["combine"])
    fewer, more = sorted(("attention", "ffn"), key=lambda side: busy[side])
    waits = "both" if network > busy[more] else ("neither" if busy[fewer] >= _LIKE * busy[more] else fewer)
    return ApartFigures(
        micro_batches=cost.micro_batches,
        micro_batches_wanted=int(beat.wanted),
        waits=waits,
        attention=_side(pool.cluster.accelerator.name, pool.ranks.size, busy["attention"]),
        ffn=_side(pool.ffn.cluster.accelerator.name, pool.ffn.ranks.size, busy["ffn"]),
        network_busy=network,
    )


def _side(accelerator: str, count: int, busy: float) -> SideRow:
    return SideRow(accelerator=accelerator, accelerators=int(count), busy=busy)


def ffn_share(pool: PlacedPool) -> float:
    """Share of the power limits of a pool's accelerators that those of its FFNs have."""
    if pool.ffn is None:
        return 0.0
    one = pool.cluster.accelerator.tdp_w * pool.ranks.size
    other = pool.ffn.cluster.accelerator.tdp_w * pool.ffn.ranks.size
    return other / (one + other)
