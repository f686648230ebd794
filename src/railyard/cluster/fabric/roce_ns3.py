"""`roce-ns3`: RoCE as ASTRA-sim's ns-3 models it, without congestion control, and what its controls stand on."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import Packets, fabrics
from railyard.cluster.fabric.roce import ROCE

_US = 10**6
PAYLOAD_BYTES, HEADER_BYTES = 4000, 36

ROCE_NS3 = fabrics.add(
    "roce-ns3",
    ROCE.as_modelled(
        "ns-3",
        name="roce-ns3",
        summary="RoCE as ASTRA-sim's ns-3 models it, without congestion control.",
        packets=Packets(
            constants={
                "transport": "rdma",
                "switching": "pfc",
                "load_balancing": "ecmp",
                "mtu_bytes": PAYLOAD_BYTES + HEADER_BYTES,
                "header_bytes": HEADER_BYTES,
                "trim": False,
                "rdma_control_bytes": 48,
                "rdma_nack_interval_ps": 500 * _US,
                "marking_low_bytes": 800_000,
                "marking_high_bytes": 3_200_000,
                "marking_most": 0.2,
                "pfc_buffer_bytes": 64 * 2**20,
                "pfc_alpha": 1 / 8,
                "pfc_reserve_bytes": 4096,
                "pfc_resume_bytes": 3072,
                "pfc_headroom_bytes": 150_000,
                "pfc_frame_bytes": 31,
            },
            tree={"start_unit": "ps"},
            sources=(
                "astra-sim/astra-network-ns3, commit 8fd3604: scratch/config/config.txt, scratch/common.h: constants, "
                "windows",
                "astra-sim/astra-network-ns3, commit 8fd3604: src/point-to-point/model/switch-mmu.cc: thresholds, "
                "headroom",
            ),
            left_out=("its hash of the five-tuple and its random numbers",),
        ),
    ),
)
