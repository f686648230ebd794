"""`uec-htsim`: Ultra Ethernet as its reference simulator models it."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import Packets, fabrics
from railyard.cluster.fabric.uec import UEC

UEC_HTSIM = fabrics.add(
    "uec-htsim",
    UEC.as_modelled(
        "htsim",
        name="uec-htsim",
        summary="Ultra Ethernet as uet-htsim models it: NSCC, bitmap and recycled entropies, trimming.",
        packets=Packets(
            constants={
                "congestion_control": "nscc",
                "load_balancing": "mixed",
                "paths": 64,
                "mtu_bytes": 4150,
                "header_bytes": 64,
                "trim": True,
                "sack_bytes": 16384,
                "quick_adapt_gate": 3,
                "pull_rate": 0.99,
            },
            tree={
                "link_rate_bps": 400 * 10**9,
                "link_latency_ps": 10**6,
                "switch_latency_ps": 0,
                "start_unit": "us",
            },
            sources=UEC.packets.sources,
            left_out=UEC.packets.left_out,
        ),
    ),
)
