"""Ultra Ethernet, and the fabric that it is shown against."""

from railyard.engine.packet.uec import IDEAL, UEC
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

UEC_PRESET = add(
    Preset(
        name="uec",
        summary="Ultra Ethernet with payloads of 4,096 bytes; all else as in `uec-htsim`.",
        settings=Settings(**UEC),
        sources=UEC_HTSIM.sources,
        left_out=UEC_HTSIM.left_out,
    )
)

IDEAL_PRESET = add(
    Preset(
        name="ideal",
        summary="Nothing but the hosts' own links is ever busy: the bound that fabrics are shown against.",
        settings=Settings(**IDEAL, mtu_bytes=4096 + 26, header_bytes=26, window_packets=512, fabric_speedup=1000.0),
        sources=(
            "framing of InfiniBand, the leanest of the fabrics (docs/explanation/packet-infiniband.md)",
            "links between switches a thousand times faster, 512 packets in flight: chosen so that neither is felt",
        ),
        left_out=("loss, marks, pauses and credits",),
    )
)
