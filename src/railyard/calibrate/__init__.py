"""Measuring the accelerator at hand, and writing what was read as entries of a catalogue file."""

from railyard.calibrate.calibration import Calibration, calibrate
from railyard.calibrate.device import Device, Facts
from railyard.calibrate.overlay import overlay, write

__all__ = ["Calibration", "Device", "Facts", "calibrate", "overlay", "write"]
