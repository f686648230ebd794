"""The packet engine: every packet, every queue. See `docs/concepts/packet.md`."""

from railyard.engine.packet.faults import Fault
from railyard.engine.packet.networks import crossbar, fat_tree, leaf_spine
from railyard.engine.packet.pfc import PFC_KEYS, Pauses, PfcSettings
from railyard.engine.packet.records import (
    AT_RECEIVER,
    AT_SENDER,
    CONGESTION_CONTROLS,
    LOAD_BALANCINGS,
    SWITCHINGS,
    TRANSPORTS,
    PacketNetwork,
    Routes,
    Settings,
    Traffic,
)
from railyard.engine.packet.running import PacketResult, Packets, Samples, run

__all__ = [
    "AT_RECEIVER",
    "AT_SENDER",
    "CONGESTION_CONTROLS",
    "LOAD_BALANCINGS",
    "PFC_KEYS",
    "SWITCHINGS",
    "TRANSPORTS",
    "Fault",
    "PacketNetwork",
    "PacketResult",
    "Packets",
    "Pauses",
    "PfcSettings",
    "Routes",
    "Samples",
    "Settings",
    "Traffic",
    "crossbar",
    "fat_tree",
    "leaf_spine",
    "run",
]
