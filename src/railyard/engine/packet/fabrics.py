"""A cluster's fabric as settings of the packet engine."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from railyard.engine.packet.mechanisms import CONSTANTS
from railyard.engine.packet.placing import base_rtt_ps
from railyard.engine.packet.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.cluster import Cluster
    from railyard.fabric import Fabric

_ANY_ORDER = frozenset({"adaptive", "spray"})
"""Load balancing by which packets of a connection overtake one another."""


def settings_of(cluster: Cluster, fabric: Fabric) -> Settings:
    """The engine's settings for a fabric, usually the cluster's own, on the paths of a cluster."""
    given = constants_of(fabric)
    if given.get("congestion_control") == "constant":
        given["window_packets"] = max(given.get("window_packets", 1), _window_packets(cluster, given))
    return Settings(**given)


def constants_of(fabric: Fabric) -> dict[str, Any]:
    """The constants of a fabric's packets.

    Where the fabric's record is not the registered one (a scenario gives other queue pairs or another load balancing),
    its packets follow, so that a word means the same on every engine.
    """
    from railyard.fabric import fabrics

    given = dict(fabric.packets.constants)
    given.setdefault("header_bytes", fabric.header_bytes)
    given.setdefault("mtu_bytes", fabric.mtu_bytes + fabric.header_bytes)
    if given.get("transport") == "rdma":
        given.setdefault("rdma_qps", fabric.qps)
    known = fabrics.get(fabric.name)
    if fabric.load_balancing != known.load_balancing and fabric.load_balancing in CONSTANTS["load_balancing"].words:
        given["load_balancing"] = fabric.load_balancing
        if given.get("transport") == "rdma":
            given["rdma_out_of_order"] = fabric.load_balancing in _ANY_ORDER
    if fabric.retransmit_ps not in (0, known.retransmit_ps) and given.get("transport") == "rdma":
        given["rdma_rto_ps"] = fabric.retransmit_ps
    return given


def _window_packets(cluster: Cluster, given: Mapping[str, int]) -> int:
    """A constant window that never holds a flow back: two bandwidth-delay products of the longest path."""
    out, _ = cluster.back_end.port_links(int(cluster.back_end.port_of_rank[0, 0]))
    line_bps = float(cluster.links.rate_bps[out].sum())
    bits = base_rtt_ps(cluster, given["mtu_bytes"], given["header_bytes"]) * 1e-12 * line_bps
    return ceil(2 * bits / 8 / given["mtu_bytes"])
