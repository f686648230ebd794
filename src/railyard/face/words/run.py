"""Prints results of runs of any kind, and of `railyard packet`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from railyard.face.terminal import Table, emit, print_parts, wrapped
from railyard.kit.errors import InputError
from railyard.work.scenario.packet import assign
from railyard.work.study.presentation import presentation_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.face import api
    from railyard.measure.result.reading import Result
    from railyard.work.scenario.packet.settings import PacketSettings
    from railyard.work.traffic.played import PacketReport


_NOTES = 2
"""Notes that are printed without `--details`."""
_FAILED = 3
"""Variants that failed and are named."""


def early(finished: api.Run) -> str:
    """Progress of a run that a signal stopped."""
    failed, there = finished.result.failed or (), finished.result.variants
    total = len(failed) + len(there)
    cuts = {one.name: getattr(one, "stopped", None) for one in there}
    cut = "; ".join(f"{name} was stopped {where}" for name, where in cuts.items() if where)
    return f"{cut or f'{len(there)} of {total} variants had ended'}; the same command continues from here"


def failures(finished: api.Run) -> str:
    """Variants that failed, in a sentence; empty where all did."""
    failed = finished.result.failed or ()
    said = "; ".join(f"{one.name}: {one.error}" for one in failed[:_FAILED])
    total = len(failed) + len(finished.result.variants)
    return f"{len(failed)} of {total} variants failed: {said}" if failed else ""


def show(finished: api.Run, *, quiet: bool, details: bool) -> None:
    """The comparison, the reasons for its verdict, notes, and where the report is.

    Args:
        finished: The run.
        quiet: Whether only tables are printed.
        details: Whether all columns and tables are.
    """
    from railyard.work.study import believed  # `railyard packet` does without

    result, shown = finished.result, presentation_of(finished.result)
    _tables(result, details=details)
    if not quiet:
        notes = shown.notes(result)
        hidden = 0 if details else len(notes) - _NOTES
        more = [f"note: {hidden} more with --details and in the report"] if hidden > 1 else []
        missing = [f"left out: {line}" for line in believed.left_out(result)]
        lines = [*missing, *shown.why(result), *(notes[:_NOTES] if more else notes), *more]
        emit("\n".join(["", *map(wrapped, lines), "", f"report: {finished.report_path}"]))


def first_line(finished: api.Run) -> str:
    """The answer in one sentence."""
    return presentation_of(finished.result).verdict(finished.result)


def _tables(result: Result, *, details: bool) -> None:
    """The comparison, and with `details` the other tables of the result."""
    from railyard.work.study import believed  # `railyard packet` does without

    shown = presentation_of(result)
    more = [*believed.differences(result), *shown.details(result)] if details else []
    sheets = [*shown.sheets(result), *more]
    for number, sheet in enumerate(sheets):
        print_parts(["", sheet] if number else [sheet])


_SHOWN = 3


def settings_of(base: PacketSettings, link_rate: str | None, sets: Sequence[str]) -> PacketSettings:
    """The settings with those of options in them.

    Raises:
        InputError: A setting is wrong; names the option and its key.
    """
    rate = [] if link_rate is None else [f"link_rate={link_rate}"]
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


def packet_notes(report: PacketReport) -> list[str]:
    """Flows that did not finish, and the one that others slow most."""
    from railyard.work.traffic.slowed import slowed_sentence

    slowed = slowed_sentence(report.played)
    return [*unfinished(report), *([] if slowed is None else [slowed])]


def unfinished(report: PacketReport) -> list[str]:
    """Flows that did not finish."""
    never, found = report.never, []
    if never:
        lines = ", ".join(map(str, never[:_SHOWN])) + (", ..." if len(never) > _SHOWN else "")
        found.append(f"{len(never)} flows wait for events that never happen (lines {lines})")
    left = report.total - len(never) - int(report.ended.sum())
    return [*found, f"{left} flows had not finished when the run ended"] if left else found


def flows_sentence(report: PacketReport) -> str:
    """How many flows ended, and when."""
    found = report.to_dict()
    last, middle = found["last_finish_us"], found["fct_us"]["p50"]
    if last is None:
        return f"None of {found['flows']:,} flows finished."
    dropped, lost = found["packets"]["dropped"], report.record.meta["packets"]["lost"]
    ended, flows = found["finished"], found["flows"]
    of = f"All {flows:,}" if ended == flows else f"{ended:,} of {flows:,}"
    packets = f"{dropped:,} packets were dropped" if dropped else "no packet was dropped"
    packets += f", {lost:,} lost on links or without a route" if lost else ""
    return f"{of} flows finished, the last after {last:,.2f} us; the median flow took {middle:,.2f} us; {packets}."


def show_packets(report: PacketReport, *, details: bool) -> None:
    """Flow completion times and packets; with `details` the cost of the run and what is not modelled."""
    found = report.to_dict()
    table = Table(("", "min", "mean", "p50", "p99", "max"), right=(1, 2, 3, 4, 5))
    times = found["fct_us"].values()
    table.add("flow completion, us", *("-" if time is None else f"{time:.2f}" for time in times))
    table.print()
    tree = report.tree
    kind = f"{len(tree.tiers)}-tier fat tree of" if tree.aggs else "one switch for"
    emit(f"\nnetwork   {kind} {tree.hosts} hosts, {tree.tiers[0].rate_bps / 1e9:g} Gb/s each")
    emit("packets   " + ", ".join(f"{number} {kind}" for kind, number in found["packets"].items()))
    if not details:
        return
    emit(f"run       {found['events']} events, {found['cpu_s']:.3f} s of processor, {found['peak_rss_mb']:.0f} MB")
    repeats = found["repeats"]
    if repeats["repeated"]:
        share, known = repeats["hops"] / report.record.meta["packets"]["hops"], repeats["checked"] + repeats["repeated"]
        checked = (
            f"{repeats['checked']} of {known} repeats were simulated; they differ by {repeats['worst_ps']} ps at most"
        )
        emit(f"repeats   {100 * share:.1f} % of hops were not simulated again; {checked}")
    emit(f"digest    {found['digest']}")
    for text in report.left_out:
        emit(f"not modelled: {text}")
