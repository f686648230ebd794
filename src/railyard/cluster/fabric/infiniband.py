"""`infiniband`: credits instead of drops, adaptive routing packet by packet."""

from __future__ import annotations

from railyard.cluster.fabric.constants import DEEPSEEK_LATENCY, estimated, measured, vendor
from railyard.cluster.fabric.fabric import Fabric, fabrics

INFINIBAND = fabrics.add(
    "infiniband",
    Fabric(
        name="infiniband",
        summary="InfiniBand: link credits, adaptive routing per packet, in-network reduction (SHARP) as an option",
        load_balancing="adaptive",
        header_bytes=26,
        transport_efficiency=0.993,
        hop_latency_ps=350_000,
        nic_latency_ps=2_350_000,
        congestion_efficiency=0.97,
        incast_efficiency=0.99,
        sharp=False,
        switches=(
            ("quantum-2-qm9700", "quantum-2-qm9700"),
            ("quantum-x800-q3400", "quantum-x800-q3400"),
        ),
        families=("infiniband",),
        left_out=(
            "head-of-line blocking in a virtual lane: a stalled receiver holds back others that share its lane",
            "credits that run out on long links: one lane has at most 128 KiB in flight",
        ),
        sources={
            "load_balancing": vendor("adaptive", "NCCL turns adaptive routing on for InfiniBand", 2026),
            "header_bytes": vendor(
                "26 B", "LRH 8, BTH 12, ICRC 4, VCRC 2 (InfiniBand architecture specification)", 2020
            ),
            "transport_efficiency": measured(
                "99.3 %", "one flow over HDR: 197.5 Gb/s of 200; headers leave 198.7", 2024
            ),
            "hop_latency_ps": measured("0.35 us", DEEPSEEK_LATENCY.format(same="2.8", cross="3.7"), 2025),
            "nic_latency_ps": measured("2.35 us", DEEPSEEK_LATENCY.format(same="2.8", cross="3.7"), 2025),
            "congestion_efficiency": estimated(
                "97 %", "queues among which adaptive routing chooses are a little behind; no public measurement", 2026
            ),
            "incast_efficiency": estimated(
                "99 %", "credits never let a link idle that someone waits for; no public measurement", 2026
            ),
            "sharp": vendor("false", "an option of the deployment", 2026),
        },
    ),
)
