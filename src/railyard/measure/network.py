"""Network use in a step by tier: mean and busiest load, the saturated tier, the hottest links.

Load of a link = bytes of this job on its wire x 8 / (line rate x step time), a mean over the whole step. A tier
*saturates* when ranks visibly wait for bandwidth (or for others that share it), at least 2 % of the step, and it is the
tier whose busiest link needs the longest time for what it has to carry: while it works, the links of the other tiers
cannot be full.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from railyard.cluster.names import link_name, servers_to_cross
from railyard.graph import Kind
from railyard.graph.record import members_of
from railyard.kit.quantities import percentile
from railyard.measure.bottleneck import SCALE_UP_TIER
from railyard.measure.result.network import (
    BackgroundRow,
    FlowTimes,
    HotLink,
    NetworkFigures,
    PacketFigures,
    QueueSeries,
    RepeatFigures,
    SenderSeries,
    StormFigures,
    TailRow,
    TierRow,
    Waited,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.graph import Record, TaskGraph
    from railyard.measure.decompose import Decomposition


_BACKGROUND_PS_PER_US = 1e6


def background(flows: Record) -> Iterator[BackgroundRow]:
    """A row for each group of background flows; none where all flows are the job's."""
    if "background" not in flows.tables:
        return
    row, alone_ps = flows.table("background")["row"], flows.table("background")["alone_ps"]
    job = np.ones(len(flows.start_ps), np.bool_)
    job[row] = False
    done_ps = int(flows.end_ps[job].max(initial=0)) or int(flows.end_ps[row].max())
    began = flows.start_ps[row] < done_ps
    for label in np.unique(flows.what[row]).tolist():
        chosen = began & (flows.what[row] == label)
        if chosen.any():
            yield _row(flows, flows.labels[label].name, row[chosen], alone_ps[chosen], done_ps)


def _row(
    flows: Record, group: str, rows: NDArray[np.int64], alone_ps: NDArray[np.int64], done_ps: int
) -> BackgroundRow:
    took = np.sort((flows.end_ps[rows] - flows.start_ps[rows]) / _BACKGROUND_PS_PER_US)
    alone = np.sort(alone_ps / _BACKGROUND_PS_PER_US)
    return BackgroundRow(
        group=group,
        flows=len(rows),
        finished_share=float((flows.end_ps[rows] <= done_ps).mean()),
        mean_us=float(took.mean()),
        p99_us=percentile(took, 0.99),
        max_us=float(took[-1]),
        alone_mean_us=float(alone.mean()),
        alone_p99_us=percentile(alone, 0.99),
        slowdown=float(took.mean() / alone.mean()),
    )


POINTS = 200
"""Maximum number of points of the distribution of completion times."""

_TAIL = 60
"""Number of those reserved for the slowest flows."""

_PACKETS_PS_PER_US = 10**6
_NO_TIMES = dict.fromkeys(("min", "mean", "p50", "p99", "p999", "max"))
_SHARES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


class Probed(TypedDict, total=False):
    """Sampled series; parts that were not sampled are absent."""

    queues: QueueSeries
    flows: SenderSeries
    storm: StormFigures


def fct_us(flows: Record) -> NDArray[np.float64]:
    """float64[n], completion times in us, to the last acknowledgment at the sender; NaN for unfinished flows."""
    return np.where(flows.ended, (flows.end_ps - flows.start_ps) / _PACKETS_PS_PER_US, np.nan)


def host(number: int) -> str:
    """The name of a host."""
    return f"h{number}"


def packet_section(
    flows: Record,
    packets: Mapping[str, int],
    *,
    constants: Mapping[str, float] | None = None,
    repeats: Mapping[str, int] | None = None,
    left_out: Sequence[str] = (),
    probed: Probed | None = None,
    name: Callable[[int], str] = host,
) -> PacketFigures:
    """The object `packet` of a variant in `result.json`.

    Raises:
        InputError: The record does not say where flows went.
    """
    flows.require("tails of completion times", "target")
    ended = flows.ended
    times = fct_us(flows)[ended]
    return PacketFigures(
        flows_total=len(ended),
        flows_finished=int(ended.sum()),
        last_finish_us=float(flows.end_ps[ended].max()) / _PACKETS_PS_PER_US if len(times) else None,
        payload_bytes=int(flows.size_bytes[ended].sum()),
        fct_us=FlowTimes(**(_times(times) if len(times) else _NO_TIMES)),
        fct_cdf=distribution(times),
        tails=tuple(_tails(flows, name)),
        background=tuple(background(flows)) or None,
        packets={kind: int(number) for kind, number in packets.items()},
        constants=dict(constants or {}),
        repeats=RepeatFigures(**repeats) if repeats and repeats["episodes"] else None,
        left_out=tuple(left_out),
        **(probed or {}),
    )


def _times(times: NDArray[np.float64]) -> dict[str, float]:
    ordered = np.sort(times)
    middle = {key: percentile(ordered, share) for key, share in _SHARES.items()}
    return {"min": float(ordered[0]), "mean": float(times.mean()), **middle, "max": float(ordered[-1])}


def distribution(times: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    """Points (time, share of flows that took no longer), at most `POINTS`; the slowest flows have one each."""
    count = len(times)
    if not count:
        return ()
    tail = min(_TAIL, count)
    ranks = np.union1d(np.linspace(1, count, POINTS - tail).astype(np.int64), count - _tail_places(tail, count))
    ordered = np.sort(times)
    return tuple((float(ordered[rank - 1]), rank / count) for rank in ranks.tolist())


def _tail_places(points: int, count: int) -> NDArray[np.int64]:
    """Indices from the slowest (0) on, with growing distances."""
    if count <= points:
        return np.arange(count)
    return np.unique(np.geomspace(1, count, points).astype(np.int64)) - 1


def _tails(flows: Record, name: Callable[[int], str]) -> list[TailRow]:
    everyone = _tail("all", flows, flows.ended, name)
    if len(flows.labels) < 2:
        return everyone
    parts = [_tail(label.name, flows, flows.ended & (flows.what == at), name) for at, label in enumerate(flows.labels)]
    return [*everyone, *(row for part in parts for row in part)]


def _tail(group: str, flows: Record, rows: NDArray[np.bool_], name: Callable[[int], str]) -> list[TailRow]:
    chosen = np.flatnonzero(rows)
    if not len(chosen):
        return []
    times = fct_us(flows)[chosen]
    found = _times(times)
    slowest = int(chosen[int(times.argmax())])
    source, target = int(flows.who[slowest]), int(flows.column("target")[slowest])
    return [
        TailRow(
            group=group,
            flows=len(chosen),
            mean_us=found["mean"],
            p50_us=found["p50"],
            p99_us=found["p99"],
            p999_us=found["p999"],
            max_us=found["max"],
            slowest=f"{name(source)}->{name(target)}",
        )
    ]


VISIBLE = 0.02
_EQUAL = 0.98
"""Tiers whose busiest links need the same time within 2 % are equally full; the lowest of them is named."""


@dataclass(frozen=True)
class NetworkUse:
    """Network use in a step.

    Attributes:
        figures: The result's `network`.
        load: float64[physical links]; load of each.
    """

    figures: NetworkFigures
    load: NDArray[np.float64]


HOT = 10
"""Number of busiest links that are named."""


def network_use(record: Record, cluster: Cluster, decomposition: Decomposition) -> NetworkUse:
    """Computes the network use of a step.

    Args:
        record: The step, with the bytes of every link and bundle.
        cluster: The cluster.
        decomposition: Decomposition of the step, for the time spent waiting for bandwidth.
    """
    record.require("the load of links", tables=["links"], graph=True)
    links = cluster.links
    carried = links.to_physical(record.table("links")["bytes"])
    load = 8 * carried / links.line_bps[: links.physical] / decomposition.step_s
    tiers = [_tier(cluster, number, carried, load) for number in range(len(links.tiers))]
    tiers = [tier for tier in tiers if tier.links]
    inside = scale_up_groups(record.graph, cluster)
    between = {tier.name for tier in cluster.back_end.tiers if tier.kind != "access"}
    crosses = any(tier.bytes > 0 for tier in tiers if tier.name in between)
    waited = Waited(
        scale_up=_waited(decomposition, inside, within=True), scale_out=_waited(decomposition, inside, within=False)
    )
    figures = NetworkFigures(
        tiers=tuple(tiers),
        saturated_tier=_saturated(_busy_s(cluster, carried), decomposition, inside),
        hot_links=_hot_links(cluster, load),
        waited=waited,
        crosses=crosses,
        crosses_from=None if crosses else servers_to_cross(cluster),
    )
    return NetworkUse(figures, load)


def _waited(decomposition: Decomposition, scale_up: set[str], *, within: bool, bandwidth_only: bool = False) -> float:
    """Share of the step spent waiting for communication inside (or between) scale-up domains."""
    causes = ("bandwidth", "contention") if bandwidth_only else ("latency", "bandwidth", "contention")
    rows = (row for row in decomposition.rows if row.cause in causes)
    return math.fsum(row.share for row in rows if (row.group in scale_up) == within)


def _tier(cluster: Cluster, number: int, carried: NDArray[np.float64], load: NDArray[np.float64]) -> TierRow:
    links = cluster.links
    chosen = np.flatnonzero(links.tier[: links.physical] == number)
    some = bool(chosen.size)
    return TierRow(
        name=links.tiers[number],
        links=len(chosen),
        rate_bps=float(np.median(links.line_bps[chosen])) if some else 0.0,
        mean_utilization=float(load[chosen].mean()) if some else 0.0,
        max_utilization=float(load[chosen].max(initial=0.0)),
        bytes=float(carried[chosen].sum()),
    )


def scale_up_groups(graph: TaskGraph, cluster: Cluster) -> set[str]:
    """Communicator classes whose traffic never leaves a scale-up domain."""
    domain = cluster.scale_up_domain
    communicators = graph.communicators
    owner, member = members_of(communicators, np.arange(len(communicators)))
    first = communicators.ranks[communicators.ptr[:-1]]
    crosses = np.zeros(len(communicators), np.bool_)
    crosses[owner[member // domain != first[owner] // domain]] = True
    groups = {graph.communicators.group[number] for number in np.flatnonzero(~crosses)}
    groups -= {graph.communicators.group[number] for number in np.flatnonzero(crosses)}
    sent = np.flatnonzero(graph.kind == Kind.TRANSFER)
    far = sent[graph.rank[sent] // domain != graph.peer[sent] // domain]
    near = sent[graph.rank[sent] // domain == graph.peer[sent] // domain]
    groups |= {graph.labels[label].group for label in np.unique(graph.label[near])}
    return groups - {graph.labels[label].group for label in np.unique(graph.label[far])}


def _busy_s(cluster: Cluster, carried: NDArray[np.float64]) -> dict[str, float]:
    """Time that the busiest link of each tier needs for its bytes, at the rate that flows can use."""
    links = cluster.links
    seconds = 8 * carried / links.rate_bps[: links.physical]
    tier = links.tier[: links.physical]
    return {links.tiers[number]: float(seconds[tier == number].max()) for number in np.unique(tier).tolist()}


def _saturated(busy_s: Mapping[str, float], decomposition: Decomposition, scale_up: set[str]) -> str | None:
    outside = _waited(decomposition, scale_up, within=False, bandwidth_only=True)
    inside = _waited(decomposition, scale_up, within=True, bandwidth_only=True)
    between = {
        name: seconds for name, seconds in busy_s.items() if name != SCALE_UP_TIER and not name.startswith("storage ")
    }
    longest = max(between.values(), default=0.0)
    if outside >= VISIBLE and longest > 0:
        return next(name for name, seconds in between.items() if seconds >= _EQUAL * longest)
    return SCALE_UP_TIER if inside >= VISIBLE else None


def _hot_links(cluster: Cluster, load: NDArray[np.float64]) -> tuple[HotLink, ...]:
    links = cluster.links
    outside = np.flatnonzero((links.tier[: links.physical] != links.tiers.index(SCALE_UP_TIER)) & (load > 0))
    busiest = outside[np.argsort(-load[outside], kind="stable")[:HOT]]
    return tuple(
        HotLink(name=link_name(cluster, int(link)), tier=links.tiers[links.tier[link]], utilization=float(load[link]))
        for link in busiest
    )
