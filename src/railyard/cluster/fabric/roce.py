"""`roce`: RoCEv2 on ordinary Ethernet switches: hashed paths, priority flow control, DCQCN."""

from __future__ import annotations

from railyard.cluster.fabric.constants import DEEPSEEK_LATENCY, estimated, measured, vendor
from railyard.cluster.fabric.fabric import Fabric, fabrics

ROCE = fabrics.add(
    "roce",
    Fabric(
        name="roce",
        summary="RoCEv2 over Ethernet switches: flows hashed onto paths (ECMP), lossless by PFC, DCQCN",
        load_balancing="ecmp",
        qps=1,
        e_ecmp=True,
        header_bytes=82,
        transport_efficiency=0.987,
        hop_latency_ps=900_000,
        nic_latency_ps=2_600_000,
        congestion_efficiency=0.98,
        incast_efficiency=0.90,
        switches=(("tomahawk-5", "tomahawk-5"), ("tomahawk-6", "tomahawk-6")),
        families=("ethernet",),
        left_out=(
            "pause spreading to victims: PFC holds back flows that only share a switch with a congested one",
            "packet loss and go-back-N after a misconfigured headroom",
            "the time DCQCN takes to find its rate: a flow has its fair share at once",
        ),
        sources={
            "qps": vendor("1", "NCCL default NCCL_IB_QPS_PER_CONNECTION=1", 2026),
            "e_ecmp": measured(
                "true", "Meta, RDMA over Ethernet for distributed AI training (SIGCOMM 2024): E-ECMP", 2024
            ),
            "header_bytes": vendor(
                "82 B",
                "preamble 8, gap 12, Ethernet 14, FCS 4, IPv4 20, UDP 8, BTH 12, ICRC 4 (RoCEv2 annex A17, IEEE 802.3)",
                2014,
            ),
            "transport_efficiency": measured(
                "98.7 %", "GPU to GPU over one 400 Gb/s NIC, 1 GiB messages: 48.35 of 50 GB/s; headers leave 49.0", 2025
            ),
            "hop_latency_ps": measured("0.9 us", DEEPSEEK_LATENCY.format(same="3.6", cross="5.6"), 2025),
            "nic_latency_ps": measured("2.6 us", DEEPSEEK_LATENCY.format(same="3.6", cross="5.6"), 2025),
            "congestion_efficiency": estimated(
                "98 %",
                "tuned DCQCN keeps a saturated link busy (99.5 % with 8 QPs in HPE Juniper's long-distance test)",
                2025,
            ),
            "incast_efficiency": measured(
                "90 %", "2-to-1 incast at 100 Gb/s with tuned CNP factor: 88 Gb/s of goodput, headers added", 2024
            ),
        },
    ),
)
