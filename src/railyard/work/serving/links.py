"""Ways between replicas: which links of the cluster keys and values take, and with what share on each.

Keys and values of a request lie on one copy of the attention of a replica, in equal parts on its ranks. Between two
replicas there is a way for each pairing of their copies, and transfers take them round-robin, as engines deal requests
to copies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.collective.connections import connection_keys
from railyard.collective.lowering.storage import lower_pool, lower_storage
from railyard.collective.lowering.table import lower_transfers
from railyard.collective.machine import machine_of
from railyard.collective.policy import CollectivePolicy
from railyard.collective.timing import WIRE, transfer_us
from railyard.engine.serving import Links
from railyard.kit.errors import InputError
from railyard.kit.quantities import format_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.work.serving.networks import ServingNetworks
    from railyard.work.serving.section import Nics

    Ints = NDArray[np.int64]
    from collections.abc import Callable, Collection

    from railyard.collective import EntityTable
    from railyard.work.serving.placing import PlacedPool
    from railyard.work.serving.section import ServingSection

    Lowerer = Callable[[Cluster, NDArray[np.int32], NDArray[np.bool_], NDArray[np.int64]], EntityTable]


_KV_TRANSFER_BYTES = 1 << 28
"""Size at which ways are lowered: large enough that the protocol is that of bulk data."""


@dataclass(frozen=True, eq=False)
class Lanes:
    """Parts of ways that run side by side.

    Attributes:
        lane: int64[k].
        source: int64[k], ranks.
        target: int64[k], ranks.
        share: float64[k], of the way's bytes.
    """

    lane: Ints
    source: Ints
    target: Ints
    share: NDArray[np.float64]

    def part(self, chosen: NDArray[np.bool_]) -> Lanes:
        """Some of them."""
        return Lanes(self.lane[chosen], self.source[chosen], self.target[chosen], self.share[chosen])


class StageLinks:
    """Links of ways, gathered stage by stage."""

    def __init__(self, networks: ServingNetworks, lanes: int, policy: CollectivePolicy) -> None:
        """Begins with so many ways, none of which uses a link yet."""
        self.networks, self._lanes, self._policy = networks, lanes, policy
        self._key: list[Ints] = []
        self._share: list[NDArray[np.float64]] = []
        self.latency_ps = np.zeros(lanes, np.int64)

    def add(self, network: int, lanes: Lanes) -> None:
        """Adds a stage between ranks of one network, behind those before it."""
        if len(lanes.lane) == 0:
            return
        count = len(lanes.lane)
        table = lower_transfers(
            self.networks.clusters[network],
            lanes.source.astype(np.int32),
            lanes.target.astype(np.int32),
            np.full(count, _KV_TRANSFER_BYTES, np.int64),
            np.ones(count, np.int32),
            policy=self._policy,
        )
        lane = np.repeat(np.arange(count), np.diff(table.link_ptr))
        link = table.link_idx + self.networks.offsets[network]
        self.put(lanes.lane[lane], link, table.link_share * lanes.share[lane])
        self.wait(lanes.lane, table.latency_ps)

    def put(self, lane: Ints, link: Ints, share: NDArray[np.float64]) -> None:
        """Loads on links, by their numbers in all networks."""
        self._key.append(lane * self.networks.width + link)
        self._share.append(share)

    def wait(self, lane: Ints, latency_ps: Ints) -> None:
        """A stage takes as long as its slowest lane."""
        slowest = np.zeros(self._lanes, np.int64)
        np.maximum.at(slowest, lane, latency_ps)
        self.latency_ps += slowest

    def rows(self) -> tuple[Ints, NDArray[np.int32], NDArray[np.float64]]:
        """Offsets of the ways, their links, and shares of these."""
        width = self.networks.width
        keys, inverse = np.unique(np.concatenate(self._key), return_inverse=True)
        share = np.bincount(inverse.ravel(), weights=np.concatenate(self._share), minlength=len(keys))
        ptr = np.searchsorted(keys // width, np.arange(self._lanes + 1)).astype(np.int64)
        return ptr, (keys % width).astype(np.int32), np.asarray(share, np.float64)


def within(usage: StageLinks, network: int, lanes: Lanes, nics: Nics) -> None:
    """Ranks of one network. Over all NICs of the servers: scale-up, network, scale-up."""
    cluster = usage.networks.clusters[network]
    domain = cluster.scale_up_domain
    away = lanes.source // domain != lanes.target // domain
    if nics != "all" or not away.any():
        usage.add(network, lanes)
        return
    usage.add(network, lanes.part(~away))
    out = lanes.part(away)
    here, there = _peers(cluster, out.source, _unit(cluster)), _peers(cluster, out.target, _unit(cluster))
    _staged(usage, (network, network), out, (here, there))


def across(usage: StageLinks, homes: tuple[int, int], lanes: Lanes, nics: Nics) -> None:
    """Ranks of two networks: to a port of the gateway, over its link, and from a port on.

    Lanes alternate among the links. A gateway is on no rail, so `rail` is here what `own` is.
    """
    clusters = [usage.networks.clusters[home] for home in homes]
    unit = max(_unit(cluster) for cluster in clusters) if nics == "all" else 1
    here, there = (lanes.source[:, None], lanes.target[:, None])
    if unit > 1:
        here, there = (
            _peers(cluster, ranks, unit) for cluster, ranks in zip(clusters, (lanes.source, lanes.target), strict=True)
        )
    _staged(usage, homes, lanes, (here, there))


def _unit(cluster: Cluster) -> int:
    """Accelerators of a server that reach one another by scale-up."""
    return min(cluster.ranks_per_server, cluster.scale_up_domain)


def _peers(cluster: Cluster, ranks: Ints, count: int) -> Ints:
    """int64[ranks, count]: those of the same server, each as often as another."""
    unit = _unit(cluster)
    return (ranks // unit * unit)[:, None] + np.arange(count) * unit // count


def _staged(usage: StageLinks, homes: tuple[int, int], lanes: Lanes, peers: tuple[Ints, Ints]) -> None:
    """From each source to its peers, from them over the networks to the target's peers, from these to the target."""
    width = peers[0].shape[1]
    lane, share = np.repeat(lanes.lane, width), np.repeat(lanes.share / width, width)
    here, there = (one.ravel() for one in peers)
    if width > 1:
        usage.add(homes[0], Lanes(lane, np.repeat(lanes.source, width), here, share))
    between = Lanes(lane, here, there, share)
    if homes[0] == homes[1]:
        usage.add(homes[0], between)
    else:
        _through_gateway(usage, homes, between)
    if width > 1:
        usage.add(homes[1], Lanes(lane, there, np.repeat(lanes.target, width), share))


def _through_gateway(usage: StageLinks, homes: tuple[int, int], lanes: Lanes) -> None:
    networks = usage.networks
    gateway = networks.gateway
    links = 1 if gateway is None else gateway.links
    port = np.arange(len(lanes.lane)) % links
    _to_ports(usage, homes[0], lanes, lanes.source, port, out=True)
    for home, out in ((homes[0], True), (homes[1], False)):
        usage.put(lanes.lane, networks.gateway_link(home, port, out=out), lanes.share)
    _to_ports(usage, homes[1], lanes, lanes.target, port, out=False)
    machine = machine_of(networks.clusters[homes[0]])
    software_ps = 1e6 * (transfer_us(machine, "base") + machine.software_us("simple"))
    far_ps = 0.0 if gateway is None else 1e12 * gateway.latency
    usage.wait(lanes.lane, np.full(len(lanes.lane), round(software_ps + far_ps)))


def _to_ports(usage: StageLinks, home: int, lanes: Lanes, ranks: Ints, port: Ints, *, out: bool) -> None:
    """Lanes between ranks and the network's ports to the gateway, over all NICs of a rank."""
    network = usage.networks.clusters[home].back_end
    gates = usage.networks.gateway_ports(home)[port].astype(np.int32)
    nics = network.port_of_rank.shape[1]
    for nic in range(nics):
        ports = network.port_of_rank[ranks, nic].astype(np.int32)
        source, target = (ports, gates) if out else (gates, ports)
        keys = connection_keys(lanes.lane.astype(np.uint64), source, target, np.zeros_like(lanes.lane))
        found = network.usage(source, target, keys)
        row = found.rows()
        share = found.share * lanes.share[row] * WIRE["simple"] / (nics * network.fabric.payload_efficiency)
        usage.put(lanes.lane[row], found.link + usage.networks.offsets[home], share)
    usage.wait(lanes.lane, network.path_latency_ps(source, target))


def with_collectives(
    links: Links | None, networks: ServingNetworks, pools: tuple[PlacedPool, ...], costs: tuple[Any, ...]
) -> Links | None:
    """The links with what collectives of each replica take of its NICs, those of all its ranks alike.

    Links between switches are left out: all ranks of a replica exchange with one another at a time, and lie together.

    Args:
        links: Of transfers; where there are none, nothing meets.
        networks: Of the pools.
        pools: As replicas are numbered.
        costs: Of each pool; replicas whose collectives stay inside a scale-up domain take nothing.
    """
    if links is None or not any(cost.scale_out_bytes_per_token for cost in costs):
        return links
    rows = [
        _nics(networks, pool.home, ranks) if cost.scale_out_bytes_per_token else (np.zeros(0, np.int32), np.zeros(0))
        for pool, cost in zip(pools, costs, strict=True)
        for ranks in pool.ranks
    ]
    return replace(
        links,
        collective_ptr=np.cumsum([0, *(len(row[0]) for row in rows)]).astype(np.int64),
        collective_link=np.concatenate([row[0] for row in rows]),
        collective_share=np.concatenate([row[1] for row in rows]),
    )


def _nics(
    networks: ServingNetworks, home: int, ranks: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Links of the NICs of some ranks, out and in, and the wire bytes on each of a byte of them all."""
    cluster = networks.clusters[home]
    network = cluster.back_end
    ports = network.port_of_rank[ranks].ravel().astype(np.int32)
    other = np.roll(ports, 1)
    used = network.endpoints(ports, other)
    link, inverse = np.unique(used.link, return_inverse=True)
    share = np.bincount(inverse.ravel(), weights=used.share) / len(ports) / cluster.fabric.payload_efficiency
    return (link + networks.offsets[home]).astype(np.int32), np.asarray(share, np.float64)


_MOST_LANES = 1 << 18
"""Most lanes between the replicas of a pool; 64 replicas of 64 accelerators each have as many."""


def replica_links(
    networks: ServingNetworks,
    pools: tuple[PlacedPool, ...],
    nics: Nics = "rail",
    *,
    among: Collection[str] = (),
    handover_ps: int = 0,
) -> Links | None:
    """Links between replicas that exchange keys and values; None where there are none.

    Each rank of the copy on one side sends its part of the cache to its partner on the other, inside a scale-up domain
    or over NICs. NICs of a pool with servers of its own run at the slower of its rate and the network's.

    Args:
        networks: The cluster's, and those of pools that have their own.
        pools: All of them, as replicas are numbered.
        nics: `own`: each rank its own NICs; `rail`: the NICs of the peer on the rail of the target, reached by
            scale-up; `all`: all NICs of the server, and on the other side all of them again, both by scale-up.
        among: Roles of pools of which also each replica reaches the others. Where a pool is so large that these ways
            would take much memory, its replicas exchange in groups of neighbours.
        handover_ps: What engines need in addition to the transfer for a request that goes on to another pool.

    Raises:
        InputError: Two ranks have no path.
    """
    by_role = {pool.role: pool for pool in pools}
    first = {pool.role: sum(other.replicas for other in pools[:number]) for number, pool in enumerate(pools)}
    parts = []
    if "prefill" in by_role:
        send, take = by_role["prefill"], by_role["decode"]
        a, b = np.divmod(np.arange(send.replicas * take.replicas), take.replicas)
        start = (first["prefill"], first["decode"])
        ways = _between(networks, pools, (send, take), (a, b), first=start, nics=nics)
        parts.append(replace(ways, latency_ps=ways.latency_ps + handover_ps))
    for pool in pools:
        a, b = _neighbours(pool)
        if pool.role in among and len(a):
            parts.append(_between(networks, pools, (pool, pool), (a, b), first=(first[pool.role],) * 2, nics=nics))
    return joined(parts) if parts else None


def joined(parts: list[Links]) -> Links:
    """All ways over the same links."""
    offsets = np.cumsum([0, *(part.ptr[-1] for part in parts)])
    ptr = [part.ptr[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    return Links(
        rate_bps=parts[0].rate_bps,
        ptr=np.concatenate([*ptr, offsets[-1:]]).astype(np.int64),
        **{name: column(name) for name in ("from_replica", "to_replica", "link", "share", "latency_ps")},
    )


def _neighbours(pool: PlacedPool) -> tuple[Ints, Ints]:
    """Pairs of different replicas of a pool: all, or those within groups."""
    count, each = pool.replicas, pool.copies.shape[1] * pool.copies.shape[2]
    group = min(count, max(2, _MOST_LANES // (count * each)))
    a, offset = np.divmod(np.arange(count * group), group)
    b = a // group * group + offset
    keep = (a != b) & (b < count)
    return a[keep], b[keep]


def _between(
    networks: ServingNetworks,
    pools: tuple[PlacedPool, ...],
    ends: tuple[PlacedPool, PlacedPool],
    pairs: tuple[Ints, Ints],
    *,
    first: tuple[int, int],
    nics: Nics,
) -> Links:
    """Ways from replicas of one pool to replicas of another, each pair with one for each pairing of their copies."""
    turns = math.lcm(*(pool.copies.shape[1] for pool in ends))
    a, b = (np.repeat(one, turns) for one in pairs)
    usage = StageLinks(networks, len(a), CollectivePolicy(pxn=nics == "rail"))
    lanes, homes = lanes_between(*ends, a, b, turns), (ends[0].home, ends[1].home)
    try:
        if homes[0] == homes[1]:
            within(usage, homes[0], lanes, nics)
        else:
            across(usage, homes, lanes, nics)
    except InputError as error:
        raise error.located(key="transfer.nic") from None
    ptr, link, share = usage.rows()
    return Links(
        rate_bps=rates(networks, pools),
        from_replica=(first[0] + a).astype(np.int32),
        to_replica=(first[1] + b).astype(np.int32),
        ptr=ptr,
        link=link,
        share=share,
        latency_ps=usage.latency_ps,
    )


def lanes_between(send: PlacedPool, take: PlacedPool, a: Ints, b: Ints, turns: int) -> Lanes:
    """Ranks of a copy to those of the other; the ways of a pair follow one another, turn by turn."""
    here, there = send.copies, take.copies
    lanes = max(here.shape[2], there.shape[2])
    turn, lane = np.arange(len(a)) % turns, np.arange(lanes)
    source = here[a, turn % here.shape[1]][:, lane * here.shape[2] // lanes]
    target = there[b, turn % there.shape[1]][:, lane * there.shape[2] // lanes]
    share = np.full(source.size, 1 / lanes)
    return Lanes(np.repeat(np.arange(len(a)), lanes), source.ravel(), target.ravel(), share)


def rates(networks: ServingNetworks, pools: tuple[PlacedPool, ...]) -> NDArray[np.float64]:
    """Rates of all links; those at the NICs of a pool with servers of its own are at most those NICs' rates."""
    rate, cluster = networks.rate_bps(), networks.clusters[0]
    network = cluster.back_end
    for machine, ranks in (side for pool in pools for side in pool.separate):
        slower = machine.nic.rate_bps / cluster.nic.rate_bps
        if slower >= 1 or machine.spec.back_end.link_rate_bps is not None:
            continue
        ports = np.unique(network.port_of_rank[ranks.ravel()].ravel())
        used = network.endpoints(ports.astype(np.int32), np.roll(ports, 1).astype(np.int32))
        rate[np.unique(used.link)] *= slower
    return rate


_STORE, _WEIGHTS = -1, -2
_READ_BYTES = 1 << 30
"""Size at which ways are lowered: large enough that devices are bound by their rate."""


def loads_from(serving: ServingSection, pools: tuple[PlacedPool, ...]) -> set[str]:
    """Sources of the weights of replicas that start."""
    rules = {pool.section.autoscale.load_from for pool in pools if pool.section.autoscale is not None}
    return rules | {row.load_from for row in serving.outages if row.load_from is not None}


def with_storage(
    links: Links | None, networks: ServingNetworks, pools: tuple[PlacedPool, ...], serving: ServingSection
) -> Links | None:
    """The links with ways to storage, where something goes over them.

    Raises:
        InputError: The cluster has no storage or memory pool, or a pool lies on another network.
    """
    parts = [] if links is None else [links]
    sources = loads_from(serving, pools)
    if "storage" in sources or ("peer" in sources and networks.clusters[0].storage_servers is not None):
        parts.append(_storage_links(networks, pools, _WEIGHTS, write=False))
    store = serving.cache.store
    if store is not None and store.place != "apart":
        lower = lower_storage if store.place == "storage" else _pool_lowerer(networks.clusters[0], store.capacity)
        parts += [_storage_links(networks, pools, _STORE, write=write, lower=lower) for write in (False, True)]
    return joined(parts) if parts else None


def _pool_lowerer(cluster: Cluster, capacity_bytes: int) -> Lowerer:
    """How reads and writes of the memory pool are lowered.

    Raises:
        InputError: There is none, its units serve different servers, or it is smaller than the store.
    """
    pool, key = cluster.memory_pool, "cache.store"
    if pool is None:
        raise InputError("the cluster has no memory pool", key=f"{key}.place", found="memory_pool")
    if not pool.shared:
        raise InputError(
            "the memory pool is in units that serve different servers, and all replicas read one store",
            key=f"{key}.place",
            found="memory_pool",
            hint="take one unit that has ports for all servers, or `cache.host` for each host's own memory",
        )
    if capacity_bytes > pool.units * pool.capacity_bytes:
        raise InputError(
            "the store is larger than the memory pool",
            key=f"{key}.capacity",
            found=format_size(capacity_bytes),
            allowed=f"at most {format_size(pool.units * pool.capacity_bytes)}",
        )
    return lower_pool


def _storage_links(
    networks: ServingNetworks, pools: tuple[PlacedPool, ...], other: int, *, write: bool, lower: Lowerer = lower_storage
) -> Links:
    """Links from storage or the memory pool to each replica or back; every rank moves its part."""
    away = [pool.role for pool in pools if pool.home != 0]
    if away:
        place = "storage" if lower is lower_storage else "memory pool"
        raise InputError(
            f"the cluster's {place} has no way to the pool `{away[0]}`, which has a network of its own",
            key=f"pools.{away[0]}.network",
        )
    cluster = networks.clusters[0]
    ranks = [row for pool in pools for row in pool.ranks]
    counts = np.array([len(row) for row in ranks])
    flat = np.concatenate(ranks).astype(np.int32)
    sizes = np.full(len(flat), _READ_BYTES, np.int64)
    table = lower(cluster, flat, np.full(len(flat), write), sizes)
    home = np.repeat(np.arange(len(ranks)), counts)
    entry = np.repeat(np.arange(len(flat)), np.diff(table.link_ptr))
    width = networks.width
    keys, inverse = np.unique(home[entry] * width + table.link_idx, return_inverse=True)
    share = np.bincount(inverse.ravel(), weights=table.link_share / counts[home[entry]], minlength=len(keys))
    latency = np.zeros(len(ranks), np.int64)
    np.maximum.at(latency, home, table.latency_ps)
    here, there = np.arange(len(ranks), dtype=np.int32), np.full(len(ranks), other, np.int32)
    return Links(
        rate_bps=rates(networks, pools),
        from_replica=here if write else there,
        to_replica=there if write else here,
        ptr=np.searchsorted(keys // width, np.arange(len(ranks) + 1)).astype(np.int64),
        link=(keys % width).astype(np.int32),
        share=np.asarray(share, np.float64),
        latency_ps=latency,
    )
