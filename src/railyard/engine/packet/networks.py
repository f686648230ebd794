"""Networks by formula: a crossbar, a leaf-spine, the three-tier fat tree of K-port switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.routes import RouteBuilder
from railyard.engine.packet.records import PacketNetwork
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


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
