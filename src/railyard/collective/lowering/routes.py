"""Legs between ranks as loads on links: through scale-up, through NICs, and through a peer's NIC where rails differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import Csr, CsrWeighted
from railyard.collective.connections import connection_keys
from railyard.collective.constants import MEASURED, LogConstants
from railyard.collective.policy import MOST_CONNECTIONS
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.network import Network

BATCH = 1 << 16
"""Legs that are routed at once; keeps the memory of a large all-to-all in bounds."""


@dataclass(frozen=True)
class Legs:
    """Point-to-point parts of entities.

    Attributes:
        entity: int64[k].
        source: int64[k], ranks.
        target: int64[k], ranks.
        share: float64[k], bytes per byte of the entity's volume.
        connections: int64[k], connections through each NIC that share it.
    """

    entity: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    share: NDArray[np.float64]
    connections: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.entity)

    def part(self, chosen: NDArray[np.bool_] | slice) -> Legs:
        """Some of the legs."""
        return Legs(*(getattr(self, name)[chosen] for name in _COLUMNS))

    @staticmethod
    def joined(parts: list[Legs]) -> Legs:
        """Legs of several lists."""
        return Legs(*(np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS))


_COLUMNS = ("entity", "source", "target", "share", "connections")


@dataclass(frozen=True)
class LinkLoads:
    """Loads of k flows, each of which is a part of an entity.

    Attributes:
        entity: int64[k].
        links: Links of the flows.
        factor: float64[k], bytes of wire on a link of share 1 per byte of the entity's volume.
        ring: int64[k], number of the ring that a connection between NICs is of, if it is of one: its rail and channel;
            None for flows that are no connections.
    """

    entity: NDArray[np.int64]
    links: Csr
    factor: NDArray[np.float64]
    ring: NDArray[np.int64] | None = None

    @staticmethod
    def single(entity: NDArray[np.int64], link: NDArray[np.int64], share: NDArray[np.float64]) -> LinkLoads:
        """Loads of one link each."""
        return LinkLoads(entity, Csr(np.arange(len(link) + 1), link.astype(np.int32)), share)

    @staticmethod
    def summed(entities: int, parts: list[LinkLoads]) -> CsrWeighted:
        """Links of every entity."""
        return CsrWeighted.summed(entities, [(part.entity, part.links, part.factor) for part in parts])


def rail_of_local(cluster: Cluster) -> NDArray[np.int64]:
    """int64[ranks of a server]: the first local rank that has the same NIC ports; equal numbers are one rail."""
    ports = cluster.back_end.port_of_rank[: cluster.ranks_per_server]
    _, first, inverse = np.unique(ports, axis=0, return_index=True, return_inverse=True)
    return first[inverse.ravel()]


def through_peers(cluster: Cluster, legs: Legs) -> tuple[Legs, Legs]:
    """Moves scale-out legs that would change rails to the peer on the target's rail.

    The peer is the rank of the same server with the target's local index, whether or not it is a member of the
    communicator. Legs stay as they are where the peer is not within reach of scale-up.

    Returns:
        The scale-up legs to the peers, and the scale-out legs, which then leave from the peers.
    """
    rails = rail_of_local(cluster)
    per_server = cluster.ranks_per_server
    here, there = legs.source % per_server, legs.target % per_server
    peer = legs.source - here + there
    same_domain = legs.source // cluster.scale_up_domain == peer // cluster.scale_up_domain
    moved = (rails[here] != rails[there]) & same_domain
    return replace(legs.part(moved), target=peer[moved]), replace(legs, source=np.where(moved, peer, legs.source))


def scale_up_efficiency(cluster: Cluster, measured: LogConstants = MEASURED) -> float:
    """Share of a scale-up link's rate that data can reach."""
    if cluster.scale_up.kind == "switched":
        return cluster.scale_up.ceiling
    planned = cluster.accelerator.scale_up_collective_bps / cluster.accelerator.scale_up_bps
    return planned * (measured.mesh_share if cluster.scale_up.kind == "mesh" else 1.0)


def scale_up_load(cluster: Cluster, legs: Legs, measured: LogConstants = MEASURED) -> LinkLoads:
    """Loads of legs within domains."""
    path = cluster.scale_up.path(legs.source.astype(np.int32), legs.target.astype(np.int32))
    return LinkLoads(legs.entity, path, legs.share / scale_up_efficiency(cluster, measured))


def switch_load(
    cluster: Cluster, entity: NDArray[np.int64], rank: NDArray[np.int64], share: NDArray[np.float64], *, out: bool
) -> LinkLoads:
    """Loads between ranks and the reducing switch of their domain; `out` for towards the switch."""
    links = cluster.scale_up.egress if out else cluster.scale_up.ingress
    link = links(rank.astype(np.int32)).astype(np.int64)
    return LinkLoads.single(entity, link, share / scale_up_efficiency(cluster))


def scale_out_load(cluster: Cluster, legs: Legs, communicator: NDArray[np.uint64]) -> list[LinkLoads]:
    """Loads of legs through the back-end network, spread over all NICs of a rank.

    Args:
        cluster: The cluster.
        legs: Legs between ranks.
        communicator: uint64[entities], whose connections they use; see `connection_keys`.
    """
    return [
        _routed(cluster, legs.part(slice(begin, begin + BATCH)), communicator, nic)
        for begin in range(0, len(legs), BATCH)
        for nic in range(cluster.back_end.port_of_rank.shape[1])
    ]


def _routed(cluster: Cluster, legs: Legs, communicator: NDArray[np.uint64], nic: int) -> LinkLoads:
    """Loads of legs between one NIC of each of their ranks; these have as many others."""
    network = cluster.back_end
    ports = network.port_of_rank
    leg, channel = _opened(network, legs)
    entity, source, target = legs.entity[leg], ports[legs.source[leg], nic], ports[legs.target[leg], nic]
    usage = network.usage(source, target, connection_keys(communicator[entity], source, target, channel))
    each = legs.share / (ports.shape[1] * network.fabric.payload_efficiency * np.bincount(leg, minlength=len(legs)))
    ring = legs.source[leg] % cluster.ranks_per_server * MOST_CONNECTIONS + channel
    return LinkLoads(entity, usage, each[leg], ring)


def _opened(network: Network, legs: Legs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The leg and the channel of every connection; one a leg where all take the same links."""
    several = network.fabric.hashed and network.fabric.tells_queue_pairs_apart
    count = legs.connections if several else np.ones(len(legs), np.int64)
    leg = np.repeat(np.arange(len(legs)), count)
    return leg, ranges(0, count)


def network_load(
    cluster: Cluster, entity: NDArray[np.int64], rank: NDArray[np.int64], share: NDArray[np.float64], *, out: bool
) -> LinkLoads:
    """Loads between ranks and the reducing switches of the network: the links of their NICs.

    Links between switches are left out: a switch passes on one stream for all ports below it, so none of them carries
    more than a NIC's link does.
    """
    network = cluster.back_end
    ports = network.port_of_rank[rank]
    every = np.unique(ports)
    listed = [network.port_links(int(port))[0 if out else 1] for port in every]
    count = np.array([len(links) for links in listed])
    spot = np.searchsorted(every, ports.ravel())
    repeats = count[spot]
    link = np.concatenate(listed)[ranges((np.cumsum(count) - count)[spot], repeats)]
    each = np.repeat(share, ports.shape[1]) / (ports.shape[1] * repeats * network.fabric.payload_efficiency)
    return LinkLoads.single(
        np.repeat(np.repeat(entity, ports.shape[1]), repeats), link.astype(np.int64), np.repeat(each, repeats)
    )
