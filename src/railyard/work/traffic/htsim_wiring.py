"""A fat tree of htsim as links and routes: what a packet engine takes as its network.

Nodes are hosts, then ToRs, aggregation switches and cores, each numbered pod by pod. Aggregation switch `p` of a pod is
wired to the cores `p + aggs * l`, with `l` from 0, as in `fat_tree_topology.cpp` of ultraethernet/uet-htsim.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.routes import RouteBuilder, Routes
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from railyard.work.trace.builder import Failure
    from railyard.work.traffic.htsim_topology import HtsimTree

SLOW = 0.25
"""What `-failed` leaves of a link: rate, queue and marking thresholds (`_failed_link_ratio` of htsim)."""

LINK_TIERS = ("nic", "leaf-spine", "spine-core")


@dataclass(frozen=True, eq=False)
class TreeNetwork:
    """Links and routes of a tree.

    Attributes:
        hosts: Nodes 0 to hosts - 1.
        source: int32[L], node at which a directed link begins.
        target: int32[L], node at which it ends.
        rate_bps: int64[L], before any link is slowed down.
        latency_ps: int64[L], of the link and of the switch at its end.
        slow: int32[k], links that keep only `SLOW` of rate, queue and marking thresholds.
        tier: int16[L], index in `LINK_TIERS`.
        routes: Equal-cost routes from every node to every host.
    """

    hosts: int
    nodes: int
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    rate_bps: NDArray[np.int64]
    latency_ps: NDArray[np.int64]
    slow: NDArray[np.int32]
    tier: NDArray[np.int16]
    routes: Routes


@dataclass(frozen=True, eq=False)
class _Links:
    """Link numbers by place: `up[0][host]`, `up[1][tor, agg of pod, bundle]`, `up[2][agg, l, bundle]`; `down` alike."""

    up: tuple[NDArray[np.int64], ...]
    down: tuple[NDArray[np.int64], ...]


def wire(tree: HtsimTree, *, slow_links: int = 0, failures: Sequence[Failure] = ()) -> TreeNetwork:
    """Lays the links of a tree and finds its routes.

    Args:
        tree: The tree.
        slow_links: htsim's `-failed n`: with three tiers, the first `n` links from cores down to the first aggregation
            switches have a quarter of their rate; with two, all links of the first `n` spines, both ways.
        failures: Uplinks of aggregation switches that are gone.

    Raises:
        InputError: A failure names no link, or leaves a pod without a path; slow links of one switch.
    """
    ends = _ends(tree)
    links = _number(tree)
    rate, latency = _speeds(tree, ends)
    slow = np.sort(_slowed(tree, links, slow_links)).astype(np.int32)
    source, target = (np.concatenate(part).astype(np.int32) for part in zip(*ends, strict=True))
    gone = _gone(tree, links, failures)
    nodes = tree.hosts + tree.pods * (tree.tors + tree.aggs) + tree.cores
    routes = _routes(tree, links, gone).build(nodes)
    tier = np.repeat(np.arange(len(ends)) // 2, [len(part[0]) for part in ends]).astype(np.int16)
    return TreeNetwork(tree.hosts, nodes, source, target, rate, latency, slow, tier, routes)


def _ends(tree: HtsimTree) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Source and target nodes of the links: each tier upwards, then downwards."""
    host = np.arange(tree.hosts)
    tors, aggs = tree.pods * tree.tors, tree.pods * tree.aggs
    tor_node, agg_node = tree.hosts + np.arange(tors), tree.hosts + tors + np.arange(aggs)
    below = [(host, tor_node[host // tree.tiers[0].down])]
    if not tree.aggs:
        return [*below, below[0][::-1]]
    tor = np.repeat(np.arange(tors), tree.tiers[0].up)
    agg = tor // tree.tors * tree.aggs + np.tile(np.repeat(np.arange(tree.aggs), tree.tiers[1].bundle), tors)
    below.append((tor_node[tor], agg_node[agg]))
    if tree.cores:
        agg = np.repeat(np.arange(aggs), tree.tiers[1].up)
        slot = np.tile(np.repeat(np.arange(tree.cores // tree.aggs), tree.tiers[2].bundle), aggs)
        below.append((agg_node[agg], tree.hosts + tors + aggs + agg % tree.aggs + tree.aggs * slot))
    return [pair for low, high in below for pair in ((low, high), (high, low))]


def _number(tree: HtsimTree) -> _Links:
    shapes: list[tuple[int, ...]] = [(tree.hosts,)]
    if tree.aggs:
        shapes.append((tree.pods * tree.tors, tree.aggs, tree.tiers[1].bundle))
    if tree.cores:
        shapes.append((tree.pods * tree.aggs, tree.cores // tree.aggs, tree.tiers[2].bundle))
    up, down, first = [], [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        up.append(first + np.arange(size).reshape(shape))
        down.append(first + size + np.arange(size).reshape(shape))
        first += 2 * size
    return _Links(tuple(up), tuple(down))


def _speeds(
    tree: HtsimTree, ends: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rate, latency = [], []
    for number, tier in enumerate(tree.tiers):
        size = len(ends[2 * number][0])
        below = tree.tiers[number - 1].switch_latency_ps if number else 0
        rate.append(np.full(2 * size, tier.rate_bps))
        latency.append(np.repeat([tier.latency_ps + tier.switch_latency_ps, tier.latency_ps + below], size))
    return np.concatenate(rate).astype(np.int64), np.concatenate(latency).astype(np.int64)


def _slowed(tree: HtsimTree, links: _Links, count: int) -> NDArray[np.int64]:
    """The links that htsim's `-failed` slows down.

    Raises:
        InputError: There are none between switches.
    """
    if count and not tree.aggs:
        raise InputError("one switch has no links to slow down: those between switches", key="slow_links", found=count)
    if not tree.cores:
        both = [part[:, :count].ravel() for parts in (links.up, links.down) for part in parts[1:]]
        return np.concatenate([np.empty(0, np.int64), *both])
    agg = np.arange(tree.pods * tree.aggs)[:, None]
    slot = np.arange(tree.cores // tree.aggs)[None, :]
    return links.down[2][slot + agg * tree.aggs < count].ravel()


def _gone(tree: HtsimTree, links: _Links, failures: Iterable[Failure]) -> set[int]:
    """Uplinks that are gone, by number.

    Raises:
        InputError: A failure names no uplink of an aggregation switch.
    """
    gone = set()
    for failure in failures:
        if failure.switch != "AGG" or not tree.cores:
            raise InputError(
                "only links from aggregation switches to cores can fail", found=failure.switch, line=failure.line
            )
        if failure.switch_id >= tree.pods * tree.aggs or failure.link_id >= tree.cores // tree.aggs:
            found = f"switch {failure.switch_id}, link {failure.link_id}"
            raise InputError("there is no such link", found=found, line=failure.line)
        gone.add(int(links.up[2][failure.switch_id, failure.link_id, 0]))
    return gone


def _routes(tree: HtsimTree, links: _Links, gone: set[int]) -> RouteBuilder:
    builder = RouteBuilder(tree.hosts)
    hosts, pods, tors, aggs = tree.hosts, tree.pods, tree.tors, tree.aggs
    host = np.arange(hosts)
    builder.records(host, 0, hosts, builder.choices(links.up[0][:, None]), width=1, stride=hosts)
    tor = np.arange(pods * tors)
    lo = tor * tree.tiers[0].down
    hi = lo + tree.tiers[0].down
    builder.records(hosts + tor, lo, hi, builder.choices(links.down[0].reshape(pods * tors, -1)), width=1, stride=1)
    if not tree.aggs:
        return builder
    builder.outside(hosts + tor, lo, hi, builder.choices(links.up[1]), width=tree.tiers[0].up)
    agg = np.arange(pods * aggs)
    node = hosts + pods * tors + agg
    lo = agg // aggs * tree.pod_hosts
    down = links.down[1].reshape(pods, tors, aggs, -1).transpose(0, 2, 1, 3).reshape(pods * aggs, -1)
    bundle = tree.tiers[1].bundle
    builder.records(node, lo, lo + tree.pod_hosts, builder.choices(down), width=bundle, stride=tree.tiers[0].down)
    if not tree.cores:
        return builder
    hurt = _hurt(tree, links, gone)
    intact = ~np.isin(agg % aggs, list(hurt))
    first = builder.choices(links.up[2])
    width = tree.tiers[1].up
    builder.outside(
        node[intact], lo[intact], lo[intact] + tree.pod_hosts, first[intact], width=width
    )  # fmt: skip
    for place in agg[~intact]:
        _detours(builder, tree, links, gone, int(place))
    core = np.arange(tree.cores)
    down = links.down[2].reshape(pods, aggs, -1, tree.tiers[2].bundle).transpose(2, 1, 0, 3).reshape(tree.cores, -1)
    width = tree.tiers[2].bundle
    start = hosts + pods * (tors + aggs)
    builder.records(start + core, 0, hosts, builder.choices(down), width=width, stride=tree.pod_hosts)
    return builder


def _hurt(tree: HtsimTree, links: _Links, gone: set[int]) -> set[int]:
    """Places in a pod whose aggregation switches must route around what is gone."""
    flat = links.up[2].reshape(tree.pods * tree.aggs, -1)
    return {int(np.flatnonzero((flat == link).any(axis=1))[0]) % tree.aggs for link in gone}


def _detours(builder: RouteBuilder, tree: HtsimTree, links: _Links, gone: set[int], agg: int) -> None:
    """Routes upwards of one aggregation switch, by ranges of pods that the same cores reach.

    Raises:
        InputError: No core leads to a pod any more.
    """
    home, place = divmod(agg, tree.aggs)
    node = tree.hosts + tree.pods * tree.tors + agg

    def uplinks(pod: int) -> tuple[int, ...]:
        lands = links.up[2][pod * tree.aggs + place]
        open_cores = [slot for slot, bundle in enumerate(lands) if not gone.issuperset(bundle.tolist())]
        return tuple(link for slot in open_cores for link in links.up[2][agg, slot].tolist() if link not in gone)

    others = [pod for pod in range(tree.pods) if pod != home]
    for (chosen, _), run in groupby(others, key=lambda pod: (uplinks(pod), pod > home)):
        first, *rest = run
        if not chosen:
            raise InputError(
                f"no path is left from aggregation switch {agg} to pod {first}", hint="fewer links must fail"
            )
        lo, hi = first * tree.pod_hosts, ((rest or [first])[-1] + 1) * tree.pod_hosts
        start = builder.choices(np.array([chosen], np.int64))
        builder.records(node, lo, hi, start, width=len(chosen), stride=tree.hosts)
