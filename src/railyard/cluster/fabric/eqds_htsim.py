"""`eqds-htsim`: EQDS as csg-htsim models it: receivers hand out credit."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import Packets, fabrics
from railyard.cluster.fabric.uec import UEC

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
