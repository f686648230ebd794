"""The scale-up links of a cluster as a part of a network of packets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.lowering.routes import scale_up_efficiency
from railyard.engine.packet.networks import INSIDE_PS, NetworkBlock, RoutingRecord
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.cluster import Cluster


def scale_up_block(cluster: Cluster) -> NetworkBlock:
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
    lo = ranks + domain
    record = RoutingRecord(
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
    return NetworkBlock(
        hosts=ranks + domains,
        nodes=ranks + 2 * domains,
        source=np.concatenate([rank, switch_of, ranks + domain, switch]),
        target=np.concatenate([switch_of, rank, switch, ranks + domain]),
        rate_bps=np.concatenate([rate_bps_of, links.rate_bps[ingress] * efficiency, reducing, reducing]),
        latency_ps=np.concatenate(
            [links.latency_ps[egress], links.latency_ps[ingress], np.full(2 * domains, INSIDE_PS)]
        ),
        link=np.concatenate([egress, ingress, np.full(2 * domains, -1)]),
        record=record,
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
    record = RoutingRecord(
        node=np.concatenate([rank, ranks + rank, ranks + rank]),
        lo=np.concatenate([np.zeros(ranks, np.int64), first, rank + 1]),
        hi=np.concatenate([np.full(ranks, ranks), rank, first + size]),
        first=np.concatenate([rank, begin, begin + local]),
        width=np.ones(3 * ranks, np.int64),
        stride=np.concatenate([np.full(ranks, ranks), np.ones(2 * ranks, np.int64)]),
    )
    used = record.lo < record.hi
    names = ("node", "lo", "hi", "first", "width", "stride")
    return NetworkBlock(
        hosts=ranks,
        nodes=2 * ranks,
        source=np.concatenate([rank, ranks + source]),
        target=np.concatenate([ranks + rank, target]),
        rate_bps=np.concatenate([sent, rate]),
        latency_ps=np.concatenate([np.full(ranks, INSIDE_PS), links.latency_ps[ids]]),
        link=np.concatenate([np.full(ranks, -1), ids]),
        record=RoutingRecord(*(getattr(record, name)[used] for name in names)),
        choices=np.arange(ranks + len(ids)),
    )
