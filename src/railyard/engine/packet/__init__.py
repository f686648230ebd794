"""The packet engine: every packet, every queue. See `docs/explanation/packet.md`."""

from railyard.kit import lazily

with lazily(globals()):
    from railyard.engine.packet.fabrics import TUNABLE, Period, Retuning
    from railyard.engine.packet.faults import LinkFault
    from railyard.engine.packet.mechanisms import CONSTANTS, MECHANISMS, Mechanism, MechanismField, names_of
    from railyard.engine.packet.networks import crossbar, fat_tree, leaf_spine
    from railyard.engine.packet.records import (
        AT_RECEIVER,
        AT_SENDER,
        PacketNetwork,
        Traffic,
    )
    from railyard.engine.packet.running import run
    from railyard.engine.packet.settings import Settings
    from railyard.engine.packet.user import (
        GOOD,
        MARKED,
        TIMEOUT,
        TRIMMED,
        UserBalancer,
        UserControl,
        balancer,
        balancers,
        control,
        controls,
        signature,
    )

__all__ = [
    "AT_RECEIVER",
    "AT_SENDER",
    "CONSTANTS",
    "GOOD",
    "MARKED",
    "MECHANISMS",
    "TIMEOUT",
    "TRIMMED",
    "TUNABLE",
    "LinkFault",
    "Mechanism",
    "MechanismField",
    "PacketNetwork",
    "Period",
    "Retuning",
    "Settings",
    "Traffic",
    "UserBalancer",
    "UserControl",
    "balancer",
    "balancers",
    "control",
    "controls",
    "crossbar",
    "fat_tree",
    "leaf_spine",
    "names_of",
    "run",
    "signature",
]
