"""`ualink`: UALink 200G 1.0: loads and stores in 640-byte flits over one tier of switches, replay on links."""

from __future__ import annotations

from railyard.cluster.fabric.fabric import Packets, estimated, vendor
from railyard.cluster.scale_up.fabric import ScaleUpFabric, scale_ups

_NS = 1000
_SPEC = "UALink_200 Rev 1.0"
_HELIOS = "AMD Helios: 260 TB/s of 72 MI455X both ways"

PACKETS = Packets(
    constants={
        "transport": "rdma",
        "switching": "credit",
        "load_balancing": "spray",
        "mtu_bytes": 640,
        "header_bytes": 640 - 596,
        "trim": False,
        "rdma_control": "line-rate",
        "rdma_control_bytes": 64,
        "rdma_ack_packets": 8,
        "rdma_out_of_order": True,
        "link_credit_buffer_bytes": 255 * 640,
        "link_credit_update_bytes": 4 * 640,
        "link_credit_lanes": 4,
        "link_retry": True,
    },
    tree={"link_rate_bps": 800 * 10**9, "link_latency_ps": 59_200},
    sources=("docs/explanation/scale-up.md: frames, credits and replay with their sources",),
    left_out=(
        "responses of single accesses: acknowledgements of eight flits stand for them",
        "alignment markers, one in 16,384 flits",
        "acknowledgements of a link: the credits of its buffer, 255 flits, stand for its replay window",
        "errors of flits that are sent again",
    ),
)
"""A station of 800 Gb/s; a flit is a packet whose payload is what mixed traffic leaves of 640 bytes."""

UALINK = scale_ups.enter(
    ScaleUpFabric(
        name="ualink",
        summary="UALink 200G: stations of 800 Gb/s, 640-byte flits, one tier of switches, up to 1,024 accelerators",
        kind="switched",
        link_bps=800e9,
        links=18,
        largest_domain=1024,
        framing="flit",
        frame_bytes=628,
        overhead_bytes=12,
        request_bytes=8,
        response_bytes=4,
        control_share=4 / 32,
        access_bytes=256,
        library_share=0.85,
        bridge_ps=100 * _NS,
        link_ps=100 * _NS,
        switch_ps=200 * _NS,
        cable_m=2.0,
        flow_control="credits",
        replay_frames=255,
        packets=PACKETS,
        left_out=(
            "addition in switches (UALink Common 2.0, ratified in 2026; no figures): set `reduces: true`",
            "alignment markers, one in 16,384 flits of a station",
            "memory order, which software keeps: no fence of a library is counted",
        ),
        sources={
            "link_bps": vendor("800 Gb/s", f"{_SPEC}, 1.1: a station of 4 lanes of 200 Gb/s", 2025),
            "links": estimated("18", f"{_HELIOS}: 260 TB/s both ways over 72", 2026),
            "largest_domain": vendor("1,024", f"{_SPEC}, 1.1: 10-bit identifiers", 2025),
            "framing": vendor("flit", f"{_SPEC}, 6.3", 2025),
            "frame_bytes": vendor("628 B", f"{_SPEC}, 6.3: 640 less 3 + 5 + 4", 2025),
            "overhead_bytes": vendor("12 B", f"{_SPEC}, 6.3: header 3, segment headers 5, CRC 4", 2025),
            "request_bytes": vendor("8 B", f"{_SPEC}, 5: compressed, four in a control half-flit of 32 B", 2025),
            "response_bytes": vendor("4 B", f"{_SPEC}, 5: compressed", 2025),
            "control_share": vendor("12.5 %", f"{_SPEC}, 5: a flow-control field of 4 B in 32 B", 2025),
            "access_bytes": vendor("256 B", f"{_SPEC}, 5: the largest access", 2025),
            "library_share": estimated("85 %", "as NCCL on NVLink: 722 of 847 GB/s, 256 B for each 16 B header", 2026),
            "bridge_ps": estimated("100 ns", "as SUE (Broadcom SUE RM104)", 2025),
            "link_ps": estimated("100 ns", "as SUE, one codeword in", 2025),
            "switch_ps": vendor("200 ns", "UALink Consortium 2025: below 200 ns at 51.2 Tb/s", 2025),
            "cable_m": vendor("2 m, at most 4", "UALink white paper 2025: cables below 4 m, 1 to 4 racks", 2025),
            "flow_control": vendor("credits", f"{_SPEC}, 5: by virtual channel, 4 of them", 2025),
            "replay_frames": vendor("255", f"{_SPEC}, 6.6: unacknowledged flits at most", 2025),
        },
    )
)
