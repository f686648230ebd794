"""`scheduled`: virtual output queues with egress credits and sprayed cells (Jericho and Ramon, DriveNets, Meta DSF)."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import DEEPSEEK_LATENCY, Fabric, Packets, estimated, fabrics, measured, vendor

PACKETS = Packets(
    constants={
        "transport": "rdma",
        "switching": "scheduled",
        "load_balancing": "ecmp",
        "mtu_bytes": 4096 + 82,
        "header_bytes": 82,
        "trim": False,
        "rdma_control": "line-rate",
        "rdma_notification": "none",
        "rdma_control_bytes": 86,
    },
    sources=(
        "facebook/fboss, platform files of Jericho3-AI and Ramon3: 144 lanes to hosts, 160 to the fabric, memory",
        "RoCEv2: 82 bytes a packet from preamble to gap, 4 more for an acknowledgement (IBTA annex A17)",
        "cell, credit, credit rate, latency of the scheduler: assumed, see docs/explanation/packet-scheduled.md",
    ),
    left_out=(
        "bit errors on links between switches",
        "spilling of queues from on-chip memory to stacked memory",
        "credit sent ahead of requests",
        "flow control from host to leaf's port (only leafs pause hosts)",
    ),
)
"""RDMA at line rate over queues, credits and cells, which need no load balancing."""

SCHEDULED = fabrics.add(
    "scheduled",
    Fabric(
        name="scheduled",
        summary="Scheduled fabric: packets wait at the ingress for a credit of the egress, then cross as sprayed cells",
        load_balancing="cells",
        header_bytes=82,
        transport_efficiency=0.987,
        cell_efficiency=240 / 256,
        hop_latency_ps=900_000,
        nic_latency_ps=2_600_000,
        setup_latency_ps=3_000_000,
        congestion_efficiency=1.0,
        incast_efficiency=0.995,
        switches=(("jericho3-ai-leaf", "ramon3-fabric"),),
        reroute_ps=1_000_000,
        retransmit_ps=4_194_304_000,
        packets=PACKETS,
        families=("scheduled-leaf", "scheduled-fabric"),
        left_out=(
            "credit rate and egress buffer: a port's credits are taken to keep it busy",
            "buffers that spill from the chip to its memory when very many senders wait",
            "buffers at a site's border where credits end there (`credits: site`)",
        ),
        sources={
            "reroute_ps": estimated(
                "1 us",
                "reachability cells in hardware, as its packets have it; vendors say sub-microsecond to microseconds",
                2025,
            ),
            "retransmit_ps": estimated(
                "4.19 ms", "4.096 us x 2^10, InfiniBand's coding of the local timeout, as its packets have it", 2025
            ),
            "load_balancing": vendor("cells", "Broadcom Jericho3-AI and Ramon3; Meta DSF (FBOSS sources)", 2025),
            "header_bytes": vendor("82 B", "RoCEv2 framing between NIC and leaf, see `roce`", 2014),
            "transport_efficiency": measured("98.7 %", "as `roce`: the same NICs and transport", 2025),
            "cell_efficiency": estimated(
                "93.75 %", "cells of 256 B with 16 B of header; assumed from the family before, not public", 2026
            ),
            "hop_latency_ps": measured(
                "0.9 us", DEEPSEEK_LATENCY.format(same="3.6", cross="5.6") + " on Ethernet", 2025
            ),
            "nic_latency_ps": measured("2.6 us", DEEPSEEK_LATENCY.format(same="3.6", cross="5.6"), 2025),
            "setup_latency_ps": estimated(
                "3 us", "request and grant, two one-way crossings: 2 to 4 us in one hall; assumed, not public", 2026
            ),
            "credits": estimated(
                "egress",
                "two sites as one scheduled fabric: a request goes to the egress leaf and a grant comes back over the"
                " long links; assumed, no vendor says in public how credits cross sites",
                2026,
            ),
            "congestion_efficiency": estimated(
                "100 %",
                "a cell is sent only when its output has room; the speed-up of 160 : 144 lanes is in the wiring",
                2026,
            ),
            "incast_efficiency": estimated(
                "99.5 %", "the egress port schedules its senders; assumed, not public", 2026
            ),
        },
    ),
)
