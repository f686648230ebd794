"""A packet run as `result.json` holds it: one variant without a training step."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.measure.packets import Flows, packet_section

if TYPE_CHECKING:
    from railyard.scenario.packet.execute import Run
    from railyard.scenario.packet.presets import Preset
    from railyard.scenario.packet.report import Report


def result(given: Run, report: Report) -> dict[str, Any]:
    """The whole result, format railyard/1."""
    return {
        "format": "railyard/1",
        "name": f"{given.traffic.stem} on {given.preset.name}",
        "scenario": scenario(given),
        "provenance": {
            "version": version(),
            "engine": "packet",
            "seed": given.seed,
            "digest": report.digest,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "sources": _sources(given.preset),
            "left_out": list(report.left_out),
            "defaults": [],
        },
        "variants": [{"name": given.preset.name, "settings": changed(given), "packet": section(report)}],
    }


def version() -> str:
    """Railyard's."""
    return metadata.version("railyard")


def scenario(given: Run) -> dict[str, Any]:
    """What was run, complete; the number of threads is no part of it."""
    return {
        "name": f"{given.traffic.stem} {given.preset.name}",
        "traffic": str(given.traffic),
        "topology": None if given.topology is None else str(given.topology),
        "fabric": given.preset.name,
        "settings": asdict(given.settings),
        "seed": given.seed,
    }


def changed(given: Run) -> dict[str, Any]:
    """The fabric's name and the settings that are not the preset's."""
    said = {entry.name: getattr(given.settings, entry.name) for entry in fields(given.settings)}
    own = {name: value for name, value in said.items() if value != getattr(given.preset.settings, name)}
    return {"fabric": given.preset.name, **own}


def section(report: Report) -> dict[str, Any]:
    """The object `packet` of the variant."""
    flows, rows = report.flows, np.flatnonzero(report.flows.travels)
    sent = Flows(
        source=flows.source[rows],
        target=flows.target[rows],
        size_bytes=flows.size_bytes[rows],
        start_ps=report.start_ps[rows],
        finish_ps=report.finish_ps[rows],
    )
    return packet_section(
        sent,
        {**report.packets, **report.counts},
        constants=report.constants,
        left_out=report.left_out,
        probed=report.probed,
    )


def _sources(preset: Preset) -> list[dict[str, str]]:
    said = {"item": preset.name, "field": "rules and constants", "value": "", "year": "", "confidence": "published"}
    return [{**said, "source": source} for source in preset.sources]
