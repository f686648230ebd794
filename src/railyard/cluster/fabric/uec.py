"""`uec`: Ultra Ethernet transport: the sender sprays every packet and recycles good entropies (REPS), with NSCC."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import DEEPSEEK_LATENCY, Fabric, Packets, estimated, fabrics, measured, vendor

PACKETS = Packets(
    constants={
        "transport": "uec",
        "switching": "lossy",
        "congestion_control": "nscc",
        "load_balancing": "mixed",
        "mtu_bytes": 4096 + 122,
        "header_bytes": 122,
        "trim": True,
    },
    sources=(
        "ultraethernet/uet-htsim, commit 40ccb05: sim/datacenter/main_uec.cpp: command line, queues, thresholds",
        "ultraethernet/uet-htsim, commit 40ccb05: sim/uec.cpp: NSCC, RCCC, acknowledgements",
    ),
    left_out=(
        "the PCIe model of `-pcie`",
        "SLEEK, the loss recovery of `-sleek`",
        "several ports a NIC (`-planes`)",
    ),
)
"""Windows at the sender (NSCC), packets over all paths by recycled entropies, trimming: docs/explanation/packet.md."""

UEC = fabrics.add(
    "uec",
    Fabric(
        name="uec",
        summary="Ultra Ethernet 1.0: packets sprayed by the sender (REPS), packet trimming, NSCC congestion control",
        load_balancing="spray",
        header_bytes=122,
        transport_efficiency=0.987,
        hop_latency_ps=900_000,
        nic_latency_ps=2_600_000,
        congestion_efficiency=0.95,
        incast_efficiency=0.993,
        switches=(("tomahawk-5", "tomahawk-5"), ("tomahawk-6", "tomahawk-6")),
        families=("ethernet",),
        reroute_ps=100_000_000,
        retransmit_ps=0,
        packets=PACKETS,
        left_out=(
            "trimmed and repeated packets under a burst: only their mean cost is in the efficiencies",
            "the tail of a spray over few packets: p99 of a 2 MB permutation is 64 us, where 45 us is ideal",
        ),
        sources={
            "reroute_ps": estimated(
                "100 us", "REPS stops using entropies that time out: below 100 us (REPS, 2025)", 2025
            ),
            "retransmit_ps": estimated("0", "what is missing is seen by what comes after it, on other paths", 2025),
            "load_balancing": estimated("spray", "UET 1.0, mixed entropy policy of the reference simulator", 2025),
            "header_bytes": vendor(
                "122 B",
                "preamble 8, gap 12, Ethernet 14, FCS 4, IPv4 20, UDP 8 (IEEE 802.3), PDS request 12, SES standard"
                " request 44 (UE Specification 1.0); the reference simulator takes 64, 1.4 % of the rate",
                2025,
            ),
            "transport_efficiency": measured("98.7 %", "as `roce`: NICs of the same class", 2025),
            "hop_latency_ps": measured("0.9 us", DEEPSEEK_LATENCY.format(same="3.6", cross="5.6"), 2025),
            "nic_latency_ps": measured("2.6 us", DEEPSEEK_LATENCY.format(same="3.6", cross="5.6"), 2025),
            "congestion_efficiency": estimated(
                "95 %",
                "permutations in uet-htsim: 1 MB on 8,192 hosts ends at 38.7 us, 34 us ideal, start-up included",
                2025,
            ),
            "incast_efficiency": estimated(
                "99.3 %", "128-to-1 incast of 2 MB in uet-htsim: 5,276 us, 5,242 us ideal", 2025
            ),
        },
    ),
)
