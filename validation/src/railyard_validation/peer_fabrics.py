"""Fabrics that imitate how another simulator models a network; comparisons with that simulator use them.

Railyard's own fabrics model hardware. These reproduce a simulator's defaults and its simplifications, so they belong to
the validation. Installing this package registers them: `railyard packet --fabric uec-htsim` works then.
"""

from __future__ import annotations

from railyard.cluster.fabric.fabric import Packets, fabrics
from railyard.cluster.fabric.roce import ROCE
from railyard.cluster.fabric.uec import UEC

_US = 10**6

UEC_HTSIM = fabrics.add(
    "uec-htsim",
    UEC.as_modelled(
        "htsim",
        name="uec-htsim",
        summary="Ultra Ethernet as uet-htsim models it: NSCC, bitmap and recycled entropies, trimming.",
        packets=Packets(
            constants={
                "congestion_control": "nscc",
                "load_balancing": "mixed",
                "paths": 64,
                "mtu_bytes": 4150,
                "header_bytes": 64,
                "trim": True,
                "sack_bytes": 16384,
                "quick_adapt_gate": 3,
                "pull_rate": 0.99,
            },
            tree={
                "link_rate_bps": 400 * 10**9,
                "link_latency_ps": 10**6,
                "switch_latency_ps": 0,
                "start_unit": "us",
            },
            sources=UEC.packets.sources,
            left_out=UEC.packets.left_out,
        ),
    ),
)

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

EQDS_HTSIM = fabrics.add(
    "eqds-htsim",
    UEC.as_modelled(
        "htsim",
        name="eqds-htsim",
        summary="EQDS as csg-htsim models it: a speculative window, then credit packet by packet, trimming.",
        packets=Packets(
            constants={
                "transport": "eqds",
                "load_balancing": "skip",
                "paths": 64,
                "mtu_bytes": 4150,
                "header_bytes": 64,
                "queue_packets": 35,
                "window_packets": 50,
                "sack_bytes": 16385,  # more than 16,384
                "pull_rate": 0.99,
            },
            tree={"start_unit": "ps"},
            sources=(
                "Broadcom/csg-htsim, commit 841d9e7: sim/eqds.cpp: credit, pulls, acknowledgements, timeouts, paths",
                "Broadcom/csg-htsim, commit 841d9e7: sim/datacenter/main_eqds.cpp: window, queue, pace",
            ),
            left_out=(
                "the queue that drops speculative packets first (`-queue_type aeolus`)",
                "marks that steer packets (`-strat ecmp_host_ecn`)",
            ),
        ),
    ),
)

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

HPCC_HTSIM = fabrics.add(
    "hpcc-htsim",
    ROCE_HTSIM.as_modelled(
        "htsim",
        name="hpcc-htsim",
        summary="HPCC as csg-htsim models it: means since the first acknowledgement, windows that compound; pauses.",
        packets=ROCE_HTSIM.packets.with_constants(
            rdma_control="hpcc",
            hpcc_reading="htsim",
            hpcc_rtt_ps=12 * _US,
            hpcc_eta=0.95,
            hpcc_max_stage=5,
            hpcc_increase_bytes=4150,
            hpcc_hops=5,
            sources=(
                "Broadcom/csg-htsim, commit 841d9e7: sim/hpcc.cpp: rules, constants, pacing",
                "Broadcom/csg-htsim, commit 841d9e7: sim/queue_lossless_output.cpp: telemetry",
                *ROCE_HTSIM.packets.sources[1:],
            ),
            left_out=("a window that a gap shrinks to one packet stays counted as empty (`_flightsize = 0`)",),
        ),
    ),
)

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

DCQCN_NS3 = fabrics.add(
    "dcqcn-ns3",
    ROCE_NS3.as_modelled(
        "ns-3",
        name="dcqcn-ns3",
        summary="RoCE as ASTRA-sim's ns-3 models it, with DCQCN in its periodic form.",
        packets=ROCE_NS3.packets.with_constants(
            rdma_control="dcqcn",
            rdma_notification="acknowledgement",
            dcqcn_form="periodic",
            dcqcn_g=0.00390625,
            dcqcn_alpha_interval_ps=_US,
            dcqcn_decrease_interval_ps=4 * _US,
            dcqcn_increase_interval_ps=300 * _US,
            dcqcn_byte_counter=0,
            dcqcn_fast_recovery=1,
            dcqcn_additive_bps=16 * 5e6,
            dcqcn_hyper_bps=16 * 50e6,
            dcqcn_min_rate_bps=100e6,
            sources=(
                *ROCE_NS3.packets.sources,
                "the same: src/point-to-point/model/rdma-hw.cc: the rate control",
                "alibaba-edu/High-Precision-Congestion-Control, commit 9f4be2a: simulation/run.py, `--cc dcqcn`: "
                "constants",
            ),
        ),
    ),
)

_TELEMETRY_BYTES = 42

HPCC_NS3 = fabrics.add(
    "hpcc-ns3",
    ROCE_NS3.as_modelled(
        "ns-3",
        name="hpcc-ns3",
        summary="HPCC as ASTRA-sim's ns-3 models it, with the rules and constants of its authors.",
        packets=ROCE_NS3.packets.with_constants(
            mtu_bytes=PAYLOAD_BYTES + HEADER_BYTES + _TELEMETRY_BYTES,
            header_bytes=HEADER_BYTES + _TELEMETRY_BYTES,
            rdma_control_bytes=ROCE_NS3.packets.constants["rdma_control_bytes"] + _TELEMETRY_BYTES,
            rdma_control="hpcc",
            hpcc_reading="paper",
            hpcc_eta=0.95,
            hpcc_max_stage=0,
            hpcc_increase_share=10e6 / 25e9,
            hpcc_min_rate_bps=100e6,
            sources=(
                *ROCE_NS3.packets.sources,
                "the same: src/point-to-point/model/rdma-hw.cc: the control",
                "the same: src/network/utils/int-header.h: 42 bytes of telemetry",
                "alibaba-edu/High-Precision-Congestion-Control, commit 9f4be2a: simulation/run.py, `--cc hp`",
            ),
            left_out=("telemetry in units of 80 and 128 bytes and of 1 ns",),
        ),
    ),
)

SWIFT = fabrics.add(
    "swift",
    ROCE.as_modelled(
        "htsim",
        name="swift",
        summary="Delay control after Swift: windows by round-trip time, placement in any order, switches that drop.",
        packets=Packets(
            constants={
                "transport": "rdma",
                "switching": "lossy",
                "load_balancing": "flowlet",
                "mtu_bytes": 4150,
                "header_bytes": 64,
                "trim": False,
                "rdma_control": "swift",
                "rdma_out_of_order": True,
                "rdma_rto_ps": 100 * 10**6,
            },
            sources=(
                "Kumar et al., Swift: Delay is Simple and Effective for Congestion Control in the Datacenter, "
                "SIGCOMM 2020",
                "Broadcom/csg-htsim, commit 841d9e7: sim/swift.cpp: constants that the paper leaves open",
            ),
            left_out=("moving a flow to another path when delay stays high (PLB)", "time in the hosts' stacks"),
        ),
    ),
)
