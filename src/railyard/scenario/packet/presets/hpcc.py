"""HPCC with the constants of two simulators."""

from dataclasses import replace

from railyard.scenario.packet.presets.preset import Preset, add
from railyard.scenario.packet.presets.roce import NS3, NS3_SOURCES, ROCE_HTSIM

_US = 10**6
_HTSIM_PAYLOAD = 4150
_TELEMETRY = 42
_NS3_HEADER = 36 + _TELEMETRY

HPCC_HTSIM = add(
    Preset(
        name="hpcc-htsim",
        summary="HPCC as csg-htsim models it: means since the first acknowledgement, windows that compound; pauses.",
        settings=replace(
            ROCE_HTSIM.settings,
            rdma_control="hpcc",
            hpcc_reading="htsim",
            hpcc_rtt_ps=12 * _US,
            hpcc_eta=0.95,
            hpcc_max_stage=5,
            hpcc_increase_bytes=_HTSIM_PAYLOAD,
            hpcc_hops=5,
        ),
        sources=(
            "Broadcom/csg-htsim, commit 841d9e7: sim/hpcc.cpp: rules, constants, pacing",
            "Broadcom/csg-htsim, commit 841d9e7: sim/queue_lossless_output.cpp: telemetry",
            *ROCE_HTSIM.sources[1:],
        ),
        left_out=("a window that a gap shrinks to one packet stays counted as empty (`_flightsize = 0`)",),
    )
)

HPCC_NS3 = add(
    Preset(
        name="hpcc-ns3",
        summary="HPCC as ASTRA-sim's ns-3 models it, with the rules and constants of its authors.",
        settings=replace(
            NS3,
            mtu_bytes=4000 + _NS3_HEADER,
            header_bytes=_NS3_HEADER,
            rdma_control_bytes=NS3.rdma_control_bytes + _TELEMETRY,
            rdma_control="hpcc",
            hpcc_reading="paper",
            hpcc_eta=0.95,
            hpcc_max_stage=0,
            hpcc_increase_share=10e6 / 25e9,
            hpcc_min_rate_bps=100e6,
        ),
        sources=(
            *NS3_SOURCES,
            "the same: src/point-to-point/model/rdma-hw.cc: the control",
            "the same: src/network/utils/int-header.h: 42 bytes of telemetry",
            "alibaba-edu/High-Precision-Congestion-Control, commit 9f4be2a: simulation/run.py, `--cc hp`",
        ),
        left_out=("telemetry in units of 80 and 128 bytes and of 1 ns",),
    )
)
