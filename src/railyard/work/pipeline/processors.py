"""Stages of tools outside, which are not on the bill, and of cores of processors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from railyard.catalog import Range
from railyard.engine.stages import Cores, Tool
from railyard.measure.cost.deployment import Use
from railyard.work.pipeline.built import Built

if TYPE_CHECKING:
    from railyard.graph import Record
    from railyard.work.pipeline.built import BuiltHardware
    from railyard.work.pipeline.section import HostStage, ToolStage


def tool(name: str, section: ToolStage) -> Built:
    """Something outside.

    Raises:
        InputError: No law has its delays.
    """
    stage = Tool(name, section.delay, section.p99, section.at_most, float(section.size))
    return Built("tool", stage, (), lambda _visits, _span_s: [])


def host(section: HostStage, hardware: BuiltHardware) -> Built:
    """Cores of a server's processors."""
    stage = Cores(
        section.cores, section.per_request, section.per_input_token, section.per_output_token, hardware.nic_bps
    )
    return Built("host", stage, (hardware,), partial(_uses, hardware))


def _uses(on: BuiltHardware, visits: Record, span_s: float) -> list[Use]:
    device = on.cluster.accelerator
    busy = min(visits.meta["busy_s"] / span_s / (on.count * device.sm_count), 1.0) if span_s > 0 else 0.0
    idle, full = device.idle_power_w, device.power_w
    drawn = [
        getattr(idle, end) + busy * max(getattr(full, end) - getattr(idle, end), 0.0)
        for end in ("low", "typical", "high")
    ]
    return [Use(device, on.count, Range(*drawn), prompt=busy)]
