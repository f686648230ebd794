"""Settings of packet-level runs: fabrics by name, mixes of their mechanisms, values as users write them."""

from railyard.scenario.packet.mix import chosen
from railyard.scenario.packet.preset import Preset, fabric, names
from railyard.scenario.packet.settings import Settings, assign

__all__ = ["Preset", "Settings", "assign", "chosen", "fabric", "names"]
