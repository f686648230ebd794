"""Packets of given traffic over a given network, without a model of training: what `railyard packet` runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.work.study.kind import StudyKind, kinds
from railyard.work.traffic.simulate import MeasuredTraffic, plain, run

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.work.study.tasks import Control
    from railyard.work.traffic.played import PacketReport
    from railyard.work.traffic.simulate import TrafficRun


@dataclass(frozen=True, eq=False)
class Sent:
    """Traffic that was sent."""

    traffic: TrafficRun
    report: PacketReport


def _run(traffic: TrafficRun, control: Control) -> Sent:
    def so_far(events: int, now_ps: int) -> None:
        control.progress(f"{events / 1e6:.1f} M events, {now_ps / 1e6:.1f} us", 0.0)

    return Sent(traffic, run(traffic, progress=so_far))


def _write(folder: Path, _sent: Sent, found: MeasuredTraffic) -> None:
    from railyard.work.traffic.simulate import write_files

    write_files(folder, found.report)


TRAFFIC = kinds.add(
    "traffic",
    StudyKind(
        name="traffic",
        expand=lambda traffic, _varies: ([traffic], ()),
        resolved=lambda traffic, _varies: plain(traffic),
        prepare=lambda variants, _engine: variants,
        engine=lambda _traffic: "packet",
        run=_run,
        measure=lambda sent: MeasuredTraffic(sent.traffic, sent.report),
        write=_write,
        write_inputs=lambda *_: None,
    ),
)
