"""Ultra Ethernet."""

from railyard.scenario.packet.presets.preset import Preset, add
from railyard.scenario.packet.settings import Settings

UEC_HTSIM = add(
    Preset(
        name="uec-htsim",
        summary="Ultra Ethernet as uet-htsim models it: NSCC, bitmap and recycled entropies, trimming.",
        settings=Settings(
            congestion_control="nscc",
            load_balancing="mixed",
            paths=64,
            mtu_bytes=4150,
            header_bytes=64,
            trim=True,
            sack_bytes=16384,
            quick_adapt_gate=3,
            pull_rate=0.99,
            link_rate_bps=400 * 10**9,
            link_latency_ps=10**6,
            switch_latency_ps=0,
            start_unit="us",
        ),
        sources=(
            "ultraethernet/uet-htsim, commit 40ccb05: sim/datacenter/main_uec.cpp: command line, queues, thresholds",
            "ultraethernet/uet-htsim, commit 40ccb05: sim/uec.cpp: NSCC, RCCC, acknowledgements",
        ),
        left_out=(
            "the PCIe model of `-pcie`",
            "SLEEK, the loss recovery of `-sleek`",
            "several ports a NIC (`-planes`)",
        ),
    )
)
