"""Fabrics by name: settings as data, each with the source of its constants. A file a family."""

from railyard.scenario.packet.presets import uec as _uec  # noqa: F401 # registers
from railyard.scenario.packet.presets.preset import PRESETS, Preset, add, fabric

__all__ = ["PRESETS", "Preset", "add", "fabric"]
