"""A cluster's fabric as settings of the packet engine."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from railyard.engine.packet.mechanisms import CONSTANTS
from railyard.engine.packet.placing import base_rtt_ps
from railyard.engine.packet.settings import Settings
from railyard.engine.packet.tenants import queues
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.cluster import Cluster
    from railyard.cluster.fabric import Fabric

_ANY_ORDER = frozenset({"adaptive", "spray"})
"""Load balancing by which packets of a connection overtake one another."""


def settings_of(cluster: Cluster, fabric: Fabric) -> Settings:
    """The engine's settings for a fabric, usually the cluster's own, on the paths of a cluster."""
    given = {**constants_of(fabric), **_over_distance(cluster, fabric)}
    given |= queues(cluster, given.get("switching", CONSTANTS["switching"].default))
    if given.get("congestion_control") == "constant":
        given["window_packets"] = max(given.get("window_packets", 1), _window_packets(cluster, given))
    return Settings(**given)


PATIENCE = 100
"""Unloaded round trips after which what is out is sent again: NCCL's 4.3 s (timeout 20) are 400 of them at 1,000 km."""


def _over_distance(cluster: Cluster, fabric: Fabric) -> dict[str, Any]:
    """What the ends of long links hold, and how long senders wait: nothing without long links.

    Raises:
        InputError: Credits end at the border of each site.
    """
    plan = cluster.plans["back_end"]
    if plan.border is None:
        return {}
    if fabric.packets.constants.get("switching") == "scheduled" and fabric.credits != "egress":
        raise InputError(
            "the packet engine has one scheduled fabric, whose credits come from the egress leaf of any site",
            key="fabric.credits",
            found=fabric.credits,
            allowed=["egress"],
            hint="use `engine: flow`",
        )
    packets = constants_of(fabric)
    round_ps = base_rtt_ps(cluster, packets["mtu_bytes"], packets["header_bytes"])
    given: dict[str, Any] = {"rdma_rto_ps": max(CONSTANTS["rdma_rto_ps"].default, PATIENCE * round_ps)}
    if fabric.credit_buffer_bytes:
        given["link_credit_reach_ps"] = round(plan.reach_ps)
    if fabric.pauses:
        given["pfc_headroom_most_bytes"] = plan.headroom_left_bytes
    return given


def constants_of(fabric: Fabric) -> dict[str, Any]:
    """The constants of a fabric's packets.

    Where the fabric's record is not the registered one (a scenario gives other queue pairs or another load balancing),
    its packets follow, so that a word means the same on every engine.
    """
    from railyard.cluster.fabric import fabrics

    given = dict(fabric.packets.constants)
    given.setdefault("header_bytes", fabric.header_bytes)
    given.setdefault("mtu_bytes", fabric.mtu_bytes + fabric.header_bytes)
    if given.get("transport") == "rdma":
        given.setdefault("rdma_qps", fabric.qps)
    if fabric.credit_buffer_bytes:
        given.setdefault("link_credit_buffer_bytes", fabric.credit_buffer_bytes)
        given.setdefault("link_credit_update_bytes", fabric.credit_update_bytes)
    if fabric.headroom_bytes:
        given.setdefault("pfc_headroom_bytes", fabric.headroom_bytes)
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
