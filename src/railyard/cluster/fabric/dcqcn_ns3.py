"""`dcqcn-ns3`: RoCE with DCQCN as ASTRA-sim's ns-3 models it."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import fabrics
from railyard.cluster.fabric.roce_ns3 import ROCE_NS3

_US = 10**6

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
