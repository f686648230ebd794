"""`hpcc-ns3`: HPCC as ASTRA-sim's ns-3 models it, with the rules and constants of its authors."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import fabrics
from railyard.cluster.fabric.roce_ns3 import HEADER_BYTES, PAYLOAD_BYTES, ROCE_NS3

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
