"""A cluster as one network of packets: every back-end port a host, storage ports and scale-up links beside them.

The blocks are joined into one `PacketNetwork` without links between them: a message that changes from scale-up to the
back-end is two flows, the second of which waits for the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.lowering.routes import scale_up_efficiency
from railyard.engine.packet.records import PacketNetwork, Routes
from railyard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.network import Network
    from railyard.cluster.routing import RoutingTable

    Ints = NDArray[np.int64]

PS_PER_S = 10**12
INSIDE_PS = 1000
"""Latency of links that stand for the inside of a box: a host's own router, a switch's own adder."""


@dataclass(frozen=True)
class Record:
    """Routing records of one block, in its own numbers; columns as in `Routes`, and the node of each."""

    node: Ints
    lo: Ints
    hi: Ints
    first: Ints
    width: Ints
    stride: Ints


@dataclass(frozen=True)
class Block:
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
    """

    hosts: int
    nodes: int
    source: Ints
    target: Ints
    rate_bps: NDArray[np.float64]
    latency_ps: Ints
    link: Ints
    record: Record
    choices: Ints


@dataclass(frozen=True, eq=False)
class Placed:
    """A cluster's network of packets and who is where in it.

    Attributes:
        network: The network.
        link: int64[links], id in the cluster's link table, -1 where it has none.
        storage: First host of the storage network's ports; 0 where storage lies on the back-end.
        scale_up: First of the ranks' hosts on scale-up, -1 where scale-up is not made of packets.
        domain_switch: First of the hosts that stand for reducing scale-up switches, -1 where there are none.
        reducer: int64[ports], host of the reducing switch next to each back-end port; empty where the fabric has none.
        base_rtt_ps: Unloaded round trip of the longest path of the back-end.
        left_out: What the cluster has and this network has not.
    """

    network: PacketNetwork
    link: Ints
    storage: int
    scale_up: int
    domain_switch: int
    reducer: Ints
    base_rtt_ps: int
    left_out: tuple[str, ...] = field(default=())


def place(cluster: Cluster, *, scale_up: bool, packet_bytes: int, header_bytes: int) -> Placed:
    """Builds the network of packets.

    Args:
        cluster: The cluster.
        scale_up: Whether scale-up links are part of it.
        packet_bytes: A full packet with its header.
        header_bytes: An acknowledgement.

    Raises:
        InputError: Scale-up is a torus, whose accelerators pass on the packets of others.
    """
    back_end = cluster.back_end
    reduces = back_end.fabric.sharp and back_end.fabric.load_balancing != "ideal" and not back_end.wiring.joins_ports
    blocks = [network_block(cluster, back_end, reduces=reduces)]
    storage = 0
    if cluster.storage is not None and cluster.storage is not back_end:
        storage = sum(block.hosts for block in blocks)
        blocks.append(network_block(cluster, cluster.storage))
    first = switch = -1
    if scale_up and cluster.scale_up.kind != "none":
        first = sum(block.hosts for block in blocks)
        blocks.append(scale_up_block(cluster))
        switch = first + cluster.ranks if cluster.scale_up.kind == "switched" else -1
    network, link = joined(blocks)
    left_out = [
        "the non-minimal routes of the topology: packets take minimal ones"
        for part in (back_end, cluster.storage)
        if part is not None and part.wiring.detour is not None
    ]
    return Placed(
        network=network,
        link=link,
        storage=storage,
        scale_up=first,
        domain_switch=switch,
        reducer=_reducers(back_end) if reduces else np.empty(0, np.int64),
        base_rtt_ps=base_rtt_ps(cluster, packet_bytes, header_bytes),
        left_out=tuple(dict.fromkeys(left_out)),
    )


def joined(blocks: Sequence[Block]) -> tuple[PacketNetwork, Ints]:
    """All blocks as one network, hosts first; and the cluster's id of every link."""
    hosts = sum(block.hosts for block in blocks)
    host0 = np.cumsum([0] + [block.hosts for block in blocks])
    node0 = hosts + np.cumsum([0] + [block.nodes - block.hosts for block in blocks])
    link0 = np.cumsum([0] + [len(block.source) for block in blocks])
    choice0 = np.cumsum([0] + [len(block.choices) for block in blocks])

    def node(number: int, own: Ints) -> Ints:
        block = blocks[number]
        found: Ints = np.where(own < block.hosts, own + host0[number], own - block.hosts + node0[number])
        return found

    def column(name: str) -> Ints:
        return np.concatenate([getattr(block, name) for block in blocks])

    def records(name: str, shift: Ints) -> Ints:
        return np.concatenate([getattr(block.record, name) + shift[at] for at, block in enumerate(blocks)])

    zero = np.zeros(len(blocks), np.int64)
    hi, stride = records("hi", host0), records("stride", zero)
    # WHY: a node whose records reach every host is looked up in one step; no packet of another block comes by.
    last = (hi == blocks[0].hosts) & (hi - records("lo", host0) <= stride)
    last[len(blocks[0].record.node) :] = False
    hi[last], stride[last] = hosts, hosts
    owner = np.concatenate([node(at, block.record.node) for at, block in enumerate(blocks)])
    lo = records("lo", host0)
    order = np.lexsort((lo, owner))
    nodes = int(node0[-1])
    routes = Routes(
        record_ptr=np.searchsorted(owner[order], np.arange(nodes + 1)).astype(np.int64),
        lo=lo[order].astype(np.int32),
        hi=hi[order].astype(np.int32),
        first=records("first", choice0)[order].astype(np.int64),
        width=records("width", zero)[order].astype(np.int32),
        stride=stride[order].astype(np.int32),
        choices=np.concatenate([block.choices + link0[at] for at, block in enumerate(blocks)]).astype(np.int32),
    )
    network = PacketNetwork(
        hosts=hosts,
        nodes=nodes,
        link_source=np.concatenate([node(at, block.source) for at, block in enumerate(blocks)]).astype(np.int32),
        link_target=np.concatenate([node(at, block.target) for at, block in enumerate(blocks)]).astype(np.int32),
        rate_bps=np.maximum(np.rint(column("rate_bps")), 1).astype(np.int64),
        latency_ps=column("latency_ps").astype(np.int64),
        routing=routes,
    )
    return network, column("link")


# ------------------------------------------------------------------------------------------------------------ networks


def network_block(cluster: Cluster, network: Network, *, reduces: bool = False) -> Block:
    """Ports and switches of a network; what storage nodes read and write bounds the links of their ports."""
    if network.fabric.load_balancing == "ideal":
        return _crossbar(cluster, network)
    wiring, table = network.wiring, network.routing
    ids = network.link_offset + np.arange(wiring.links)
    block = Block(
        hosts=network.ports,
        nodes=wiring.nodes,
        source=wiring.source.astype(np.int64),
        target=wiring.target.astype(np.int64),
        rate_bps=_rates(cluster, network, ids, wiring.source.astype(np.int64), wiring.target.astype(np.int64)),
        latency_ps=cluster.links.latency_ps[ids].astype(np.int64),
        link=ids,
        record=_connected(table),
        choices=np.maximum(table.choices, 0).astype(np.int64),
    )
    if wiring.joins_ports:
        return _with_routers(block)
    return _with_reducers(block, _reducer_nodes(network)) if reduces else block


def _connected(table: RoutingTable) -> Record:
    """The records of a table, cut where a group leads nowhere because a port is free."""
    groups = table.groups()
    record = np.repeat(np.arange(len(table.lo)), groups)
    end = np.cumsum(groups)
    group = np.arange(len(record)) - np.repeat(end - groups, groups)
    there = table.choices[table.first[record] + group * table.width[record]] >= 0
    fresh = np.ones(len(record), np.bool_)
    fresh[1:] = (record[1:] != record[:-1]) | ~there[:-1]
    begin = np.flatnonzero(there & fresh)
    last = np.ones(len(record), np.bool_)
    last[:-1] = (record[1:] != record[:-1]) | ~there[1:]
    final = np.flatnonzero(there & last)
    of, stride = record[begin], table.stride.astype(np.int64)[record[begin]]
    node = np.repeat(np.arange(table.nodes), np.diff(table.node_ptr))
    lo = table.lo.astype(np.int64)[of]
    return Record(
        node=node[of],
        lo=lo + group[begin] * stride,
        hi=np.minimum(lo + (group[final] + 1) * stride, table.hi[of]),
        first=table.first[of] + group[begin] * table.width[of],
        width=table.width[of].astype(np.int64),
        stride=stride,
    )


def _rates(cluster: Cluster, network: Network, ids: Ints, source: Ints, target: Ints) -> NDArray[np.float64]:
    """float64[links]: what is left of line rates by background traffic and NICs.

    The flow engine's utilization of shared tiers is taken out again: queues and collisions are simulated here.
    """
    fabric = network.fabric
    kinds = [tier.kind for tier in network.tiers]
    first = int(cluster.links.tier[network.link_offset])
    kind = np.array([name == "access" for name in kinds])[cluster.links.tier[ids] - first]
    factor = np.where(kind, fabric.transport_efficiency, 1 / fabric.fabric_efficiency)
    rate: NDArray[np.float64] = cluster.links.rate_bps[ids] * factor
    servers = cluster.storage_servers
    if servers is None or servers.local or network is not cluster.storage or not servers.ports.size:
        return rate
    own = servers.ports.shape[1]
    reads = np.full(network.ports, np.inf)
    writes = np.full(network.ports, np.inf)
    reads[servers.ports] = (cluster.links.rate_bps[servers.read_link] / own)[:, None]
    writes[servers.ports] = (cluster.links.rate_bps[servers.write_link] / own)[:, None]
    ports = network.ports
    rate = np.where(source < ports, np.minimum(rate, reads[np.minimum(source, ports - 1)]), rate)
    return np.where(target < ports, np.minimum(rate, writes[np.minimum(target, ports - 1)]), rate)


def _crossbar(cluster: Cluster, network: Network) -> Block:
    """`ideal`: every port's own links to one switch; that switch takes as long as a typical path of the topology."""
    ports = network.ports
    if network.crossbar is not None:
        port = np.arange(ports)
        out, into = network.crossbar + port, network.crossbar + ports + port
        out_port = in_port = port
    else:
        source, target = network.wiring.source.astype(np.int64), network.wiring.target.astype(np.int64)
        out, into = np.flatnonzero(source < ports), np.flatnonzero(target < ports)
        out, into = out[np.argsort(source[out], kind="stable")], into[np.argsort(target[into], kind="stable")]
        out_port, in_port = source[out], target[into]
        out, into = out + network.link_offset, into + network.link_offset
    ids = np.concatenate([out, into])
    switch = np.full(len(ids), ports)
    ends = np.concatenate([out_port, switch[: len(into)]]), np.concatenate([switch[: len(out)], in_port])
    latency = cluster.links.latency_ps[ids].astype(np.int64)
    extra = typical_path_ps(cluster, network) - int(latency[0]) - int(latency[len(out)]) if len(out) else 0
    latency[len(out) :] += max(extra, 0)
    up, down = np.bincount(out_port, minlength=ports), np.bincount(in_port, minlength=ports)
    wired = np.flatnonzero((up > 0) & (down > 0))
    first_down = np.cumsum(down) - down
    record = Record(
        node=np.concatenate([wired, np.full(len(wired), ports)]),
        lo=np.concatenate([np.zeros(len(wired), np.int64), wired]),
        hi=np.concatenate([np.full(len(wired), ports), wired + 1]),
        first=np.concatenate([(np.cumsum(up) - up)[wired], len(out) + first_down[wired]]),
        width=np.concatenate([up[wired], down[wired]]),
        stride=np.concatenate([np.full(len(wired), ports), np.ones(len(wired), np.int64)]),
    )
    if len(wired) == ports and (down == down[0]).all():  # one record in place of one a port
        keep = np.arange(ports + 1)
        record = Record(
            *(getattr(record, name)[keep].copy() for name in ("node", "lo", "hi", "first", "width", "stride"))
        )
        record.hi[-1] = ports
    rate = _rates(cluster, network, ids, ends[0], ends[1])
    return Block(ports, ports + 1, *ends, rate, latency, ids, record, np.arange(len(ids)))


def _sample_ports(network: Network) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """A port of rank 0 and one of every other rank, or of the storage nodes where no rank has one."""
    ports = np.unique(network.port_of_rank[:, 0]) if network.port_of_rank.size else network.extra_ports
    if network.extra_ports.size:
        ports = np.unique(np.concatenate([ports, network.extra_ports]))
    first = ports[:1]
    rest = ports[ports != first[0]] if len(ports) else ports
    return np.broadcast_to(first, rest.shape).astype(np.int32), rest.astype(np.int32)


def typical_path_ps(cluster: Cluster, network: Network) -> int:
    """Links and switches between a rail's neighbours and between those half-way round, on the mean; without NICs."""
    ports, step = network.port_of_rank, cluster.ranks_per_server
    if not ports.size:
        near, far = _sample_ports(network)
        return int(np.median(network.path_latency_ps(near, far))) - network.fabric.end_latency_ps if len(far) else 0
    others = np.array([step, cluster.servers // 2 * step])
    others = others[(others > 0) & (others < len(ports))]
    if not len(others):
        return 0
    found = network.path_latency_ps(np.repeat(ports[:1, 0], len(others)), ports[others, 0])
    return int(found.mean()) - network.fabric.end_latency_ps


def base_rtt_ps(cluster: Cluster, packet_bytes: int, header_bytes: int) -> int:
    """Latency of the back-end's longest path there and back, and a packet and its acknowledgement on every link."""
    network = cluster.back_end
    near, far = _sample_ports(network)
    joined_pair = network.reachable(near, far)
    near, far = near[joined_pair], far[joined_pair]
    if not len(far):
        return 0
    ideal = network.fabric.load_balancing == "ideal"
    longest = typical_path_ps(cluster, network) if ideal else int(network.path_latency_ps(near, far).max())
    crossed = longest if ideal else longest - network.fabric.end_latency_ps
    links = 2 if ideal else int(network.hops(near, far).max()) + 1
    out, _ = network.port_links(int(near[0]))
    bits = 8 * links * (packet_bytes + header_bytes)
    return 2 * crossed + round(bits * PS_PER_S / float(cluster.links.rate_bps[out].sum()))


# ------------------------------------------------------------------------------------------- ports that pass packets on


def _with_routers(block: Block) -> Block:
    """A torus: every port becomes a host and a router, for the engine's hosts pass nothing on.

    Router `p` takes the place of port `p`: links between ports join routers; a link of the port's whole rate leads from
    the host to its router and back.
    """
    ports = block.hosts
    shift = ports  # node n of the block becomes node n + ports
    rate = np.bincount(block.source[block.source < ports], block.rate_bps[block.source < ports], minlength=ports)
    up = len(block.source) + np.arange(ports)
    down = up + ports
    host = np.arange(ports)
    kept = block.record
    record = Record(
        node=np.concatenate([kept.node + shift, host + shift, host]),
        lo=np.concatenate([kept.lo, host, np.zeros(ports, np.int64)]),
        hi=np.concatenate([kept.hi, host + 1, np.full(ports, ports)]),
        first=np.concatenate([kept.first, len(block.choices) + ports + host, len(block.choices) + host]),
        width=np.concatenate([kept.width, np.ones(2 * ports, np.int64)]),
        stride=np.concatenate([kept.stride, np.full(2 * ports, ports)]),
    )
    if ((kept.lo <= kept.node) & (kept.node < kept.hi)).any():
        raise InputError("the packet engine cannot tell a port of this topology from its router", key="topology.kind")
    return Block(
        hosts=ports,
        nodes=block.nodes + ports,
        source=np.concatenate([block.source + shift, host, host + shift]),
        target=np.concatenate([block.target + shift, host + shift, host]),
        rate_bps=np.concatenate([block.rate_bps, rate, rate]),
        latency_ps=np.concatenate([block.latency_ps, np.full(2 * ports, INSIDE_PS)]),
        link=np.concatenate([block.link, np.full(2 * ports, -1)]),
        record=record,
        choices=np.concatenate([block.choices, up, down]),
    )


# ---------------------------------------------------------------------------------------------------- reducing switches


def _reducer_nodes(network: Network) -> Ints:
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


def _reducers(network: Network) -> Ints:
    """int64[ports]: host of the reducer next to each port."""
    leaf = _leaf_of_port(network)
    found: Ints = network.ports + np.searchsorted(_reducer_nodes(network), leaf)
    return found


def _with_reducers(block: Block, leaf: Ints) -> Block:
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
    record = Record(
        node=np.concatenate([moved(kept.node), moved(leaf), host, block.source[attached]]),
        lo=np.concatenate(
            [kept.lo, host, np.zeros(count, np.int64), host[np.searchsorted(leaf, block.target[attached])]]
        ),
        hi=np.concatenate(
            [kept.hi, host + 1, np.full(count, ports), host[np.searchsorted(leaf, block.target[attached])] + 1]
        ),
        first=np.concatenate(
            [
                kept.first,
                begin + count + np.arange(count),
                begin + np.arange(count),
                begin + 2 * count + np.arange(len(attached)),
            ]
        ),
        width=np.concatenate([kept.width, np.ones(2 * count + len(attached), np.int64)]),
        stride=np.concatenate([kept.stride, np.full(2 * count + len(attached), ports + count)]),
    )
    return Block(
        hosts=ports + count,
        nodes=block.nodes + count,
        source=np.concatenate([moved(block.source), host, moved(leaf)]),
        target=np.concatenate([moved(block.target), moved(leaf), host]),
        rate_bps=np.concatenate([block.rate_bps, below, below]),
        latency_ps=np.concatenate([block.latency_ps, np.full(2 * count, INSIDE_PS)]),
        link=np.concatenate([block.link, np.full(2 * count, -1)]),
        record=record,
        choices=np.concatenate([block.choices, up, down, attached]),
    )


# ------------------------------------------------------------------------------------------------------------- scale-up


def scale_up_block(cluster: Cluster) -> Block:
    """Scale-up links: a crossbar a domain, or a full mesh; their rate is what data can reach on them.

    Behind the ranks stands a host for every switched domain, as fast as all its ranks: the switch where it reduces.

    Raises:
        InputError: The links form a torus.
    """
    scale_up = cluster.scale_up
    if scale_up.kind == "torus":
        raise InputError(
            "accelerators of a torus pass on the packets of others, which the packet engine's hosts do not",
            key="packet.scale_up",
            found="packets",
            allowed=["model", "auto"],
        )
    return _switched(cluster) if scale_up.kind == "switched" else _mesh(cluster)


def _switched(cluster: Cluster) -> Block:
    scale_up, links = cluster.scale_up, cluster.links
    ranks, domains, size = cluster.ranks, scale_up.domains, scale_up.domain
    rank, domain = np.arange(ranks), np.arange(domains)
    switch = ranks + domains + domain
    own = switch[rank // size]
    egress, ingress = scale_up.egress(rank).astype(np.int64), scale_up.ingress(rank).astype(np.int64)
    efficiency = scale_up_efficiency(cluster)
    whole = links.rate_bps[egress] * efficiency
    reducing = np.bincount(rank // size, whole, minlength=domains)
    lo = ranks + domain
    record = Record(
        node=np.concatenate([rank, switch, switch, ranks + domain]),
        lo=np.concatenate([np.zeros(ranks, np.int64), domain * size, lo, np.zeros(domains, np.int64)]),
        hi=np.concatenate(
            [
                np.full(ranks, ranks + domains),
                np.minimum((domain + 1) * size, ranks),
                lo + 1,
                np.full(domains, ranks),
            ]
        ),
        first=np.concatenate([rank, ranks + domain * size, 2 * ranks + domains + domain, 2 * ranks + domain]),
        width=np.ones(ranks + 3 * domains, np.int64),
        stride=np.concatenate(
            [np.full(ranks, ranks + domains), np.ones(domains, np.int64), np.full(2 * domains, ranks)]
        ),
    )
    return Block(
        hosts=ranks + domains,
        nodes=ranks + 2 * domains,
        source=np.concatenate([rank, own, ranks + domain, switch]),
        target=np.concatenate([own, rank, switch, ranks + domain]),
        rate_bps=np.concatenate([whole, links.rate_bps[ingress] * efficiency, reducing, reducing]),
        latency_ps=np.concatenate(
            [links.latency_ps[egress], links.latency_ps[ingress], np.full(2 * domains, INSIDE_PS)]
        ),
        link=np.concatenate([egress, ingress, np.full(2 * domains, -1)]),
        record=record,
        choices=np.arange(2 * ranks + 2 * domains),
    )


def _mesh(cluster: Cluster) -> Block:
    """Every rank is a host and a router, from which a link leads to every peer."""
    scale_up, links = cluster.scale_up, cluster.links
    ranks, size = cluster.ranks, scale_up.domain
    rank = np.arange(ranks)
    source, target = scale_up.ends(ranks)
    ids = scale_up.first_link + np.arange(len(source))
    rate = links.rate_bps[ids] * scale_up_efficiency(cluster)
    whole = np.bincount(source, rate, minlength=ranks)
    local = rank % size
    first = rank - local
    begin = ranks + rank * (size - 1)
    record = Record(
        node=np.concatenate([rank, ranks + rank, ranks + rank]),
        lo=np.concatenate([np.zeros(ranks, np.int64), first, rank + 1]),
        hi=np.concatenate([np.full(ranks, ranks), rank, first + size]),
        first=np.concatenate([rank, begin, begin + local]),
        width=np.ones(3 * ranks, np.int64),
        stride=np.concatenate([np.full(ranks, ranks), np.ones(2 * ranks, np.int64)]),
    )
    used = record.lo < record.hi
    names = ("node", "lo", "hi", "first", "width", "stride")
    return Block(
        hosts=ranks,
        nodes=2 * ranks,
        source=np.concatenate([rank, ranks + source]),
        target=np.concatenate([ranks + rank, target]),
        rate_bps=np.concatenate([whole, rate]),
        latency_ps=np.concatenate([np.full(ranks, INSIDE_PS), links.latency_ps[ids]]),
        link=np.concatenate([np.full(ranks, -1), ids]),
        record=Record(*(getattr(record, name)[used] for name in names)),
        choices=np.arange(ranks + len(ids)),
    )
