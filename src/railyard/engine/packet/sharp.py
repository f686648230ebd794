"""All-reduce in the switches (NVIDIA SHARP): up a tree in chunks, added up at every switch, and down again."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.engine.packet.records import AT_RECEIVER, PacketNetwork, Traffic
from railyard.engine.packet.sharp_tree import AggregationTree, tree_of, with_aggregators
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from railyard.graph import Record

    Ints = NDArray[np.int64]

CHUNK_BYTES = 16 * 1024
"""A few packets; no public figure. Smaller ones are through the tree sooner, and there are more of them."""

AGGREGATION_PS = 150_000
"""What a switch takes to add up; no public figure."""

_SPARE = 1.1
"""Chunks on the way, of what it holds unloaded: a host with no more waits for every answer that is a little late."""


class SwitchReduction(NamedTuple):
    """An all-reduce to be run.

    Attributes:
        network: The network with a host more at every switch that reduces.
        traffic: A row for every chunk and edge of the tree, up and down.
        tree: Who reduces what.
    """

    network: PacketNetwork
    traffic: Traffic
    tree: AggregationTree

    def time_ps(self, record: Record) -> int:
        """When the last host has the last byte."""
        return int(record.column("receiver_finish_ps").max())


def one_way_ps(
    network: PacketNetwork, tree: AggregationTree, members: Ints, chunk_bytes: int, aggregation_ps: int
) -> int:
    """What a chunk takes from a host up to the root and down again, once on every edge of the deepest way, unloaded."""
    deepest = int(tree.depth.max())
    rate, latency = _of_hosts(network, members)
    return 2 * (deepest * (chunk_bytes * 8 * 10**12 // rate) + tree.links * latency) + deepest * aggregation_ps


def _of_hosts(network: PacketNetwork, members: Ints) -> tuple[int, int]:
    """The least rate and the greatest latency of the links that hosts send over."""
    uplink = np.isin(network.link_source, members)
    return int(network.rate_bps[uplink].min()), int(network.latency_ps[uplink].max())


def sharp(
    network: PacketNetwork,
    hosts: ArrayLike,
    size_bytes: int,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    window: int | None = None,
    aggregation_ps: int = AGGREGATION_PS,
    root: int = 0,
) -> SwitchReduction:
    """The flows of an all-reduce in the switches.

    Each host sends its data in chunks to the first switch above it that joins several of them. A switch begins to send
    a chunk on when it has it from all its children and has added them up; the root sends it down again. A host has at
    most `window` chunks on the way.

    Args:
        network: Links between hosts and switches.
        hosts: Who takes part.
        size_bytes: What each host has, and gets.
        chunk_bytes: What is added up and sent on at a time.
        window: Chunks of a host between their first and their last way; None: a tenth more than what that way holds.
        aggregation_ps: From a chunk's last arrival at a switch until it goes on.
        root: Which of the switches that could be the root is.

    Raises:
        InputError: A number that is not positive, fewer than two hosts, or hosts without a switch above all of them.
    """
    for key, value in (("size_bytes", size_bytes), ("chunk_bytes", chunk_bytes), ("window", window)):
        if value is not None and value < 1:
            raise InputError("expected a positive number", key=key, found=value)
    members = np.asarray(hosts, np.int64)
    if members.ndim != 1 or (len(members) and not 0 <= members.min() <= members.max() < network.hosts):
        raise InputError("expected hosts of the network", key="hosts", found=members.shape, allowed=network.hosts)
    tree = tree_of(network, members, root=root)
    larger = with_aggregators(network, tree)
    if window is None:
        once_ps = chunk_bytes * 8 * 10**12 / _of_hosts(network, members)[0]
        window = ceil(_SPARE * one_way_ps(network, tree, members, chunk_bytes, aggregation_ps) / once_ps)
    chunks = _Chunks(tree, members, network, size_bytes, chunk_bytes)
    return SwitchReduction(larger, chunks.traffic(larger.hosts, window, aggregation_ps), tree)


class _Chunks:
    """Rows: for every chunk the edges up (hosts first, then switches but the root), then the same edges down."""

    def __init__(
        self, tree: AggregationTree, members: Ints, network: PacketNetwork, size_bytes: int, chunk_bytes: int
    ) -> None:
        self._tree = tree
        self._count = -(-size_bytes // chunk_bytes)
        self._chunk_bytes = chunk_bytes
        self._last_bytes = size_bytes - (self._count - 1) * chunk_bytes
        node = network.hosts + np.arange(len(tree.switches))
        self._lower = np.concatenate([members, node[:-1]])
        self._upper = node[np.concatenate([tree.host_parent, tree.parent[:-1]])]
        self._edges = len(self._lower)
        self._members = len(members)
        self._spread_ps = chunk_bytes * 8 * 10**12 // _of_hosts(network, members)[0]

    def traffic(self, hosts: int, window: int, aggregation_ps: int) -> Traffic:
        edges, count = self._edges, self._count
        size = np.full(count, self._chunk_bytes, np.int64)
        size[-1] = self._last_bytes
        start = np.zeros((count, 2 * edges), np.int64)
        # WHY one after the other: a window sent at once would arrive at once, and wait as a whole at every switch.
        start[:window, : self._members] = (np.arange(min(window, count)) * self._spread_ps)[:, None]
        flows = Traffic.of(
            hosts,
            np.tile(np.concatenate([self._lower, self._upper]), count),
            np.tile(np.concatenate([self._upper, self._lower]), count),
            np.repeat(size, 2 * edges),
            start_ps=start.ravel(),
        )
        delay = np.zeros((count, 2 * edges), np.int64)
        root = len(self._tree.switches) - 1
        from_root = np.concatenate([self._tree.host_parent, self._tree.parent[:-1]]) == root
        delay[:, self._members : edges] = aggregation_ps
        delay[:, edges:][:, from_root] = aggregation_ps
        flow, before = self._waits(window)
        waiting = flows.after(flow, before, at=AT_RECEIVER, delay_ps=delay.ravel())
        return replace(waiting, start_ps=flows.start_ps)

    def _waits(self, window: int) -> tuple[Ints, Ints]:
        """Who waits for whom."""
        tree, members, edges = self._tree, self._members, self._edges
        up = np.arange(edges)
        parent = np.concatenate([tree.host_parent, tree.parent[:-1]])
        root = len(tree.switches) - 1
        below_root = parent != root
        # A switch's edge up waits for all edges that end there.
        flow = [members + parent[below_root]]
        before = [up[below_root]]
        # The root's edges down wait for all edges that end there, the others for the edge down to where they begin.
        down, ends = edges + np.flatnonzero(~below_root), up[~below_root]
        flow += [np.repeat(down, len(ends)), edges + np.flatnonzero(below_root)]
        before += [np.tile(ends, len(down)), edges + members + parent[below_root]]
        rows, firsts = np.concatenate(flow), np.concatenate(before)
        shift = 2 * edges * np.arange(self._count)[:, None]
        host = np.arange(members)
        later = shift[window:] if window < self._count else shift[:0]
        return (
            np.concatenate([(shift + rows).ravel(), (later + host).ravel()]),
            np.concatenate([(shift + firsts).ravel(), (later - 2 * edges * window + edges + host).ravel()]),
        )
