"""`ideal`: a non-blocking crossbar, the upper bound of every comparison."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import Fabric, Packets, estimated, fabrics

PACKETS = Packets(
    constants={
        "transport": "uec",
        "switching": "lossy",
        "congestion_control": "constant",
        "load_balancing": "spray",
        "queue_packets": 1 << 16,
        "mtu_bytes": 4096 + 26,
        "header_bytes": 26,
        "window_packets": 512,
    },
    tree={"fabric_speedup": 1000.0},
    sources=(
        "framing of InfiniBand, the leanest of the fabrics (docs/explanation/packet-infiniband.md)",
        "links between switches a thousand times faster, 512 packets in flight: chosen so that neither is felt",
    ),
    left_out=("loss, marks, pauses and credits",),
)
"""Only the hosts' links limit it: a constant window, and queues that never overflow."""

IDEAL = fabrics.add(
    "ideal",
    Fabric(
        name="ideal",
        summary="A non-blocking crossbar: only the NICs' own links count",
        load_balancing="ideal",
        header_bytes=26,
        hop_latency_ps=350_000,
        nic_latency_ps=2_350_000,
        switches=(("tomahawk-5", "tomahawk-5"), ("tomahawk-6", "tomahawk-6")),
        reroute_ps=0,
        retransmit_ps=0,
        packets=PACKETS,
        families=("ethernet", "infiniband", "scheduled-leaf", "scheduled-fabric"),
        left_out=(
            "everything between the NICs but one hop's latency for each switch of the topology that it is laid over",
        ),
        sources={
            "reroute_ps": estimated("0", "an ideal crossbar has no paths to lose but a port's own", 2025),
            "retransmit_ps": estimated("0", "nothing is ever lost without a trace", 2025),
            "header_bytes": estimated("26 B", "the smallest overhead of the fabrics compared (infiniband)", 2025),
            "hop_latency_ps": estimated("0.35 us", "the lowest of the fabrics compared (infiniband)", 2025),
            "nic_latency_ps": estimated("2.35 us", "the lowest of the fabrics compared (infiniband)", 2025),
        },
    ),
)
