"""`swift`: RoCE's interfaces under delay control after Swift."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import Packets, fabrics
from railyard.cluster.fabric.roce import ROCE

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
