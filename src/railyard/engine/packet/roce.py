"""RoCE and Spectrum-X as parts of the packet engine: what compositions and presets have in common.

Sources of every constant: `docs/explanation/packet-rdma.md`.
"""

from __future__ import annotations

from typing import Any

_US = 10**6

ROCE: dict[str, Any] = {
    "transport": "rdma",
    "switching": "pfc",
    "load_balancing": "ecmp",
    "mtu_bytes": 4096 + 82,
    "header_bytes": 82,
    "trim": False,
    "rdma_control": "dcqcn",
    "rdma_notification": "packet",
    "rdma_cnp_interval_ps": 4 * _US,
    "rdma_control_bytes": 84,
    "rdma_control_class": 6,
    "rdma_ack_packets": 4,
    "marking_low_bytes": 150_000,
    "marking_high_bytes": 1_500_000,
    "marking_most": 0.2,
    "dcqcn_form": "periodic",
    "dcqcn_g": 5 / 1024,
    "dcqcn_alpha_interval_ps": _US,
    "dcqcn_decrease_interval_ps": 4 * _US,
    "dcqcn_increase_interval_ps": 50 * _US,
    "dcqcn_byte_counter": 32_767 * 64,
    "dcqcn_fast_recovery": 1,
    "dcqcn_additive_bps": 16 * 20e6,
    "dcqcn_hyper_bps": 16 * 50e6,
    "dcqcn_min_rate_bps": 100e6,
    "dcqcn_least_kept": 0.8,
}
"""RoCE v2 with hashed paths, priority flow control and DCQCN as it is tuned for training."""

SPECTRUM_X: dict[str, Any] = {
    **{key: value for key, value in ROCE.items() if not key.startswith("dcqcn_")},
    "load_balancing": "adaptive",
    "rdma_control": "spectrum",
    "rdma_out_of_order": True,
    "rdma_ack_packets": 1,
}
"""The same switches with adaptive routing a packet, placement out of order, rates by round-trip times."""
