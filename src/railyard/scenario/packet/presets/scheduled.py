"""Scheduled fabrics: virtual output queues, credits, cells."""

from __future__ import annotations

from railyard.engine.packet.scheduled import SCHEDULED
from railyard.scenario.packet.presets.preset import Preset, add
from railyard.scenario.packet.settings import Settings

SCHEDULED_PRESET = add(
    Preset(
        name="scheduled",
        summary="Scheduled Ethernet (Jericho3-AI and Ramon3; Meta's DSF): virtual output queues, credits, cells over "
        "all links; RDMA at line rate over it.",
        settings=Settings(**SCHEDULED),
        sources=(
            "facebook/fboss, platform files of Jericho3-AI and Ramon3: 144 lanes to hosts, 160 to the fabric, memory",
            "RoCEv2: 82 bytes a packet from preamble to gap, 4 more for an acknowledgement (IBTA annex A17)",
            "cell, credit, credit rate, latency of the scheduler: assumed, see docs/explanation/packet-scheduled.md",
        ),
        left_out=(
            "bit errors on links between switches",
            "spilling of queues from on-chip memory to stacked memory",
            "credit sent ahead of requests",
            "flow control from host to leaf's port (only leafs pause hosts)",
        ),
    )
)
