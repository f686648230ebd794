"""A packet run as `result.json` holds it: one variant without a training step."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph import parquet, perfetto
from railyard.measure.cost.ranges import Source

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.graph import Record
    from railyard.measure.result.network import PacketFigures
    from railyard.measure.result.variants import TrafficVariant
    from railyard.work.traffic.report import Report
    from railyard.work.traffic.simulate import TrafficRun


def write_files(folder: Path, report: Report) -> None:
    """Writes every flow as Parquet and as CSV, and a trace for Perfetto."""
    sent = report.sent
    parquet.write_record(with_figures(sent), folder / "flows.parquet")
    report.write_flows(folder / "fct.csv")
    perfetto.write(sent, folder / "trace.json.gz", link_name=report.link_name)


def with_figures(sent: Record) -> Record:
    """Flows with their numbers and completion times as columns."""
    figures: dict[str, NDArray[Any]] = {
        "flow": np.arange(1, len(sent) + 1),
        "source": sent.who,
        "finish_ps": sent.end_ps,
        "fct_ps": sent.duration_ps,
    }
    return replace(sent, optional={**sent.optional, **figures})


@dataclass(frozen=True, eq=False)
class MeasuredTraffic:
    """The one variant of a packet run.

    Attributes:
        traffic: What was run.
        report: What the engine found.
        defaults: Nothing is chosen that settings do not show.
    """

    traffic: TrafficRun
    report: Report
    defaults: tuple[str, ...] = ()

    @cached_property
    def variant(self) -> TrafficVariant:
        """The figures; made when they are first asked for, for `railyard packet` prints without them."""
        from railyard.measure.result.variants import TrafficVariant

        return TrafficVariant(
            name=self.traffic.preset.name, settings=changed(self.traffic), packet=section(self.report)
        )

    @property
    def digest(self) -> str:
        """Fingerprint of every flow's times and every count."""
        return self.report.record.digest()

    @property
    def left_out(self) -> tuple[str, ...]:
        """What engine, fabric and files leave out."""
        return self.report.left_out

    @property
    def sources(self) -> tuple[Source, ...]:
        """Of the fabric's rules and constants."""
        preset = self.traffic.preset
        return tuple(Source(preset.name, "rules and constants", "", text, "", "published") for text in preset.sources)


def plain(traffic: TrafficRun) -> dict[str, object]:
    """What was run, complete; the number of threads is no part of it."""
    return {
        "name": f"{traffic.traffic.stem} {traffic.preset.name}",
        "traffic": str(traffic.traffic),
        "topology": None if traffic.topology is None else str(traffic.topology),
        "fabric": traffic.preset.name,
        "settings": asdict(traffic.settings),
        "seed": traffic.seed,
    }


def changed(traffic: TrafficRun) -> dict[str, object]:
    """The fabric's name and the settings that are not the preset's."""
    values = {entry.name: getattr(traffic.settings, entry.name) for entry in fields(traffic.settings)}
    differing = {name: value for name, value in values.items() if value != getattr(traffic.preset.settings, name)}
    return {"fabric": traffic.preset.name, **differing}


def section(report: Report) -> PacketFigures:
    """The object `packet` of the variant."""
    from railyard.measure.network import packet_section

    meta = report.record.meta
    return packet_section(
        report.sent,
        {**report.packets, **meta["packets"]},
        constants=meta["constants"],
        left_out=report.left_out,
        probed=report.probed,
    )
