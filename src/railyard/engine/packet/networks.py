"""Networks by formula: a crossbar, a leaf-spine, the three-tier fat tree of K-port switches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.cluster.routes import RouteBuilder, Routes
from railyard.collective.lowering.routes import scale_up_efficiency
from railyard.engine.packet.records import PacketNetwork
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.network import Network

    Ints = NDArray[np.int64]


PS_PER_S = 10**12
INSIDE_PS = 1000
"""Latency of links that stand for the inside of a box: a host's own router, a switch's own adder."""


class RoutingRecord(NamedTuple):
    """Routing records of one block, in its own numbers; columns as in `Routes`, and the node of each."""

    node: Ints
    lo: Ints
    hi: Ints
    first: Ints
    width: Ints
    stride: Ints

    @classmethod
    def of(cls, *parts: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike, ArrayLike, ArrayLike]) -> RoutingRecord:
        """Records part by part, in columns; a single value holds for the whole part."""
        return cls(*np.concatenate([np.stack(np.broadcast_arrays(*part)) for part in parts], axis=1))

    def part(self, chosen: NDArray[np.bool_] | Ints | slice) -> RoutingRecord:
        """Some of the records."""
        return RoutingRecord(*(column[chosen] for column in self))

    def routes(self, nodes: int, choices: Ints) -> Routes:
        """The routes of so many nodes, whose records choose from these links."""
        order = np.lexsort((self.lo, self.node))
        node, lo, hi, first, width, stride = self.part(order)
        return Routes(
            record_ptr=np.searchsorted(node, np.arange(nodes + 1)).astype(np.int64),
            lo=lo.astype(np.int32),
            hi=hi.astype(np.int32),
            first=first,
            width=width.astype(np.int32),
            stride=stride.astype(np.int32),
            choices=choices.astype(np.int32),
        )


@dataclass(frozen=True)
class NetworkBlock:
    """A part of the network that is joined to no other. Nodes `0..hosts-1` are its hosts.

    Attributes:
        hosts: Hosts.
        nodes: Hosts and switches.
        source: int64[links].
        target: int64[links].
        rate_bps: float64[links].
        latency_ps: int64[links].
        link: int64[links], the cluster's id of each, -1 for none.
        record: Routes.
        choices: int64[].
        salt: uint32[nodes], what each switch adds to what it hashes; None: nothing is hashed.
    """

    hosts: int
    nodes: int
    source: Ints
    target: Ints
    rate_bps: NDArray[np.float64]
    latency_ps: Ints
    link: Ints
    record: RoutingRecord
    choices: Ints
    salt: NDArray[np.uint32] | None = None


# ------------------------------------------------------------------------------------------- ports that pass packets on


def with_routers(block: NetworkBlock) -> NetworkBlock:
    """A torus or a BCube: every port becomes a host and a router, for the engine's hosts pass nothing on.

    Router `p` takes the place of port `p`: links of ports are the routers'; a link of the port's whole rate leads from
    the host to its router and back.
    """
    ports = block.hosts
    shift = ports  # node n of the block becomes node n + ports
    rate = np.bincount(block.source[block.source < ports], block.rate_bps[block.source < ports], minlength=ports)
    up = len(block.source) + np.arange(ports)
    down = up + ports
    host = np.arange(ports)
    kept, begin = block.record, len(block.choices)
    record = RoutingRecord.of(
        (kept.node + shift, *kept[1:]),
        (host + shift, host, host + 1, begin + ports + host, 1, ports),
        (host, 0, ports, begin + host, 1, ports),
    )
    if ((kept.lo <= kept.node) & (kept.node < kept.hi)).any():
        raise InputError(
            "the packet engine cannot distinguish a port of this topology from its router", key="topology.kind"
        )
    return NetworkBlock(
        hosts=ports,
        nodes=block.nodes + ports,
        source=np.concatenate([block.source + shift, host, host + shift]),
        target=np.concatenate([block.target + shift, host + shift, host]),
        rate_bps=np.concatenate([block.rate_bps, rate, rate]),
        latency_ps=np.concatenate([block.latency_ps, np.full(2 * ports, INSIDE_PS)]),
        link=np.concatenate([block.link, np.full(2 * ports, -1)]),
        record=record,
        choices=np.concatenate([block.choices, up, down]),
        salt=None if block.salt is None else np.concatenate([np.zeros(ports, np.uint32), block.salt]),
    )


# ---------------------------------------------------------------------------------------------------- reducing switches


def reducer_nodes(network: Network) -> Ints:
    """int64[]: the switches to which NICs are joined; the first one of a port that has several."""
    nodes: Ints = np.unique(_leaf_of_port(network))
    return nodes[nodes >= 0]


def _leaf_of_port(network: Network) -> Ints:
    """int64[ports], -1 where nothing is connected."""
    wiring = network.wiring
    leaf = np.full(network.ports, -1, np.int64)
    out = np.flatnonzero(wiring.source < network.ports)[::-1]
    leaf[wiring.source[out]] = wiring.target[out]
    return leaf


def reducers(network: Network) -> Ints:
    """int64[ports]: host of the reducer next to each port."""
    leaf = _leaf_of_port(network)
    found: Ints = network.ports + np.searchsorted(reducer_nodes(network), leaf)
    return found


def with_reducers(block: NetworkBlock, leaf: Ints) -> NetworkBlock:
    """A host at every leaf that stands for what the switch adds up, joined by links as fast as all NICs below."""
    ports, count = block.hosts, len(leaf)
    host = ports + np.arange(count)

    def moved(node: Ints) -> Ints:
        return np.where(node < ports, node, node + count)

    below = np.bincount(block.target, block.rate_bps * (block.source < ports), minlength=block.nodes)[leaf]
    up, down = len(block.source) + np.arange(count), len(block.source) + count + np.arange(count)
    kept = block.record
    attached = np.flatnonzero(np.isin(block.source, np.arange(ports)) & np.isin(block.target, leaf))
    _, firsts = np.unique(block.source[attached], return_index=True)
    attached = attached[firsts]  # from each port the one link to its reducer
    begin = len(block.choices)
    near = host[np.searchsorted(leaf, block.target[attached])]
    number, hosts = np.arange(count), ports + count
    record = RoutingRecord.of(
        (moved(kept.node), *kept[1:]),
        (moved(leaf), host, host + 1, begin + count + number, 1, hosts),
        (host, 0, ports, begin + number, 1, hosts),
        (block.source[attached], near, near + 1, begin + 2 * count + np.arange(len(attached)), 1, hosts),
    )
    return NetworkBlock(
        hosts=hosts,
        nodes=block.nodes + count,
        source=np.concatenate([moved(block.source), host, moved(leaf)]),
        target=np.concatenate([moved(block.target), moved(leaf), host]),
        rate_bps=np.concatenate([block.rate_bps, below, below]),
        latency_ps=np.concatenate([block.latency_ps, np.full(2 * count, INSIDE_PS)]),
        link=np.concatenate([block.link, np.full(2 * count, -1)]),
        record=record,
        choices=np.concatenate([block.choices, up, down, attached]),
        salt=None if block.salt is None else np.insert(block.salt, ports, np.zeros(count, np.uint32)),
    )


class _Wiring:
    """Collects links and routes."""

    def __init__(self, hosts: int) -> None:
        self.hosts = hosts
        self.routes = RouteBuilder(hosts)
        self._source: list[Ints] = []
        self._target: list[Ints] = []
        self._rate: list[Ints] = []
        self._links = 0

    def links(self, source: Ints, target: Ints, rate_bps: int) -> Ints:
        """Adds links; their numbers."""
        ids = self._links + np.arange(len(source))
        self._links += len(source)
        self._source.append(source)
        self._target.append(target)
        self._rate.append(np.full(len(source), rate_bps, np.int64))
        return ids

    def only_up(self, up: Ints) -> None:
        """Every host reaches all others over its own link."""
        self.routes.records(
            np.arange(self.hosts), 0, self.hosts, self.routes.choices(up[:, None]), width=1, stride=self.hosts
        )

    def below(self, node: Ints, lo: Ints, down: Ints, *, stride: int, width: int = 1) -> None:
        """Each node reaches `stride` hosts from `lo` on by its first `width` links `down[node, link]`, and so on."""
        count = down.shape[1] // width * stride
        self.routes.records(node, lo, lo + count, self.routes.choices(down), width=width, stride=stride)

    def above(self, node: Ints, lo: Ints, hi: Ints, up: Ints) -> None:
        """Each node reaches every host not in `[lo, hi)` by any of its links `up[node, link]`."""
        self.routes.outside(node, lo, hi, self.routes.choices(up), width=up.shape[1])

    def build(self, nodes: int, latency_ps: int) -> PacketNetwork:
        """The network, every link with the same latency."""
        return PacketNetwork(
            hosts=self.hosts,
            nodes=nodes,
            link_source=np.concatenate(self._source).astype(np.int32),
            link_target=np.concatenate(self._target).astype(np.int32),
            rate_bps=np.concatenate(self._rate),
            latency_ps=np.full(self._links, latency_ps, np.int64),
            routes=self.routes.build(nodes),
        )


def crossbar(hosts: int, *, rate_bps: int, latency_ps: int = 1_000_000) -> PacketNetwork:
    """One switch that joins all hosts: the fabric called `ideal`, where only NICs and their last hop can be busy."""
    wiring = _Wiring(hosts)
    host, switch = np.arange(hosts), np.full(hosts, hosts)
    up, down = wiring.links(host, switch, rate_bps), wiring.links(switch, host, rate_bps)
    wiring.only_up(up)
    wiring.below(np.array([hosts]), np.zeros(1, np.int64), down[None, :], stride=1)
    return wiring.build(hosts + 1, latency_ps)


def leaf_spine(
    hosts: int,
    *,
    leaf_hosts: int,
    spines: int,
    rate_bps: int,
    latency_ps: int = 1_000_000,
    up_rate_bps: int | None = None,
    cables: int = 1,
) -> PacketNetwork:
    """Leaves of `leaf_hosts` hosts, each joined to every spine by as many links.

    Args:
        hosts: Hosts.
        leaf_hosts: Hosts of a leaf; divides `hosts`.
        spines: Spines.
        rate_bps: Rate of the hosts' links, bit/s.
        latency_ps: Delay of every link, ps.
        up_rate_bps: Rate of the links between leaves and spines, bit/s; `rate_bps` when None.
        cables: Parallel links between a leaf and a spine.

    Raises:
        InputError: `leaf_hosts` does not divide `hosts`.
    """
    if hosts % leaf_hosts:
        raise InputError(
            "hosts must be a multiple of leaf_hosts", key="hosts", found=hosts, allowed=f"k x {leaf_hosts}"
        )
    leaves = hosts // leaf_hosts
    wiring = _Wiring(hosts)
    host = np.arange(hosts)
    leaf = hosts + host // leaf_hosts
    host_up, host_down = wiring.links(host, leaf, rate_bps), wiring.links(leaf, host, rate_bps)
    lower = hosts + np.repeat(np.arange(leaves), spines * cables)
    upper = hosts + leaves + np.tile(np.repeat(np.arange(spines), cables), leaves)
    rate = up_rate_bps or rate_bps
    up = wiring.links(lower, upper, rate).reshape(leaves, spines * cables)
    down = wiring.links(upper, lower, rate).reshape(leaves, spines, cables)
    wiring.only_up(host_up)
    node, first = hosts + np.arange(leaves), leaf_hosts * np.arange(leaves)
    wiring.below(node, first, host_down.reshape(leaves, leaf_hosts), stride=1)
    wiring.above(node, first, first + leaf_hosts, up)
    below = down.transpose(1, 0, 2).reshape(spines, leaves * cables)
    wiring.below(hosts + leaves + np.arange(spines), np.zeros(spines, np.int64), below, stride=leaf_hosts, width=cables)
    return wiring.build(hosts + leaves + spines, latency_ps)


def fat_tree(hosts: int, *, rate_bps: int, latency_ps: int = 1_000_000) -> PacketNetwork:
    """The three-tier fat tree of K-port switches with K^3 / 4 hosts, all links alike (Al-Fares et al. 2008).

    Aggregation switch `p` of a pod is joined to cores `p`, `p + K/2`, `p + K`, ...

    Raises:
        InputError: No even K has K^3 / 4 = `hosts`.
    """
    ports = round((4 * hosts) ** (1 / 3))
    if ports % 2 or ports**3 != 4 * hosts:
        sizes = [k**3 // 4 for k in (4, 8, 16, 32)]
        raise InputError("a three-tier fat tree has K^3/4 hosts, K even", key="hosts", found=hosts, allowed=sizes)
    half = ports // 2
    wiring = _Wiring(hosts)
    host = np.arange(hosts)
    edge0, agg0, core0 = hosts, hosts + ports * half, hosts + 2 * ports * half
    host_up = wiring.links(host, edge0 + host // half, rate_bps)
    host_down = wiring.links(edge0 + host // half, host, rate_bps)
    edge = np.repeat(np.arange(ports * half), half)
    agg = edge // half * half + np.tile(np.arange(half), ports * half)
    edge_up = wiring.links(edge0 + edge, agg0 + agg, rate_bps).reshape(ports * half, half)
    edge_down = wiring.links(agg0 + agg, edge0 + edge, rate_bps).reshape(ports, half, half)
    lower = np.repeat(np.arange(ports * half), half)
    core = lower % half + half * np.tile(np.arange(half), ports * half)
    agg_up = wiring.links(agg0 + lower, core0 + core, rate_bps).reshape(ports * half, half)
    agg_down = wiring.links(core0 + core, agg0 + lower, rate_bps).reshape(ports, half, half)
    switch, cores, pod_hosts = np.arange(ports * half), half * half, half * half
    wiring.only_up(host_up)
    wiring.below(edge0 + switch, switch * half, host_down.reshape(ports * half, half), stride=1)
    wiring.above(edge0 + switch, switch * half, (switch + 1) * half, edge_up)
    first = switch // half * pod_hosts
    wiring.below(agg0 + switch, first, edge_down.transpose(0, 2, 1).reshape(ports * half, half), stride=half)
    wiring.above(agg0 + switch, first, first + pod_hosts, agg_up)
    down = agg_down.transpose(2, 1, 0).reshape(cores, ports)
    wiring.below(core0 + np.arange(cores), np.zeros(cores, np.int64), down, stride=pod_hosts)
    return wiring.build(core0 + cores, latency_ps)


def scale_up_block(cluster: Cluster) -> NetworkBlock:
    """Scale-up links: a crossbar a domain, or a full mesh; their rate is what data can reach on them.

    Behind the ranks stands a host for every switched domain, as fast as all its ranks: the switch where it reduces.

    Raises:
        InputError: The links form a torus.
    """
    scale_up = cluster.scale_up
    if scale_up.kind == "torus":
        raise InputError(
            "accelerators of a torus forward packets, which the packet engine's hosts do not",
            key="packet.scale_up",
            found="packets",
            allowed=["model", "auto"],
        )
    return _switched(cluster) if scale_up.kind == "switched" else _mesh(cluster)


def _switched(cluster: Cluster) -> NetworkBlock:
    scale_up, links = cluster.scale_up, cluster.links
    ranks, domains, size = cluster.ranks, scale_up.domains, scale_up.domain
    rank, domain = np.arange(ranks), np.arange(domains)
    switch = ranks + domains + domain
    switch_of = switch[rank // size]
    egress, ingress = scale_up.egress(rank).astype(np.int64), scale_up.ingress(rank).astype(np.int64)
    efficiency = scale_up_efficiency(cluster)
    rate_bps_of = links.rate_bps[egress] * efficiency
    reducing = np.bincount(rank // size, rate_bps_of, minlength=domains)
    reducer, hosts = ranks + domain, ranks + domains
    return NetworkBlock(
        hosts=hosts,
        nodes=hosts + domains,
        source=np.concatenate([rank, switch_of, reducer, switch]),
        target=np.concatenate([switch_of, rank, switch, reducer]),
        rate_bps=np.concatenate([rate_bps_of, links.rate_bps[ingress] * efficiency, reducing, reducing]),
        latency_ps=np.concatenate(
            [links.latency_ps[egress], links.latency_ps[ingress], np.full(2 * domains, INSIDE_PS)]
        ),
        link=np.concatenate([egress, ingress, np.full(2 * domains, -1)]),
        record=RoutingRecord.of(
            (rank, 0, hosts, rank, 1, hosts),
            (switch, domain * size, np.minimum((domain + 1) * size, ranks), ranks + domain * size, 1, 1),
            (switch, reducer, reducer + 1, ranks + hosts + domain, 1, ranks),
            (reducer, 0, ranks, ranks + reducer, 1, ranks),
        ),
        choices=np.arange(2 * ranks + 2 * domains),
    )


def _mesh(cluster: Cluster) -> NetworkBlock:
    """Every rank is a host and a router, from which a link leads to every peer."""
    scale_up, links = cluster.scale_up, cluster.links
    ranks, size = cluster.ranks, scale_up.domain
    rank = np.arange(ranks)
    source, target = scale_up.ends(ranks)
    ids = scale_up.first_link + np.arange(len(source))
    rate = links.rate_bps[ids] * scale_up_efficiency(cluster)
    sent = np.bincount(source, rate, minlength=ranks)
    local = rank % size
    first = rank - local
    begin = ranks + rank * (size - 1)
    record = RoutingRecord.of(
        (rank, 0, ranks, rank, 1, ranks),
        (ranks + rank, first, rank, begin, 1, 1),
        (ranks + rank, rank + 1, first + size, begin + local, 1, 1),
    )
    return NetworkBlock(
        hosts=ranks,
        nodes=2 * ranks,
        source=np.concatenate([rank, ranks + source]),
        target=np.concatenate([ranks + rank, target]),
        rate_bps=np.concatenate([sent, rate]),
        latency_ps=np.concatenate([np.full(ranks, INSIDE_PS), links.latency_ps[ids]]),
        link=np.concatenate([np.full(ranks, -1), ids]),
        record=record.part(record.lo < record.hi),
        choices=np.arange(ranks + len(ids)),
    )
