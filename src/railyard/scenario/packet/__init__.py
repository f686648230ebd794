"""Settings of packet-level runs: fabrics by name, mixes of their mechanisms, values as users write them."""

from railyard.scenario.packet.mix import chosen
from railyard.scenario.packet.presets import PRESETS, Preset, fabric
from railyard.scenario.packet.settings import Settings, assign

__all__ = ["PRESETS", "Preset", "Settings", "assign", "chosen", "fabric"]
