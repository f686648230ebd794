"""Transports whose receivers pull."""

from railyard.scenario.packet.presets.preset import Preset, add
from railyard.scenario.packet.settings import Settings

EQDS_HTSIM = add(
    Preset(
        name="eqds-htsim",
        summary="EQDS as csg-htsim models it: a speculative window, then credit packet by packet, trimming.",
        settings=Settings(
            transport="eqds",
            load_balancing="skip",
            paths=64,
            mtu_bytes=4150,
            header_bytes=64,
            queue_packets=35,
            window_packets=50,
            sack_bytes=16385,  # more than 16,384
            pull_rate=0.99,
            start_unit="ps",
        ),
        sources=(
            "Broadcom/csg-htsim, commit 841d9e7: sim/eqds.cpp: credit, pulls, acknowledgements, timeouts, paths",
            "Broadcom/csg-htsim, commit 841d9e7: sim/datacenter/main_eqds.cpp: window, queue, pace",
        ),
        left_out=(
            "the queue that drops speculative packets first (`-queue_type aeolus`)",
            "marks that steer packets (`-strat ecmp_host_ecn`)",
        ),
    )
)

NDP_HTSIM = add(
    Preset(
        name="ndp-htsim",
        summary="NDP as csg-htsim models it: a first window at line rate, then one packet a pull, trimming.",
        settings=Settings(
            transport="ndp",
            load_balancing="spray",
            paths=64,
            mtu_bytes=9064,
            header_bytes=64,
            queue_packets=14,  # 15 packets of 9,000 bytes, which its headers of 64 bytes more do not fit into
            window_packets=15,
            pull_rate=0.99,
            start_unit="ps",
        ),
        sources=(
            "Broadcom/csg-htsim, commit 841d9e7: sim/ndp.cpp: window, pulls, acknowledgements, paths",
            "Broadcom/csg-htsim, commit 841d9e7: sim/datacenter/main_ndp.cpp: window, queue, pace",
        ),
        left_out=(
            "headers that no queue has room for going back to their sender",
            "receivers that park pulls where the fabric is oversubscribed (`-oversubscribed_cc`)",
        ),
    )
)
