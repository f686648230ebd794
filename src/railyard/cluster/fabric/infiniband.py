"""`infiniband`: credit-based flow control without drops, and adaptive routing per packet."""

from __future__ import annotations

from dataclasses import replace

from railyard.cluster.fabric.fabric import DEEPSEEK_LATENCY, Fabric, Packets, estimated, fabrics, measured, vendor

PACKETS = Packets(
    constants={
        "transport": "rdma",
        "switching": "credit",
        "load_balancing": "adaptive",
        "mtu_bytes": 4096 + 26,
        "header_bytes": 26,
        "trim": False,
        "rdma_control": "line-rate",
        "rdma_control_bytes": 30,
        "rdma_ack_packets": 4,
        "rdma_out_of_order": True,
    },
    tree={"link_rate_bps": 400 * 10**9, "link_latency_ps": 450_000},
    sources=("docs/explanation/packet-infiniband.md: constants with their sources",),
    left_out=(
        "the 1.9 us that a message spends in two interfaces and on PCIe",
        "the speed at which an input buffer is read: it feeds any number of egresses at once",
        "congestion notification between switches and hosts (FECN, BECN) unless `link_credit_mark` and a control are "
        "set",
        "the head-of-queue lifetime: a packet that waits long is not dropped",
    ),
)
"""NDR: reliable connections at line rate over links with credits; each packet takes the least loaded equal link."""

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
        credit_buffer_bytes=128 * 1024,
        credit_update_bytes=16 * 1024,
        sharp=False,
        switches=(
            ("quantum-2-qm9700", "quantum-2-qm9700"),
            ("quantum-x800-q3400", "quantum-x800-q3400"),
        ),
        families=("infiniband",),
        reroute_ps=1_000_000_000,
        retransmit_ps=4_194_304_000,
        packets=PACKETS,
        left_out=("head-of-line blocking behind the job's own incasts; other traffic's is as packet runs gave it",),
        sources={
            "reroute_ps": estimated(
                "1 ms",
                "SHIELD and adaptive routing repair in switches, vendor: milliseconds; a sweep of the subnet manager "
                "without them takes 10 s by OpenSM's default interval",
                2026,
            ),
            "retransmit_ps": estimated(
                "4.19 ms", "4.096 us x 2^10, InfiniBand's coding of the local timeout, as its packets have it", 2025
            ),
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
            "credit_buffer_bytes": vendor(
                "128 KiB",
                "2,048 blocks of 64 B: all that 12-bit counters tell of (InfiniBand specification)",
                2020,
            ),
            "credit_update_bytes": estimated("16 KiB", "four packets; not published", 2026),
            "sharp": vendor("false", "an option of the deployment", 2026),
        },
    ),
)


INFINIBAND_STATIC = fabrics.add(
    "infiniband-static",
    replace(
        INFINIBAND,
        name="infiniband-static",
        summary="InfiniBand NDR: credits on links, routes by destination, reliable connections at line rate",
        load_balancing="ecmp",
        reroute_ps=2_700_000_000_000,
        sources={
            **INFINIBAND.sources,
            "reroute_ps": measured(
                "2.7 s, 0.7 s for 512 hosts and 12 s for 8,192",
                "OpenSM on ibsim: discovery, routes and tables of 2,048 hosts; its sweep begins with the "
                "trap of the port that went down",
                2026,
            ),
            "load_balancing": vendor("ecmp", "linear forwarding tables of OpenSM: one path a destination", 2026),
        },
        packets=INFINIBAND.packets.with_constants(load_balancing="ecmp", rdma_out_of_order=False),
    ),
)
