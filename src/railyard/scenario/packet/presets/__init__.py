"""Fabrics by name: settings as data, each with the source of its constants. A file a family."""

from railyard.scenario.packet.presets import hpcc as _hpcc  # noqa: F401 # each registers its own
from railyard.scenario.packet.presets import infiniband as _infiniband  # noqa: F401
from railyard.scenario.packet.presets import pulled as _pulled  # noqa: F401
from railyard.scenario.packet.presets import roce as _roce  # noqa: F401
from railyard.scenario.packet.presets import scheduled as _scheduled  # noqa: F401
from railyard.scenario.packet.presets import spectrum_x as _spectrum_x  # noqa: F401
from railyard.scenario.packet.presets import swift as _swift  # noqa: F401
from railyard.scenario.packet.presets import uec as _uec  # noqa: F401
from railyard.scenario.packet.presets.preset import PRESETS, Preset, add, fabric

__all__ = ["PRESETS", "Preset", "add", "fabric"]
