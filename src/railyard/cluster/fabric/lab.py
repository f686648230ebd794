"""`lab`: the kernel's TCP over shaped links between network namespaces, as in the engine `lab`."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import Fabric, Packets, estimated, fabrics, vendor

_US = 10**6

PACKETS = Packets(
    constants={
        "transport": "uec",
        "switching": "lossy",
        "congestion_control": "constant",
        "load_balancing": "ecmp",
        "queue_packets": 1 << 14,
        "mtu_bytes": 8948 + 66,
        "header_bytes": 66,
        "window_packets": 32,
    },
    sources=("framing of TCP over Ethernet at an MTU of 9000; windows and queues as the engine `lab` sets them",),
    left_out=("TCP's congestion control, which the lab's queues, longer than all windows, leave nothing to do",),
)
"""A constant window and queues that never overflow."""

LAB = fabrics.add(
    "lab",
    Fabric(
        name="lab",
        summary="The kernel's TCP over shaped links between network namespaces: what the engine `lab` runs on",
        load_balancing="ecmp",
        mtu_bytes=8948,
        header_bytes=99,
        hop_latency_ps=1 * _US,
        nic_latency_ps=2 * _US,
        switches=(("tomahawk-5", "tomahawk-5"), ("tomahawk-6", "tomahawk-6")),
        families=("ethernet",),
        model_of="the engine `lab`",
        reroute_ps=3_000_000_000_000,
        retransmit_ps=200_000_000_000,
        packets=PACKETS,
        left_out=("the kernel's turns: a process that waits for a core, a queue's timer that is late",),
        sources={
            "mtu_bytes": vendor("8948 B", "MTU of 9000 less IPv4 20, TCP 20 and its timestamps 12 (RFC 9293)", 2022),
            "header_bytes": vendor(
                "99 B",
                "those 52 and the Ethernet header of 14, which `tbf` counts (no preamble), and an acknowledgement of "
                "66 B for every second packet (RFC 1122, section 4.2.3.2), on its way the other direction",
                2022,
            ),
            "hop_latency_ps": estimated("1 us", "in the cluster's time: a lab that is dilated has next to none", 2026),
            "nic_latency_ps": estimated(
                "2 us",
                "in the cluster's time; a lab that is not dilated has about 0.1 ms, of processes that are woken "
                "(docs/validation/lab.md)",
                2026,
            ),
            "reroute_ps": estimated("3 s", "BGP timers of 1 and 3 s, as the lab's FRR has them", 2026),
            "retransmit_ps": vendor("200 ms", "TCP_RTO_MIN of Linux", 2026),
        },
    ),
)
