"""`roce-htsim`: RoCE as csg-htsim models it."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import Packets, fabrics
from railyard.cluster.fabric.roce import ROCE

_PAYLOAD = 4150

ROCE_HTSIM = fabrics.add(
    "roce-htsim",
    ROCE.as_modelled(
        "htsim",
        name="roce-htsim",
        summary="RoCE as csg-htsim models it: line rate, going back, pauses at a fixed number of packets.",
        packets=Packets(
            constants={
                "transport": "rdma",
                "switching": "pfc",
                "load_balancing": "ecmp",
                "mtu_bytes": _PAYLOAD + 64,
                "header_bytes": 64,
                "trim": False,
                "rdma_control": "line-rate",
                "rdma_nack_interval_ps": 0,
                "pfc_xoff_bytes": 15 * _PAYLOAD,
                "pfc_xon_bytes": 12 * _PAYLOAD,
                "pfc_buffer_bytes": 10**9,
                "pfc_headroom_bytes": 10**7,
                "pfc_frame_bytes": 1,
                "marking_low_bytes": 10**9,
                "marking_high_bytes": 10**9,
            },
            tree={"start_unit": "ps"},
            sources=(
                "Broadcom/csg-htsim, commit 841d9e7: sim/roce.cpp: pacing, acknowledgements, going back",
                "Broadcom/csg-htsim, commit 841d9e7: sim/datacenter/main_roce.cpp: thresholds, packet size",
                "Broadcom/csg-htsim, commit 841d9e7: sim/queue_lossless_input.cpp, queue_lossless_output.cpp: pauses",
            ),
            left_out=("flowlets that switches move by load (`-strat ecmp_ar`)",),
        ),
    ),
)
