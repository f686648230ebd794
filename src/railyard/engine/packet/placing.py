"""A cluster as one network of packets: every back-end port a host, with storage ports and scale-up links.

The blocks are joined into one `PacketNetwork` without links between them: a message that changes from scale-up to the
back-end is two flows, the second of which waits for the first.

What `cluster.background` is packet by packet: permutations of all ports that load the links between switches.

Flow engines subtract the capacity; here packets of others wait in queues, collide, and are paused themselves. Every
port of the back-end sends to another in turn, so often that the fullest tier between switches carries the load; NICs
carry what that takes of them. What loads one of several tiers, NICs or another network stays lost capacity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.background import Bursts
from railyard.engine.packet.networks import (
    PS_PER_S,
    NetworkBlock,
    RoutingRecord,
    reducer_nodes,
    reducers,
    scale_up_block,
    with_reducers,
    with_routers,
)
from railyard.engine.packet.records import PacketNetwork
from railyard.kit.errors import InputError
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.network import Network
    from railyard.cluster.routes import Routes
    from railyard.cluster.spec import Background

    Ints = NDArray[np.int64]


SIZE_BYTES = 1 << 20
MOST_FLOWS = 100_000
"""Beyond it flows are larger and come less often."""

PAIRS = 1 << 16
"""Pairs of ports from which the load of tiers is worked out: all of up to 256 ports, else drawn."""

MOST_NIC_LOAD = 0.9


def sent_share(cluster: Cluster) -> float:
    """Share of the capacity between the back-end's switches that is sent as traffic; the rest is lost capacity."""
    share = sum(item.load for item in cluster.spec.background if _is_sent(item, cluster))
    return share if share > 0 and _nic_load(cluster, share) <= MOST_NIC_LOAD else 0.0


def lost(cluster: Cluster) -> Iterator[str]:
    """A warning for what of it is lost capacity."""
    sent = sent_share(cluster) > 0
    for item in cluster.spec.background:
        if not (sent and _is_sent(item, cluster)):
            where = item.network if item.tier is None else f"{item.network} {item.tier}"
            yield f"background of {item.load:.0%} on {where} only reduces capacity: its packets are not simulated"


def crossing(cluster: Cluster, span_ps: int) -> tuple[Bursts, ...]:
    """The bursts that are sent."""
    share = sent_share(cluster)
    if not share:
        return ()
    ports = len(_ports(cluster))
    every_ps = 1e12 * float(_busy_s(cluster).max()) / share
    larger = max(1.0, span_ps / every_ps * ports / MOST_FLOWS)
    return (Bursts("permutation", ports, round(larger * SIZE_BYTES), round(larger * every_ps), name="background"),)


def crossing_hops(cluster: Cluster, span_ps: int, payload_bytes: int) -> float:
    """About so many packets of it times links."""
    share = sent_share(cluster)
    if not share:
        return 0.0
    bursts = span_ps * 1e-12 * share / float(_busy_s(cluster).max())
    return bursts * len(_ports(cluster)) * SIZE_BYTES / payload_bytes * float(_tier_bytes(cluster).sum())


def _is_sent(item: Background, cluster: Cluster) -> bool:
    between = _between(cluster)
    return (
        item.network == "back_end"
        and bool(between)
        and cluster.fabric.load_balancing != "ideal"
        and (item.tier is None or [item.tier] == [cluster.back_end.tiers[tier].name for tier in between])
        and len(_ports(cluster)) > 1
    )


def _between(cluster: Cluster) -> list[int]:
    """Tiers between switches, in the back-end's numbers."""
    return [number for number, tier in enumerate(cluster.back_end.wiring.tiers) if tier.kind != "access"]


def _ports(cluster: Cluster) -> NDArray[np.int32]:
    return np.unique(cluster.back_end.port_of_rank).astype(np.int32)


def _tier_bytes(cluster: Cluster) -> NDArray[np.float64]:
    """float64[tiers of the back-end]: bytes of a byte that a port sends to another, mean over pairs."""
    ports, network = _ports(cluster), cluster.back_end
    count = len(ports)
    if count * (count - 1) <= PAIRS:
        source, target = np.repeat(ports, count), np.tile(ports, count)
    else:
        source, target = ports[np.random.default_rng(count).integers(0, count, (2, PAIRS))]
    apart = source != target
    source, target = source[apart], target[apart]
    usage = network.usage(source, target, np.arange(len(source), dtype=np.uint64))
    first = int(cluster.links.tier[network.link_offset : network.link_offset + network.wiring.links].min())
    tier = cluster.links.tier[usage.link].astype(np.int64) - first
    return np.bincount(tier, usage.share, minlength=len(network.tiers)) / len(source)


def _busy_s(cluster: Cluster) -> NDArray[np.float64]:
    """float64[tiers between switches]: how long a permutation keeps each busy, were its links used alike."""
    wiring = cluster.back_end.wiring
    line_bps = np.bincount(wiring.tier, wiring.line_bps, minlength=len(wiring.tiers))
    wire_bits = 8 * SIZE_BYTES / cluster.fabric.payload_efficiency * len(_ports(cluster))
    between = _between(cluster)
    return wire_bits * _tier_bytes(cluster)[between] / line_bps[between]


def _nic_load(cluster: Cluster, share: float) -> float:
    """Share of a NIC's rate that it sends when the tiers between switches carry a share."""
    wire_bits = 8 * SIZE_BYTES / cluster.fabric.payload_efficiency
    network = cluster.back_end
    out, _ = network.port_links(int(_ports(cluster)[0]))
    busiest = float(_busy_s(cluster).max())
    return math.inf if not busiest else wire_bits * share / busiest / float(cluster.links.line_bps[out].sum())


@dataclass(frozen=True, eq=False)
class PlacedNetwork:
    """A cluster's network of packets and who is where in it.

    Attributes:
        link: int64[links], id in the cluster's link table, -1 where it has none.
        storage: First host of the ports of the network of storage and memory pool; 0 where that is the back-end.
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


def place(
    cluster: Cluster, *, scale_up: bool, packet_bytes: int, header_bytes: int, framed: bool = False
) -> PlacedNetwork:
    """Builds the network of packets.

    Args:
        cluster: The cluster.
        scale_up: Whether scale-up links are part of it.
        packet_bytes: A full packet with its header.
        header_bytes: An acknowledgement.
        framed: Whether packets are the frames of scale-up links, which then run at their line rate; else at that of
            data.

    Raises:
        InputError: Scale-up is a torus, whose accelerators pass on the packets of others.
    """
    back_end = cluster.back_end
    reduces = (
        back_end.fabric.sharp and back_end.fabric.load_balancing != "ideal" and not back_end.wiring.routes_through_ports
    )
    blocks = [network_block(cluster, back_end, reduces=reduces)]
    storage = 0
    away = _away(cluster)
    if away is not None:
        storage = sum(block.hosts for block in blocks)
        blocks.append(network_block(cluster, away))
    first = switch = -1
    if scale_up and cluster.scale_up.kind != "none":
        first = sum(block.hosts for block in blocks)
        block = scale_up_block(cluster)
        wire = packet_bytes / (packet_bytes - header_bytes) if framed else 1.0
        blocks.append(replace(block, rate_bps=block.rate_bps * wire))
        switch = first + cluster.ranks if cluster.scale_up.kind == "switched" else -1
    network, link = joined(blocks)
    left_out = [
        "the non-minimal routes of the topology: packets take minimal ones"
        for part in (back_end, away)
        if part is not None and part.wiring.detour is not None
    ]
    return PlacedNetwork(
        network=network,
        link=link,
        storage=storage,
        scale_up=first,
        domain_switch=switch,
        reducer=reducers(back_end) if reduces else np.empty(0, np.int64),
        base_rtt_ps=base_rtt_ps(cluster, packet_bytes, header_bytes),
        left_out=tuple(dict.fromkeys(left_out)),
    )


def _away(cluster: Cluster) -> Network | None:
    """The network of storage or of the memory pool, if it is not the back-end.

    Raises:
        InputError: They lie on two.
    """
    found = (cluster.storage, cluster.pool_network)
    stores = [network for network in found if network is not None and network is not cluster.back_end]
    if len(stores) == 2 and stores[0] is not stores[1]:
        raise InputError(
            "the packet engine simulates one network in addition to the back-end; storage and memory pool use two",
            key="memory_pool.network",
            allowed="back_end, or the network of storage",
        )
    return stores[0] if stores else None


def joined(blocks: Sequence[NetworkBlock]) -> tuple[PacketNetwork, Ints]:
    """All blocks as one network, hosts first; and the cluster's id of every link."""
    hosts = sum(block.hosts for block in blocks)
    host0 = np.cumsum([0] + [block.hosts for block in blocks])
    node0 = hosts + np.cumsum([0] + [block.nodes - block.hosts for block in blocks])
    link0 = np.cumsum([0] + [len(block.source) for block in blocks])
    choice0 = np.cumsum([0] + [len(block.choices) for block in blocks])

    def node(number: int, local: Ints) -> Ints:
        block = blocks[number]
        found: Ints = np.where(local < block.hosts, local + host0[number], local - block.hosts + node0[number])
        return found

    def column(name: str) -> Ints:
        return np.concatenate([getattr(block, name) for block in blocks])

    record = RoutingRecord.of(
        *(
            (node(at, own.node), own.lo + host0[at], own.hi + host0[at], own.first + choice0[at], own.width, own.stride)
            for at, own in enumerate(block.record for block in blocks)
        )
    )
    # WHY: a node whose records reach every host is looked up in one step; no packet of another block comes by.
    last = (record.hi == blocks[0].hosts) & (record.hi - record.lo <= record.stride)
    last[len(blocks[0].record.node) :] = False
    record.hi[last], record.stride[last] = hosts, hosts
    nodes = int(node0[-1])
    network = PacketNetwork(
        hosts=hosts,
        nodes=nodes,
        link_source=np.concatenate([node(at, block.source) for at, block in enumerate(blocks)]).astype(np.int32),
        link_target=np.concatenate([node(at, block.target) for at, block in enumerate(blocks)]).astype(np.int32),
        rate_bps=np.maximum(np.rint(column("rate_bps")), 1).astype(np.int64),
        latency_ps=column("latency_ps").astype(np.int64),
        routes=record.routes(nodes, np.concatenate([block.choices + link0[at] for at, block in enumerate(blocks)])),
        salt=_salts(blocks, node, nodes),
    )
    return network, column("link")


def _salts(blocks: Sequence[NetworkBlock], node: Callable[[int, Ints], Ints], nodes: int) -> NDArray[np.uint32]:
    """uint32[nodes], those of the cluster's switches: a flow takes the path that it has in the flow engine."""
    salts = np.zeros(nodes, np.uint32)
    for at, block in enumerate(blocks):
        if block.salt is not None:
            salts[node(at, np.arange(block.nodes))] = block.salt
    return salts


# ------------------------------------------------------------------------------------------------------------ networks


def network_block(cluster: Cluster, network: Network, *, reduces: bool = False) -> NetworkBlock:
    """Ports and switches of a network; what storage nodes read and write bounds the links of their ports."""
    if network.fabric.load_balancing == "ideal":
        return _crossbar(cluster, network)
    wiring, table = network.wiring, network.wiring.routing
    ids = network.link_offset + np.arange(wiring.links)
    block = NetworkBlock(
        hosts=network.ports,
        nodes=wiring.nodes,
        source=wiring.source.astype(np.int64),
        target=wiring.target.astype(np.int64),
        rate_bps=_rates(cluster, network, ids, wiring.source.astype(np.int64), wiring.target.astype(np.int64)),
        latency_ps=cluster.links.latency_ps[ids].astype(np.int64),
        link=ids,
        record=_connected(table),
        choices=np.maximum(table.choices, 0).astype(np.int64),
        salt=network.salts,
    )
    if wiring.routes_through_ports:
        return with_routers(block)
    return with_reducers(block, reducer_nodes(network)) if reduces else block


def _connected(table: Routes) -> RoutingRecord:
    """The records of a table, cut where a group leads nowhere because a port is free."""
    groups = table.groups()
    record = np.repeat(np.arange(len(table.lo)), groups)
    group = ranges(0, groups)
    there = table.choices[table.first[record] + group * table.width[record]] >= 0
    fresh = np.ones(len(record), np.bool_)
    fresh[1:] = (record[1:] != record[:-1]) | ~there[:-1]
    begin = np.flatnonzero(there & fresh)
    last = np.ones(len(record), np.bool_)
    last[:-1] = (record[1:] != record[:-1]) | ~there[1:]
    final = np.flatnonzero(there & last)
    of, stride = record[begin], table.stride.astype(np.int64)[record[begin]]
    lo = table.lo.astype(np.int64)[of]
    return RoutingRecord(
        node=table.record_node[of],
        lo=lo + group[begin] * stride,
        hi=np.minimum(lo + (group[final] + 1) * stride, table.hi[of]),
        first=table.first[of] + group[begin] * table.width[of],
        width=table.width[of].astype(np.int64),
        stride=stride,
    )


def _rates(cluster: Cluster, network: Network, ids: Ints, source: Ints, target: Ints) -> NDArray[np.float64]:
    """float64[links]: what is left of line rates by NICs, and by background traffic of which no packets are sent.

    The flow engine's utilization of shared tiers is taken out again: queues and collisions are simulated here.
    """
    left = 1.0 - (sent_share(cluster) if network is cluster.back_end else 0.0)
    fabric = network.fabric
    kinds = [tier.kind for tier in network.tiers]
    first = int(cluster.links.tier[network.link_offset])
    kind = np.array([name == "access" for name in kinds])[cluster.links.tier[ids] - first]
    factor = np.where(kind, fabric.transport_efficiency, 1 / (fabric.fabric_efficiency * left))
    rate: NDArray[np.float64] = cluster.links.free_bps[ids] * factor
    ports = network.ports
    reads, writes = np.full(ports, np.inf), np.full(ports, np.inf)
    servers, pool = cluster.storage_servers, cluster.memory_pool
    devices: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]] = []
    if servers is not None and network is cluster.storage:
        devices.append((servers.ports, servers.read_link, servers.write_link))
    if pool is not None and network is cluster.pool_network:
        devices.append((pool.ports, pool.load_link, pool.store_link))
    for at, read, write in devices:
        width = max(at.shape[1], 1)
        reads[at] = (cluster.links.rate_bps[read] / width)[:, None]
        writes[at] = (cluster.links.rate_bps[write] / width)[:, None]
    rate = np.where(source < ports, np.minimum(rate, reads[np.minimum(source, ports - 1)]), rate)
    return np.where(target < ports, np.minimum(rate, writes[np.minimum(target, ports - 1)]), rate)


def _crossbar(cluster: Cluster, network: Network) -> NetworkBlock:
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
    record = RoutingRecord.of(
        (wired, 0, ports, (np.cumsum(up) - up)[wired], up[wired], ports),
        (np.full(len(wired), ports), wired, wired + 1, len(out) + first_down[wired], down[wired], 1),
    )
    if len(wired) == ports and (down == down[0]).all():  # one record in place of one a port
        record = record.part(slice(ports + 1))
        record.hi[-1] = ports
    rate = _rates(cluster, network, ids, ends[0], ends[1])
    return NetworkBlock(ports, ports + 1, *ends, rate, latency, ids, record, np.arange(len(ids)))


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
    crossed = typical_path_ps(cluster, network) if ideal else int(network.crossed_ps(near, far).max())
    links = 2 if ideal else int(network.hops(near, far).max()) + 1
    out, _ = network.port_links(int(near[0]))
    bits = 8 * links * (packet_bytes + header_bytes)
    return 2 * crossed + round(bits * PS_PER_S / float(cluster.links.rate_bps[out].sum()))
