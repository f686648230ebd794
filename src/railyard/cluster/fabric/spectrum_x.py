"""`spectrum-x`: Ethernet switches that route every packet by queue depth, and NICs that restore the order."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import DEEPSEEK_LATENCY, Fabric, Packets, estimated, fabrics, measured, vendor
from railyard.cluster.fabric.roce import PACKETS as ROCE_PACKETS

_ROCE = {name: value for name, value in ROCE_PACKETS.constants.items() if not name.startswith("dcqcn_")}

PACKETS = Packets(
    constants={
        **_ROCE,
        "load_balancing": "adaptive",
        "rdma_control": "spectrum",
        "rdma_out_of_order": True,
        "rdma_ack_packets": 1,
        "rdma_window_rtts": 2,
    },
    sources=(
        "docs/explanation/packet-controls.md: which parameters are public, how we put them together",
        "DOCA PCC, sample rtt_template: one probe at a time, flags of notifications and gaps",
        "NVIDIA, Adaptive Retransmission: Parameters Control; linux-rdma/perftest issue 251: the timer",
        "Mellanox/nic-configuration-operator, RA1.3 to RA3.0: `Tx Window: true`; its size is not published, two round "
        "trips are assumed",
    ),
    left_out=(
        "how switches weigh queues (unpublished): the shortest of the equal-cost queues in four bands is taken",
        "notices of neighbours about their ports and queues: routes learn of links further on after `reroute`",
        "how the control puts its parameters together (unpublished): our reading",
        "how interfaces find a lost packet among those out of order (unpublished): by the timer alone",
        "planes of one interface and their failover",
    ),
)
"""RoCE switches with per-packet adaptive routing, out-of-order placement, and rates by queueing delay."""

SPECTRUM_X = fabrics.add(
    "spectrum-x",
    Fabric(
        name="spectrum-x",
        summary="RoCE with adaptive routing per packet in the switch and direct data placement in the NIC (Spectrum-X)",
        load_balancing="adaptive",
        header_bytes=82,
        transport_efficiency=0.987,
        hop_latency_ps=900_000,
        nic_latency_ps=2_600_000,
        congestion_efficiency=0.95,
        pauses=True,
        incast_efficiency=0.95,
        switches=(("spectrum-4-sn5600", "spectrum-4-sn5600"), ("spectrum-6-sn6600", "spectrum-6-sn6600")),
        families=("ethernet",),
        reroute_ps=1_000_000_000,
        retransmit_ps=4_194_304_000,
        packets=PACKETS,
        left_out=(
            "the control loop of its congestion control, which is not public: a flow has its fair share at once",
            "NICs that cannot place out of order: the switch would hash their flows",
        ),
        sources={
            "reroute_ps": estimated(
                "1 ms",
                "adaptive routing leaves out ports that are down; how soon far switches know is not published: BGP as "
                "on `roce` would take 100 ms",
                2026,
            ),
            "retransmit_ps": estimated(
                "4.19 ms", "4.096 us x 2^10, InfiniBand's coding of the local timeout, as its packets have it", 2025
            ),
            "pauses": vendor("true", "RoCE v2 in a lossless class: IEEE 802.1Qbb", 2026),
            "load_balancing": vendor("adaptive", "NVIDIA Spectrum-X: ROCE_ADAPTIVE_ROUTING_EN=1", 2025),
            "header_bytes": vendor("82 B", "RoCEv2 framing, see `roce`", 2014),
            "transport_efficiency": measured("98.7 %", "as `roce`: the same NICs and transport", 2025),
            "hop_latency_ps": measured("0.9 us", DEEPSEEK_LATENCY.format(same="3.6", cross="5.6"), 2025),
            "nic_latency_ps": measured("2.6 us", DEEPSEEK_LATENCY.format(same="3.6", cross="5.6"), 2025),
            "congestion_efficiency": vendor(
                "95 %", "NVIDIA and xAI: 95 % effective bandwidth against 60 % with ECMP", 2024
            ),
            "incast_efficiency": estimated("95 %", "taken to be that of shared links; no public measurement", 2026),
        },
    ),
)
