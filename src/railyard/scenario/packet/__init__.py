"""Packet-level runs of given traffic over a given network, without a model of training: what `railyard packet` does."""

from railyard.scenario.packet.execute import Run, run
from railyard.scenario.packet.mix import chosen
from railyard.scenario.packet.presets import PRESETS, Preset, fabric
from railyard.scenario.packet.report import Report, quantile
from railyard.scenario.packet.settings import Settings, assign

__all__ = ["PRESETS", "Preset", "Report", "Run", "Settings", "assign", "chosen", "fabric", "quantile", "run"]
