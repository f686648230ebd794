"""The packet engine: every packet, every queue. See `docs/concepts/packet.md`."""

from railyard.engine.packet.faults import Fault
from railyard.engine.packet.networks import crossbar, fat_tree, leaf_spine
from railyard.engine.packet.pfc import PFC_KEYS, PfcSettings
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
from railyard.engine.packet.running import Packets, run
from railyard.engine.packet.user import (
    GOOD,
    MARKED,
    TIMEOUT,
    TRIMMED,
    UserBalancer,
    UserControl,
    balancer,
    control,
    signature,
)

__all__ = [
    "AT_RECEIVER",
    "AT_SENDER",
    "CONGESTION_CONTROLS",
    "GOOD",
    "LOAD_BALANCINGS",
    "MARKED",
    "PFC_KEYS",
    "SWITCHINGS",
    "TIMEOUT",
    "TRANSPORTS",
    "TRIMMED",
    "Fault",
    "PacketNetwork",
    "Packets",
    "PfcSettings",
    "Routes",
    "Settings",
    "Traffic",
    "UserBalancer",
    "UserControl",
    "balancer",
    "control",
    "crossbar",
    "fat_tree",
    "leaf_spine",
    "run",
    "signature",
]
