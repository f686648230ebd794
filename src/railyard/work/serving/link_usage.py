"""Lanes of ways on links: within one network, and from one network through the gateway into another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.connections import connection_keys
from railyard.collective.lowering.transfers import lower_transfers
from railyard.collective.machine import machine_of
from railyard.collective.timing import WIRE, transfer_us

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.policy import CollectivePolicy
    from railyard.work.serving.networks import Networks
    from railyard.work.serving.section import Nics

    Ints = NDArray[np.int64]

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

    def __init__(self, networks: Networks, lanes: int, policy: CollectivePolicy) -> None:
        """Of so many ways, none of which uses a link yet."""
        self.networks, self._lanes, self._policy = networks, lanes, policy
        self._key: list[Ints] = []
        self._share: list[NDArray[np.float64]] = []
        self.latency_ps = np.zeros(lanes, np.int64)

    def add(self, network: int, lanes: Lanes) -> None:
        """Between ranks of one network: a stage behind those before it."""
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
    """Ranks of two networks: to a port of the gateway, over its link, and from a port on. Lanes take links by turns.

    A gateway is on no rail, so `rail` is here what `own` is.
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
    """Between ranks and the network's ports to the gateway, over all NICs of a rank."""
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
