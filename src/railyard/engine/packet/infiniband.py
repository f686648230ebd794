"""InfiniBand as parts of the packet engine: what compositions and presets have in common.

Sources of every constant: `docs/explanation/packet-infiniband.md`.
"""

from __future__ import annotations

from typing import Any

INFINIBAND: dict[str, Any] = {
    "transport": "rdma",
    "switching": "credit",
    "load_balancing": "ecmp",
    "mtu_bytes": 4096 + 26,
    "header_bytes": 26,
    "trim": False,
    "rdma_control": "line-rate",
    "rdma_control_bytes": 30,
    "rdma_ack_packets": 4,
}
"""NDR: reliable connections at line rate over links with credits, routes by destination."""

INFINIBAND_AR: dict[str, Any] = {**INFINIBAND, "load_balancing": "adaptive", "rdma_out_of_order": True}
"""The same with adaptive routing a packet, which receivers place in any order."""
