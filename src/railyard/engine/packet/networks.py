"""Networks by formula: a crossbar, a leaf-spine, the three-tier fat tree of K-port switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.packet.records import PacketNetwork, Routes
from railyard.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Wiring:
    """Collects links and routing records."""

    def __init__(self, hosts: int) -> None:
        self.hosts = hosts
        self._source: list[NDArray[np.int64]] = []
        self._target: list[NDArray[np.int64]] = []
        self._rate: list[NDArray[np.int64]] = []
        self._links = 0
        self._records: list[tuple[int, int, int, int, int, int]] = []
        self._choices: list[NDArray[np.int64]] = []
        self._chosen = 0

    def links(self, source: NDArray[np.int64], target: NDArray[np.int64], rate_bps: int) -> NDArray[np.int64]:
        """Adds links; their numbers."""
        ids = self._links + np.arange(len(source))
        self._links += len(source)
        self._source.append(source)
        self._target.append(target)
        self._rate.append(np.full(len(source), rate_bps, np.int64))
        return ids

    def record(self, node: int, lo: int, hi: int, links: NDArray[np.int64], *, width: int, stride: int) -> None:
        """At `node` hosts in `[lo, hi)` are reached over `links`, in groups."""
        first = self._chosen
        self._choices.append(links)
        self._chosen += len(links)
        if lo < hi:
            self._records.append((node, lo, hi, first, width, stride))

    def outside(self, node: int, lo: int, hi: int, links: NDArray[np.int64]) -> None:
        """At `node` every host not in `[lo, hi)` is reached over any of `links`."""
        first = self._chosen
        self._choices.append(links)
        self._chosen += len(links)
        for low, high in ((0, lo), (hi, self.hosts)):
            if low < high:
                self._records.append((node, low, high, first, len(links), self.hosts))

    def build(self, nodes: int, latency_ps: int) -> PacketNetwork:
        """The network, every link with the same latency."""
        table = np.array(sorted(self._records), np.int64).reshape(-1, 6).T
        return PacketNetwork(
            hosts=self.hosts,
            nodes=nodes,
            link_source=np.concatenate(self._source).astype(np.int32),
            link_target=np.concatenate(self._target).astype(np.int32),
            rate_bps=np.concatenate(self._rate),
            latency_ps=np.full(self._links, latency_ps, np.int64),
            routing=Routes(
                record_ptr=np.searchsorted(table[0], np.arange(nodes + 1)).astype(np.int64),
                lo=table[1].astype(np.int32),
                hi=table[2].astype(np.int32),
                first=table[3],
                width=table[4].astype(np.int32),
                stride=table[5].astype(np.int32),
                choices=np.concatenate(self._choices).astype(np.int32),
            ),
        )


def crossbar(hosts: int, *, rate_bps: int, latency_ps: int = 1_000_000) -> PacketNetwork:
    """One switch that joins all hosts: the fabric called `ideal`, where only NICs and their last hop can be busy."""
    wiring = _Wiring(hosts)
    host, switch = np.arange(hosts), np.full(hosts, hosts)
    up, down = wiring.links(host, switch, rate_bps), wiring.links(switch, host, rate_bps)
    for at in range(hosts):
        wiring.record(at, 0, hosts, up[at : at + 1], width=1, stride=hosts)
    wiring.record(hosts, 0, hosts, down, width=1, stride=1)
    return wiring.build(hosts + 1, latency_ps)


def leaf_spine(
    hosts: int,
    *,
    leaf_hosts: int,
    spines: int,
    rate_bps: int,
    latency_ps: int = 1_000_000,
    up_rate_bps: int | None = None,
) -> PacketNetwork:
    """Leaves of `leaf_hosts` hosts, each joined to every spine by one link.

    Args:
        hosts: Hosts.
        leaf_hosts: Hosts of a leaf; divides `hosts`.
        spines: Spines.
        rate_bps: Rate of the hosts' links, bit/s.
        latency_ps: Delay of every link, ps.
        up_rate_bps: Rate of the links between leaves and spines, bit/s; `rate_bps` when None.

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
    lower = hosts + np.repeat(np.arange(leaves), spines)
    upper = hosts + leaves + np.tile(np.arange(spines), leaves)
    rate = up_rate_bps or rate_bps
    up = wiring.links(lower, upper, rate).reshape(leaves, spines)
    down = wiring.links(upper, lower, rate).reshape(leaves, spines)
    for at in range(hosts):
        wiring.record(at, 0, hosts, host_up[at : at + 1], width=1, stride=hosts)
    for at in range(leaves):
        lo, hi = at * leaf_hosts, (at + 1) * leaf_hosts
        wiring.record(hosts + at, lo, hi, host_down[lo:hi], width=1, stride=1)
        wiring.outside(hosts + at, lo, hi, up[at])
    for at in range(spines):
        wiring.record(hosts + leaves + at, 0, hosts, down[:, at], width=1, stride=leaf_hosts)
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
    for at in range(hosts):
        wiring.record(at, 0, hosts, host_up[at : at + 1], width=1, stride=hosts)
    for at in range(ports * half):
        lo, hi = at * half, (at + 1) * half
        wiring.record(edge0 + at, lo, hi, host_down[lo:hi], width=1, stride=1)
        wiring.outside(edge0 + at, lo, hi, edge_up[at])
        pod, place = divmod(at, half)
        lo, hi = pod * half * half, (pod + 1) * half * half
        wiring.record(agg0 + at, lo, hi, edge_down[pod, :, place], width=1, stride=half)
        wiring.outside(agg0 + at, lo, hi, agg_up[at])
    for at in range(half * half):
        step, place = divmod(at, half)
        wiring.record(core0 + at, 0, hosts, agg_down[:, place, step], width=1, stride=half * half)
    return wiring.build(core0 + half * half, latency_ps)
