"""RoCE: our own defaults, and the constants of two simulators."""

from dataclasses import replace

from railyard.engine.packet.roce import ROCE
from railyard.scenario.packet.presets.preset import Preset, add
from railyard.scenario.packet.settings import Settings

_US = 10**6
_HTSIM_PAYLOAD = 4150
_NS3_PAYLOAD, _NS3_HEADER = 4000, 36

ROCE_PRESET = add(
    Preset(
        name="roce",
        summary="RoCE v2 as it is built for training: hashed paths, priority flow control, DCQCN.",
        settings=Settings(**ROCE),
        sources=("docs/explanation/packet-rdma.md: constants with their sources",),
        left_out=("the responder's end-to-end credits", "the interface's limits in packets a second"),
    )
)

ROCE_HTSIM = add(
    Preset(
        name="roce-htsim",
        summary="RoCE as csg-htsim models it: line rate, going back, pauses at a fixed number of packets.",
        settings=Settings(
            transport="rdma",
            switching="pfc",
            load_balancing="ecmp",
            mtu_bytes=_HTSIM_PAYLOAD + 64,
            header_bytes=64,
            trim=False,
            rdma_control="line-rate",
            rdma_nack_interval_ps=0,
            pfc_xoff_bytes=15 * _HTSIM_PAYLOAD,
            pfc_xon_bytes=12 * _HTSIM_PAYLOAD,
            pfc_buffer_bytes=10**9,
            pfc_headroom_bytes=10**7,
            pfc_frame_bytes=1,
            marking_low_bytes=10**9,
            marking_high_bytes=10**9,
            start_unit="ps",
        ),
        sources=(
            "Broadcom/csg-htsim, commit 841d9e7: sim/roce.cpp: pacing, acknowledgements, going back",
            "Broadcom/csg-htsim, commit 841d9e7: sim/datacenter/main_roce.cpp: thresholds, packet size",
            "Broadcom/csg-htsim, commit 841d9e7: sim/queue_lossless_input.cpp, queue_lossless_output.cpp: pauses",
        ),
        left_out=("flowlets that switches move by load (`-strat ecmp_ar`)",),
    )
)

NS3 = Settings(
    transport="rdma",
    switching="pfc",
    load_balancing="ecmp",
    mtu_bytes=_NS3_PAYLOAD + _NS3_HEADER,
    header_bytes=_NS3_HEADER,
    trim=False,
    rdma_control_bytes=48,
    rdma_nack_interval_ps=500 * _US,
    marking_low_bytes=800_000,
    marking_high_bytes=3_200_000,
    marking_most=0.2,
    pfc_buffer_bytes=64 * 2**20,
    pfc_alpha=1 / 8,
    pfc_reserve_bytes=4096,
    pfc_resume_bytes=3072,
    pfc_headroom_bytes=150_000,
    pfc_frame_bytes=31,
    start_unit="ps",
)
"""What fabrics of ASTRA-sim's ns-3 have in common: scratch/config/config.txt, scratch/common.h, windows left out."""

NS3_SOURCES = (
    "astra-sim/astra-network-ns3, commit 8fd3604: scratch/config/config.txt, scratch/common.h: constants, windows",
    "astra-sim/astra-network-ns3, commit 8fd3604: src/point-to-point/model/switch-mmu.cc: thresholds, headroom",
)

ROCE_NS3 = add(
    Preset(
        name="roce-ns3",
        summary="RoCE as ASTRA-sim's ns-3 models it, without congestion control.",
        settings=NS3,
        sources=NS3_SOURCES,
        left_out=("its hash of the five-tuple and its random numbers",),
    )
)

DCQCN_NS3 = add(
    Preset(
        name="dcqcn-ns3",
        summary="RoCE as ASTRA-sim's ns-3 models it, with DCQCN in its periodic form.",
        settings=replace(
            NS3,
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
        ),
        sources=(
            *NS3_SOURCES,
            "the same: src/point-to-point/model/rdma-hw.cc: the rate control",
            "alibaba-edu/High-Precision-Congestion-Control, commit 9f4be2a: simulation/run.py, `--cc dcqcn`: constants",
        ),
        left_out=("its hash of the five-tuple and its random numbers",),
    )
)
