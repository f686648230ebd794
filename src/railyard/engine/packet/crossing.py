"""What `cluster.background` is packet by packet: permutations of all ports that load the links between switches.

Flow engines take the capacity away; packets of others stand in queues, collide, and are held back themselves. Every
port of the back-end sends to another in turn, so often that the fullest tier between switches carries the load; NICs
carry what that takes of them. What loads one of several tiers, NICs or another network stays lost capacity.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.background import Bursts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.spec import Background

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
            yield f"background of {item.load:.0%} on {where} is capacity that is not there: no packets of it are sent"


def crossing(cluster: Cluster, span_ps: int) -> tuple[Bursts, ...]:
    """The bursts that are sent.

    Args:
        cluster: With its background.
        span_ps: For how long.
    """
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
    """Of a NIC's rate, what it sends when the tiers between switches carry a share."""
    wire_bits = 8 * SIZE_BYTES / cluster.fabric.payload_efficiency
    network = cluster.back_end
    out, _ = network.port_links(int(_ports(cluster)[0]))
    busiest = float(_busy_s(cluster).max())
    return math.inf if not busiest else wire_bits * share / busiest / float(cluster.links.line_bps[out].sum())
