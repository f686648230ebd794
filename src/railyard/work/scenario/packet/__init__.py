"""Settings of packet-level runs: fabrics by name, mixes of their mechanisms, values as users write them."""

from railyard.work.scenario.packet.mix import chosen
from railyard.work.scenario.packet.settings import PacketSettings, Preset, assign, fabric, names, setting

__all__ = ["PacketSettings", "Preset", "assign", "chosen", "fabric", "names", "setting"]
