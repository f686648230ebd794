"""`hpcc-htsim`: HPCC as csg-htsim models it."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import fabrics
from railyard.cluster.fabric.roce_htsim import ROCE_HTSIM

_US = 10**6

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
