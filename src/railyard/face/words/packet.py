"""`railyard packet`: packets of given traffic over a given network, without a model of training."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from railyard.face.terminal import Progress, Table, emit, say
from railyard.kit.errors import InputError
from railyard.work.scenario.packet import assign, chosen
from railyard.work.study import study
from railyard.work.traffic.simulate import TrafficRun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.measure.result.reading import Result
    from railyard.work.scenario.packet.settings import PacketSettings
    from railyard.work.traffic.played import PacketReport

_SHOWN = 3


def packet(
    traffic: Path,
    *,
    topology: Path | None,
    name: str,
    trust: bool,
    sets: Sequence[str],
    link_rate: str | None,
    seed: int,
    threads: int,
    faults: Path | None,
    flows_to: Path | None,
    report_to: Path | None,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Runs the traffic and prints what came of it.

    Raises:
        InputError: A file, a name or a setting is wrong.
    """
    preset = chosen(name, trust=trust)
    rate = [] if link_rate is None else [f"link_rate={link_rate}"]
    settings = _settings(preset.settings, rate, sets)
    given = TrafficRun(
        traffic, topology, preset, settings, seed=seed, threads=threads, probe=bool(report_to or out), faults=faults
    )
    with Progress(wanted=not quiet) as shown:
        finished = study.run(given, out=out, faces=[_page], progress=shown)
    report: PacketReport = finished.measured[0].report
    if flows_to is not None:
        report.write_flows(flows_to)
    written = [] if report_to is None else [_write_page(finished.result, report_to)]
    written += [] if finished.folder is None else [finished.folder]
    if not quiet:
        _warn(report)
    if as_json:
        emit(report.to_json())
    else:
        _show(report)
    if not quiet:
        for path in written:
            say(f"wrote {path}")


def _settings(base: PacketSettings, rate: Sequence[str], sets: Sequence[str]) -> PacketSettings:
    """The settings with those of options in them; errors name the option and its key."""
    try:
        return assign(base, [*rate, *sets])
    except InputError as error:
        by_option = "--link-rate" if rate and not any(text.startswith("link_rate") for text in sets) else ""
        named = [
            replace(one, key=by_option if by_option and one.key == "link_rate" else f"--set {one.key}")
            for one in error.problems
            if one.key != "--set"
        ]
        raise InputError.many([*(one for one in error.problems if one.key == "--set"), *named]) from None


def _page(result: Result, folder: Path) -> None:
    """The report in the folder of the run."""
    from railyard.face.report import write_report

    write_report(result, folder / "report.html")


def _write_page(result: Result, path: Path) -> Path:
    """The report by itself.

    Raises:
        InputError: It cannot be written.
    """
    from railyard.face.report import write_report

    try:
        write_report(result, path)
    except InputError as error:
        raise error.located(key="--report") from None
    return path


def _warn(report: PacketReport) -> None:
    never = report.never
    if never:
        lines = ", ".join(map(str, never[:_SHOWN])) + (", ..." if len(never) > _SHOWN else "")
        say(f"{len(never)} flows wait for what never happens (lines {lines})", "yellow")
    left = report.total - len(never) - int(report.ended.sum())
    if left:
        say(f"{left} flows had not finished when the run ended", "yellow")


def _show(report: PacketReport) -> None:
    found = report.to_dict()
    table = Table(("", "min", "mean", "p50", "p99", "max"), right=(1, 2, 3, 4, 5))
    times = found["fct_us"].values()
    table.add("flow completion, us", *("-" if time is None else f"{time:.2f}" for time in times))
    table.print()
    last = "-" if found["last_finish_us"] is None else f"{found['last_finish_us']:.2f} us"
    emit(f"\nflows     {found['finished']} of {found['flows']} finished, the last at {last}")
    emit("packets   " + ", ".join(f"{number} {kind}" for kind, number in found["packets"].items()))
    emit(f"run       {found['events']} events, {found['cpu_s']:.3f} s of processor, {found['peak_rss_mb']:.0f} MB")
    emit(f"digest    {found['digest']}")
    for text in report.left_out:
        emit(f"left out  {text}")
