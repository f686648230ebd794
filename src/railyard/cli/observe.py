"""`railyard observe` and `railyard diagnose`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from railyard.cli.messages import say
from railyard.cli.tables import Table, emit

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = 20


def observe(path: Path, *, out: Path | None, as_json: bool) -> None:
    """Prints what traces say.

    Raises:
        InputError: Nothing at the path can be read.
    """
    from railyard.graph.parquet import write_record
    from railyard.observe.figures import observed

    record, figures = observed(path)
    if out is not None:
        write_record(record, out)
        say(f"wrote {out}")
    if as_json:
        emit(json.dumps(figures, ensure_ascii=False, allow_nan=False))
        return
    for words in figures["warnings"]:
        say(words)
    _ranks(figures)
    if figures["communicators"]:
        emit("")
        _communicators(figures)
    if figures["collectives"]:
        emit("")
        _collectives(figures)
    if figures["stragglers"]:
        emit("")
        _stragglers(figures)


def _ranks(figures: dict[str, Any]) -> None:
    from railyard.api import numbers

    heads = ("rank", "utilization", "exposed communication", "idle", "clock ahead", "to within")
    table = Table(heads, range(1, len(heads)), turn=True)
    for one in figures["ranks"][:SHOWN]:
        clock = figures["clocks"].get(str(one["rank"]), {"ahead_ns": 0, "error_ns": -1})
        known = clock["error_ns"] >= 0
        table.add(
            str(one["rank"]),
            *(numbers.percent(one[key]) for key in ("utilization", "exposed", "idle")),
            numbers.seconds(clock["ahead_ns"] * 1e-9) if known else "",
            numbers.seconds(clock["error_ns"] * 1e-9) if known else "",
        )
    table.print()
    if len(figures["ranks"]) > SHOWN:
        emit(f"and {len(figures['ranks']) - SHOWN} more ranks")


def _communicators(figures: dict[str, Any]) -> None:
    from railyard.api import numbers

    table = Table(("communicator", "members", "exposed", "of which"), (1, 2))
    for one in figures["communicators"]:
        causes = ", ".join(f"{cause} {numbers.percent(share)}" for cause, share in one.get("causes", {}).items())
        table.add(one["name"], str(len(one.get("ranks", ())) or ""), numbers.percent(one["exposed"]), causes)
    table.print()


def _collectives(figures: dict[str, Any]) -> None:
    from railyard.api import numbers

    heads = ("collective", "communicator", "members", "bytes", "count", "median", "busbw GB/s")
    table = Table(heads, (2, 3, 4, 5, 6), turn=True)
    for one in figures["collectives"][:SHOWN]:
        busbw = one["busbw_bps"]
        table.add(
            one["kind"],
            one["communicator"],
            str(one["members"]),
            f"{one['size_bytes']:,}" if one["size_bytes"] else "unknown",
            f"{one['count']:,}",
            numbers.seconds(one["median_s"]),
            "" if busbw is None else f"{busbw / 8e9:.3g}",
        )
    table.print()


def _stragglers(figures: dict[str, Any]) -> None:
    from railyard.api import numbers

    table = Table(("late rank", "of collectives", "others waited, in all"), (0, 1, 2))
    for one in figures["stragglers"][:SHOWN]:
        table.add(str(one["rank"]), str(one["collectives"]), numbers.seconds(one["late_s"]))
    table.print()


def diagnose(path: Path, *, cluster: Path | None, as_json: bool) -> None:
    """Prints what is wrong.

    Raises:
        InputError: Nothing at the path can be read, or the cluster's file is wrong.
    """
    from railyard.observe.diagnose import diagnose as diagnosed

    answer = diagnosed(path, cluster)
    for words in answer.notes:
        say(words)
    if as_json:
        emit(json.dumps(answer.plain(), ensure_ascii=False, allow_nan=False))
        return
    if answer.what_if:
        emit(f"S {answer.what_if['S']:.4f}")
    if not answer.verdict:
        emit("something is wrong; I do not know which part" if answer.unknown else "nothing is wrong")
        return
    table = Table(("part", "kind", "confidence", "$/h", "evidence"), (2, 3))
    for suspect in answer.verdict:
        usd = "" if suspect.usd_per_hour is None else f"{suspect.usd_per_hour:,.0f}"
        table.add(suspect.part, suspect.kind, f"{suspect.confidence:.0%}", usd, suspect.evidence)
    table.print()
    if answer.unknown:
        emit("something else is wrong; I do not know which part")
