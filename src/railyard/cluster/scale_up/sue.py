"""`sue`, `esun`: scale-up over Ethernet: short headers, packed accesses, retry on links, one tier of switches."""

from __future__ import annotations

from dataclasses import replace

from railyard.cluster.fabric.fabric import Packets, estimated, vendor
from railyard.cluster.scale_up.fabric import ScaleUpFabric, scale_ups

_NS = 1000
_SUE = "Broadcom SUE RM104 (Sep 2025)"
_ETHERNET = 20 + 4
"""Preamble and gap, 20 B, and the frame's checksum."""

PACKETS = Packets(
    constants={
        "transport": "rdma",
        "switching": "pfc",
        "load_balancing": "spray",
        "mtu_bytes": 4096 + 128 + 44,
        "header_bytes": 128 + 44,
        "trim": False,
        "rdma_control": "line-rate",
        "rdma_control_bytes": 64,
        "rdma_ack_packets": 4,
        "rdma_out_of_order": True,
        "link_retry": True,
    },
    tree={"link_rate_bps": 800 * 10**9, "link_latency_ps": 63_800},
    sources=("docs/explanation/scale-up.md: frames with their sources",),
    left_out=(
        "responses of single accesses: acknowledgements of four packets stand for them",
        "errors of frames that are sent again, and the limit of frames unacknowledged on a link: not published",
    ),
)
"""A port of 800 Gb/s; a packet holds sixteen accesses of 256 bytes with their headers."""

SUE = scale_ups.enter(
    ScaleUpFabric(
        name="sue",
        summary="Broadcom's scale-up Ethernet: 12-byte forwarding header, packing, link-level retry and PFC",
        kind="switched",
        link_bps=800e9,
        links=12,
        largest_domain=1024,
        framing="packet",
        frame_bytes=16 * (256 + 8),
        overhead_bytes=_ETHERNET + 12 + 8,
        request_bytes=8,
        response_bytes=0,
        access_bytes=256,
        library_share=0.85,
        bridge_ps=100 * _NS,
        link_ps=100 * _NS,
        switch_ps=250 * _NS,
        cable_m=3.0,
        flow_control="pfc",
        replay_frames=64,
        packets=PACKETS,
        left_out=(
            "addition in Tomahawk Ultra (vendor: all-reduce, broadcast, all-gather; no figures): set `reduces: true`",
            "the wait of a packer for more accesses to a destination",
        ),
        sources={
            "link_bps": vendor("800 Gb/s", f"{_SUE}: an instance of 800G", 2025),
            "links": vendor("12", f"{_SUE}: 64 XPUs, 12 instances each, 9.6 Tb/s for any pair", 2025),
            "largest_domain": vendor("1,024", f"{_SUE}: limits", 2025),
            "framing": vendor("packet", f"{_SUE}: packing by destination and virtual channel", 2025),
            "frame_bytes": estimated("16 accesses", "at most 4 KiB of data in a packet: assumed", 2026),
            "overhead_bytes": estimated(
                "44 B", "preamble, gap, FCS 24; AFH 12; reliable transport with CRC 8 assumed", 2026
            ),
            "request_bytes": estimated("8 B", "address and length of one access: not published, as UALink's", 2026),
            "access_bytes": estimated("256 B", "as UALink's largest", 2026),
            "library_share": estimated("85 %", "as NCCL on NVLink: 722 of 847 GB/s, 256 B for each 16 B header", 2026),
            "bridge_ps": vendor("100 ns", f"{_SUE}, appendix A, figure 22", 2025),
            "link_ps": vendor("100 ns", f"{_SUE}, appendix A, figure 22", 2025),
            "switch_ps": vendor("250 ns", f"{_SUE}, appendix A, figure 22", 2025),
            "cable_m": vendor("3 m", f"{_SUE}, appendix A: twinax, 4.6 ns/m", 2025),
            "flow_control": vendor("pfc", f"{_SUE}: PFC or CBFC", 2025),
            "replay_frames": estimated("64", "a window of LLR beyond the round trip: not published", 2026),
        },
    )
)

ESUN = scale_ups.enter(
    replace(
        SUE,
        name="esun",
        summary="OCP's Ethernet for scale-up: a 4-byte header after Ethernet's, link-level retry, credits",
        overhead_bytes=_ETHERNET + 14 + 4 + 8,
        flow_control="credits",
        packets=PACKETS.with_constants(
            switching="credit", mtu_bytes=4096 + 128 + 50, header_bytes=128 + 50, link_credit_buffer_bytes=131_072
        ),
        sources={
            **SUE.sources,
            "overhead_bytes": estimated(
                "50 B", "preamble, gap, FCS 24; Ethernet 14; ESUN 4 (OCP press 2026); CRC 8", 2026
            ),
            "flow_control": estimated("credits", "CBFC of the extended proposal 1.1 (OCP press 2026)", 2026),
        },
    )
)
