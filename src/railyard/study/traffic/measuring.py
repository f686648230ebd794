"""A packet run as `result.json` holds it: one variant without a training step."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from railyard.economics.sources import Source
from railyard.measure.packets import packet_section

if TYPE_CHECKING:
    from railyard.scenario.packet.preset import Preset
    from railyard.study.traffic.report import Report
    from railyard.study.traffic.simulate import Run


@dataclass(frozen=True, eq=False)
class Measured:
    """The one variant of a packet run.

    Attributes:
        report: What the engine found.
        variant: As it stands in `result.json`.
        digest: Fingerprint of every flow's times and every count.
        sources: Of the fabric's rules and constants.
        left_out: What engine, fabric and files leave out.
        defaults: Nothing is chosen that settings do not show.
    """

    report: Report
    variant: dict[str, Any]
    digest: str
    sources: tuple[Source, ...]
    left_out: tuple[str, ...]
    defaults: tuple[str, ...] = ()


def measure(traffic: Run, report: Report) -> Measured:
    """The figures of a run."""
    variant = {"name": traffic.preset.name, "settings": changed(traffic), "packet": section(report)}
    return Measured(report, variant, report.record.digest(), _sources(traffic.preset), report.left_out)


def plain(traffic: Run) -> dict[str, Any]:
    """What was run, complete; the number of threads is no part of it."""
    return {
        "name": f"{traffic.traffic.stem} {traffic.preset.name}",
        "traffic": str(traffic.traffic),
        "topology": None if traffic.topology is None else str(traffic.topology),
        "fabric": traffic.preset.name,
        "settings": asdict(traffic.settings),
        "seed": traffic.seed,
    }


def changed(traffic: Run) -> dict[str, Any]:
    """The fabric's name and the settings that are not the preset's."""
    values = {entry.name: getattr(traffic.settings, entry.name) for entry in fields(traffic.settings)}
    differing = {name: value for name, value in values.items() if value != getattr(traffic.preset.settings, name)}
    return {"fabric": traffic.preset.name, **differing}


def section(report: Report) -> dict[str, Any]:
    """The object `packet` of the variant."""
    meta = report.record.meta
    return packet_section(
        report.sent,
        {**report.packets, **meta["packets"]},
        constants=meta["constants"],
        left_out=report.left_out,
        probed=report.probed,
    )


def _sources(preset: Preset) -> tuple[Source, ...]:
    return tuple(Source(preset.name, "rules and constants", "", text, "", "published") for text in preset.sources)
