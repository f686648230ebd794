"""Measuring the accelerator at hand, and writing what was read as entries of a catalogue file."""

from railyard.ask.calibrate.calibration import Calibration, calibrate
from railyard.ask.calibrate.device import Device, Facts
from railyard.ask.calibrate.overlay import overlay, write

__all__ = ["Calibration", "Device", "Facts", "calibrate", "overlay", "write"]
