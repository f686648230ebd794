"""All-reduce in the switches (NVIDIA SHARP): up a tree in chunks, added up at every switch, and down again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.engine.packet.networks import RoutingRecord
from railyard.engine.packet.records import AT_RECEIVER, PacketNetwork, Traffic
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from railyard.cluster.routes import Routes
    from railyard.graph import Record

    Ints = NDArray[np.int64]


_FAST_LINK_PS = 1000

_FAST = 16
"""Rate of the link to what a switch computes with, in rates of all that may cross it at once: it reads its ports side
by side, so that packets which come at once wait but a sixteenth of a packet's time."""


@dataclass(frozen=True, eq=False)
class AggregationTree:
    """Who reduces what: a node's parent adds up what its children send.

    Attributes:
        switches: int64[n], the switches that reduce, the root last.
        parent: int64[n], of each the place in `switches` of the one that it sends to; -1 for the root.
        host_parent: int64[hosts], the place of the switch to which each of the given hosts sends.
        links: Links from a host to the root.
    """

    switches: Ints
    parent: Ints
    host_parent: Ints
    links: int

    @property
    def children(self) -> Ints:
        """int64[n], how many hosts and switches send to each."""
        count = len(self.switches)
        return np.asarray(
            np.bincount(self.host_parent, minlength=count) + np.bincount(self.parent[:-1], minlength=count)
        )

    @property
    def depth(self) -> Ints:
        """int64[hosts], switches between each host and the end of the root, the root included."""
        at, depth = self.host_parent.copy(), np.ones(len(self.host_parent), np.int64)
        while (self.parent[at] >= 0).any():
            up = self.parent[at]
            depth += up >= 0
            at = np.where(up >= 0, up, at)
        return depth


def tree_of(network: PacketNetwork, hosts: Ints, *, root: int = 0) -> AggregationTree:
    """The lowest tree of switches that joins the hosts.

    A switch below which only one of them lies passes data on and does not reduce.

    Args:
        network: Links between hosts and switches.
        hosts: The hosts, at least two.
        root: Which of the switches that could be the root is: trees of several rings of ranks are laid over several.

    Raises:
        InputError: Fewer than two hosts, or no switch has all of them below it.
    """
    if len(np.unique(hosts)) != len(hosts) or len(hosts) < 2:
        raise InputError("a reduction needs at least two different hosts", key="hosts", found=len(hosts))
    tier = _tiers(network)
    below = _below(network, tier, hosts)
    roots = np.flatnonzero(below.all(axis=1))
    if not len(roots):
        raise InputError("no switch has all the hosts below it", key="hosts", found=len(hosts))
    roots = roots[tier[roots] == tier[roots].min()]
    top = int(roots[root % len(roots)])
    builder = _Builder(network, tier, below)
    builder.grow(top, np.arange(len(hosts)))
    return builder.tree(len(hosts), int(tier[top]))


def _tiers(network: PacketNetwork) -> Ints:
    """Links between each node and the nearest host; large where there is no way."""
    tier = np.full(network.nodes, network.nodes, np.int64)
    tier[: network.hosts] = 0
    while True:
        found = tier.copy()
        np.minimum.at(found, network.link_source, tier[network.link_target] + 1)
        if (found == tier).all():
            return tier
        tier = found


def _below(network: PacketNetwork, tier: Ints, hosts: Ints) -> NDArray[np.bool_]:
    """bool[nodes, hosts], which of the hosts are reached from a node by links that lead down."""
    below = np.zeros((network.nodes, len(hosts)), np.bool_)
    below[hosts, np.arange(len(hosts))] = True
    down = tier[network.link_target] < tier[network.link_source]
    source, target = network.link_source[down], network.link_target[down]
    for level in range(1, int(tier[tier < network.nodes].max()) + 1):
        at = tier[source] == level
        np.logical_or.at(below, source[at], below[target[at]])
    return below


class _Builder:
    """Grows the tree from its root."""

    def __init__(self, network: PacketNetwork, tier: Ints, below: NDArray[np.bool_]) -> None:
        self._hosts = network.hosts
        self._below = below
        down = np.flatnonzero(tier[network.link_target] < tier[network.link_source])
        order = down[np.lexsort((network.link_target[down], network.link_source[down]))]
        self._target = network.link_target[order].astype(np.int64)
        self._ptr = np.searchsorted(network.link_source[order], np.arange(network.nodes + 1))
        self._switches: list[int] = []
        self._parent: list[int] = []
        self._host_parent: dict[int, int] = {}

    def grow(self, switch: int, members: Ints) -> tuple[int, int]:
        """Adds what joins the members below a switch; (place, -1) of the switch that does, or (-1, member)."""
        shares: list[tuple[int, Ints]] = []
        left = members
        for child in np.unique(self._target[self._ptr[switch] : self._ptr[switch + 1]]):
            taken = left[self._below[child, left]]
            if len(taken):
                shares.append((int(child), taken))
                left = left[~self._below[child, left]]
        ends = [(-1, int(taken[0])) if child < self._hosts else self.grow(child, taken) for child, taken in shares]
        if len(ends) == 1:
            return ends[0]
        place = len(self._switches)
        self._switches.append(switch)
        self._parent.append(-1)
        for below, member in ends:
            if below >= 0:
                self._parent[below] = place
            else:
                self._host_parent[member] = place
        return place, -1

    def tree(self, hosts: int, links: int) -> AggregationTree:
        """What has grown."""
        return AggregationTree(
            switches=np.array(self._switches, np.int64),
            parent=np.array(self._parent, np.int64),
            host_parent=np.array([self._host_parent[at] for at in range(hosts)], np.int64),
            links=links,
        )


def with_aggregators(network: PacketNetwork, tree: AggregationTree) -> PacketNetwork:
    """The network with a host more at every switch of the tree: what it computes is sent to and from there.

    The new hosts come after the others, switches after those. The link between the two is faster than all that may
    cross it at once, and 1 ns long.
    """
    count, hosts = len(tree.switches), network.hosts
    moved = np.where(np.arange(network.nodes) < hosts, np.arange(network.nodes), np.arange(network.nodes) + count)
    virtual, switch = hosts + np.arange(count), moved[tree.switches]
    rate = _FAST * (tree.children + 1) * int(network.rate_bps.max())
    source = np.concatenate([moved[network.link_source], virtual, switch])
    target = np.concatenate([moved[network.link_target], switch, virtual])
    return PacketNetwork(
        hosts=hosts + count,
        nodes=network.nodes + count,
        link_source=source.astype(np.int32),
        link_target=target.astype(np.int32),
        rate_bps=np.concatenate([network.rate_bps, rate, rate]).astype(np.int64),
        latency_ps=np.concatenate([network.latency_ps, np.full(2 * count, _FAST_LINK_PS)]).astype(np.int64),
        routes=_routes(network, tree, moved),
    )


def _routes(network: PacketNetwork, tree: AggregationTree, moved: Ints) -> Routes:
    """The old routes, and from every node one link towards each of the new hosts."""
    count, hosts = len(tree.switches), network.hosts
    old = network.routes
    nodes = network.nodes + count
    towards = np.stack([_next_links(network, int(switch)) for switch in tree.switches], axis=1)
    towards[tree.switches, np.arange(count)] = network.links + count + np.arange(count)
    number, base = np.arange(count), len(old.choices)
    record = RoutingRecord.of(
        (np.repeat(moved, np.diff(old.record_ptr)), old.lo, old.hi, old.first, old.width, old.stride),
        (moved, hosts, hosts + count, base + count * np.arange(network.nodes), 1, 1),
        (hosts + number, 0, hosts + count, base + count * network.nodes + number, 1, hosts + count),
    )
    return record.routes(nodes, np.concatenate([old.choices, towards.ravel(), network.links + number]))


def _next_links(network: PacketNetwork, goal: int) -> Ints:
    """int64[nodes], the first link of a shortest way from each node to a switch; any of its links where none is."""
    source, target = network.link_source, network.link_target
    far = np.full(network.nodes, network.nodes, np.int64)
    far[goal] = 0
    through = (target >= network.hosts) | (target == goal)  # ways do not lead through hosts
    for step in range(network.nodes):
        reached = np.unique(source[through & (far[target] == step) & (far[source] > step + 1)])
        if not len(reached):
            break
        far[reached] = step + 1
    link = np.arange(network.links)
    good = through & (far[target] + 1 == far[source])
    chosen = np.full(network.nodes, network.links, np.int64)
    np.minimum.at(chosen, source[good], link[good])
    some = np.full(network.nodes, network.links, np.int64)
    np.minimum.at(some, source, link)
    return np.where(chosen < network.links, chosen, some)


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
        """Time at which the last host has the last byte."""
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
        """Flows and those that they wait for."""
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
