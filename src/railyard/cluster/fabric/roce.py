"""`roce`: RoCEv2 on ordinary Ethernet switches as operators tune it: queue pairs over hashed paths, PFC, DCQCN.

The default settings of NICs, switches and NCCL are `roce-untuned`.
"""

from __future__ import annotations

from dataclasses import replace

from railyard.cluster.fabric.fabric import DEEPSEEK_LATENCY, Fabric, Packets, estimated, fabrics, measured, vendor

_US = 10**6

PACKETS = Packets(
    constants={
        "transport": "rdma",
        "switching": "pfc",
        "load_balancing": "ecmp",
        "mtu_bytes": 4096 + 82,
        "header_bytes": 82,
        "trim": False,
        "rdma_control": "dcqcn",
        "rdma_notification": "packet",
        "rdma_cnp_interval_ps": 4 * _US,
        "rdma_control_bytes": 84,
        "rdma_control_class": 6,
        "rdma_ack_packets": 4,
        "marking_low_bytes": 150_000,
        "marking_high_bytes": 1_500_000,
        "marking_most": 0.2,
        "dcqcn_form": "periodic",
        "dcqcn_g": 5 / 1024,
        "dcqcn_alpha_interval_ps": _US,
        "dcqcn_decrease_interval_ps": 4 * _US,
        "dcqcn_increase_interval_ps": 50 * _US,
        "dcqcn_byte_counter": 32_767 * 64,
        "dcqcn_fast_recovery": 1,
        "dcqcn_additive_bps": 16 * 20e6,
        "dcqcn_hyper_bps": 16 * 50e6,
        "dcqcn_min_rate_bps": 100e6,
        "dcqcn_least_kept": 0.8,
    },
    sources=("docs/explanation/packet-rdma.md: constants with their sources",),
    left_out=(
        "the responder's end-to-end credits",
        "the interface's limits in packets a second",
        "the rate of a queue pair from one message of a collective to the next: each begins at line rate",
    ),
)
"""RoCE v2 as deployed for training: hashed paths, priority flow control, DCQCN."""

ROCE = fabrics.add(
    "roce",
    Fabric(
        name="roce",
        summary="RoCEv2 over Ethernet switches, tuned: four queue pairs a connection hashed onto paths, PFC, DCQCN",
        load_balancing="ecmp",
        qps=4,
        header_bytes=82,
        transport_efficiency=0.987,
        hop_latency_ps=900_000,
        nic_latency_ps=2_600_000,
        congestion_efficiency=0.98,
        pauses=True,
        incast_efficiency=0.90,
        switches=(("tomahawk-5", "tomahawk-5"), ("tomahawk-6", "tomahawk-6")),
        families=("ethernet",),
        reroute_ps=100_000_000_000,
        retransmit_ps=4_194_304_000,
        packets=PACKETS,
        left_out=(
            "pauses that spread from the job's own incasts; other traffic's are as packet runs gave them",
            "packet loss and go-back-N after a misconfigured headroom",
            "the time DCQCN takes to find its rate: a flow has its fair share at once",
        ),
        sources={
            "reroute_ps": estimated(
                "100 ms, of 10 ms to 1 s",
                "ports see light go within milliseconds, BGP then withdraws and ECMP groups are written: sub-second "
                "(RFC 7938, section 7); BFD of 3 x 100 ms where no light goes",
                2026,
            ),
            "retransmit_ps": estimated(
                "4.19 ms", "4.096 us x 2^10, InfiniBand's coding of the local timeout, as its packets have it", 2025
            ),
            "pauses": vendor("true", "RoCE v2 in a lossless class: IEEE 802.1Qbb", 2026),
            "qps": measured(
                "4, of 1 to 16",
                "Meta scales to 4 to 16 queue pairs (SIGCOMM 2024; NCCLX: 16, in all-to-alls 4); Oracle's scripts for"
                " OCI set NCCL_IB_QPS_PER_CONNECTION=4 on H100, its MLPerf 5.0 runs on B200 leave 1",
                2025,
            ),
            "source_port": vendor(
                "queue-pair",
                "NCCL sets no flow label; Linux then derives the source port from the queue pairs (mlx5 since 5.8)",
                2020,
            ),
            "e_ecmp": vendor(
                "false", "switches as delivered hash five fields; E-ECMP is Meta's setting (SIGCOMM 2024)", 2024
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


ROCE_UNTUNED = fabrics.add(
    "roce-untuned",
    replace(
        ROCE,
        name="roce-untuned",
        summary="RoCEv2 as delivered: one queue pair a connection hashed onto a path, PFC, DCQCN and marks by default",
        qps=1,
        packets=ROCE.packets.with_constants(
            sources=(
                *ROCE.packets.sources,
                "mlxconfig of ConnectX and BlueField: rpg_time_reset 300, rpg_ai_rate 5, rpg_hai_rate 50, "
                "rpg_min_dec_fac 50",
                "SONiC: WRED from 1 to 2 MB, at most 5 %",
            ),
            marking_low_bytes=1_000_000,
            marking_high_bytes=2_000_000,
            marking_most=0.05,
            dcqcn_increase_interval_ps=300 * _US,
            dcqcn_additive_bps=5e6,
            dcqcn_hyper_bps=50e6,
            dcqcn_least_kept=0.5,
        ),
        sources={**ROCE.sources, "qps": vendor("1", "NCCL default NCCL_IB_QPS_PER_CONNECTION=1", 2026)},
    ),
)
