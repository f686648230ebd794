"""`ndp-htsim`: NDP as csg-htsim models it: receivers pull packet by packet."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import Packets, fabrics
from railyard.cluster.fabric.uec import UEC

NDP_HTSIM = fabrics.add(
    "ndp-htsim",
    UEC.as_modelled(
        "htsim",
        name="ndp-htsim",
        summary="NDP as csg-htsim models it: a first window at line rate, then one packet a pull, trimming.",
        packets=Packets(
            constants={
                "transport": "ndp",
                "load_balancing": "spray",
                "paths": 64,
                "mtu_bytes": 9064,
                "header_bytes": 64,
                "queue_packets": 14,  # 15 packets of 9,000 bytes, which its headers of 64 bytes more do not fit into
                "window_packets": 15,
                "pull_rate": 0.99,
            },
            tree={"start_unit": "ps"},
            sources=(
                "Broadcom/csg-htsim, commit 841d9e7: sim/ndp.cpp: window, pulls, acknowledgements, paths",
                "Broadcom/csg-htsim, commit 841d9e7: sim/datacenter/main_ndp.cpp: window, queue, pace",
            ),
            left_out=(
                "headers that no queue has room for going back to their sender",
                "receivers that park pulls where the fabric is oversubscribed (`-oversubscribed_cc`)",
            ),
        ),
    ),
)
