"""`railyard validate`: predicted against measured."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from railyard import catalog
from railyard.face.terminal import Progress, Table, emit
from railyard.face.verbs.calibrate import runs_sentence, runs_table
from railyard.kit.errors import InputError, Problem, RailyardError
from railyard.kit.files import write_text
from railyard.measure.numbers import percent, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from railyard_validation.collectives.compare import CollectivesReport
    from railyard_validation.training.compare import TrainingReport

_REASONS = 8
_HEADINGS = ("", "rows", "mean |error|", "median |error|", "p90 |error|")


def training(table: Path, *, leave_out: str | None, page: Path | None, as_json: bool) -> None:
    """Every measured training step of a table.

    Raises:
        InputError: The table cannot be read, or some of its rows are wrong (after all others have been printed).
        RailyardError: No row of it could be predicted.
    """
    from railyard_validation import page as pages
    from railyard_validation.training.compare import validate_training

    if page is not None:
        pages.check(page)
    report = validate_training(table, catalog.load(), leave_out=leave_out)
    if page is not None:
        pages.write(pages.of_training(report), page)
    if as_json:
        emit(report.to_json())
    else:
        totals = [("tier A, and Megatron-Bridge", report.judged()), ("all", report.summary())]
        emit(_headline("training steps", report.summary()))
        _errors([*report.sources().items(), *totals])
        _spread(report)
        _skipped(row.reason for row in report.rows if row.status == "skipped")
    _ended(report, table)


def _ended(report: TrainingReport, table: Path) -> None:
    """Names the wrong rows, each with its line, after all others have been printed."""
    wrong = [row for row in report.rows if row.bad]
    if wrong:
        raise InputError.many([Problem(row.reason, file=str(table), line=row.line) for row in wrong])
    if not report.summary()["n"]:
        raise RailyardError(f"no row of {table} could be predicted, so nothing has been validated")


def _spread(report: TrainingReport) -> None:
    """One line on p95/p50 of steps, and a table of the fixed parts that two runs of a family give."""
    tails = report.tails()
    if tails["n"]:
        within = f"{tails['within_target']} of {tails['n']} rows within {tails['target']:g}"
        emit(f"\np95/p50 of steps: {within}, mean |error| {tails['mean_abs_error']:.4f}")
    if not report.fixed:
        return
    emit("\nfixed part of a step (two runs of a family, its line over micro-batches):")
    table = Table(("runs", "model", "ranks", "step", "measured", "predicted", "error"), right=(2, 3, 4, 5, 6))
    for part in report.fixed:
        shown = [seconds(value) for value in (part.step_s, part.fixed_s, part.predicted_fixed_s)]
        table.add(f"{part.many}, {part.few}", part.model, str(part.ranks), *shown, f"{100 * part.error:+.1f} %")
    table.print()


def memory(table: Path, *, page: Path | None, as_json: bool) -> None:
    """Every published peak of memory of a table.

    Raises:
        InputError: The table cannot be read, has no published peak, or some of its rows are wrong (after all others
            have been printed).
        RailyardError: No row of it could be predicted.
    """
    from railyard_validation import page as pages
    from railyard_validation.training.memory import validate_memory

    if page is not None:
        pages.check(page)
    report = validate_memory(table, catalog.load())
    if page is not None:
        pages.write(pages.of_training(report), page)
    if as_json:
        emit(report.to_json())
    else:
        emit(_headline("peaks of memory", report.summary()))
        _errors([*report.sources().items(), ("all", report.summary())])
        _skipped(row.reason for row in report.rows if row.status == "skipped")
    _ended(report, table)


def serving(table: Path, *, metric: str, page: Path | None, as_json: bool) -> None:
    """Every measured serving row of a table, by one metric.

    Raises:
        InputError: The table cannot be read, or there is no such metric.
        RailyardError: No row of it could be predicted.
    """
    from railyard_validation import page as pages
    from railyard_validation.serving.compare import validate_serving

    report = validate_serving(table, catalog.load(), metric=metric)
    if page is not None:
        pages.write(pages.of_serving(report), page)
    total = report.summary()
    if as_json:
        emit(report.to_json())
    else:
        emit(_headline(f"values of {metric}", total))
        _errors([*report.sources().items(), ("all", total)])
        if total["coverage"] is not None:
            emit(
                f"\n{metric}: {percent(float(total['coverage']))} of the measurements covered, "
                f"{total['duplicates']} rows repeat another row's"
            )
        _skipped(row.reason for row in report.rows if row.status == "skipped")
    if not total["n"]:
        raise RailyardError(f"no row of {table} could be predicted, so nothing has been validated")


def serving_runs(folder: Path, *, profiles: Path | None, page: Path | None, as_json: bool) -> None:
    """Every recorded run of a folder, by the distributions over its requests.

    Raises:
        InputError: There is no run, or a record or the profiles cannot be read.
        RailyardError: No run of it could be replayed.
    """
    from railyard.ask.calibrate.recorded_fit import validate_runs
    from railyard.work.serving.software import read_profiles
    from railyard_validation import page as pages
    from railyard_validation.serving.runs_page import of_serving_runs

    if page is not None:
        pages.check(page)
    own = None if profiles is None else read_profiles(profiles)
    report = validate_runs(folder, catalog.load(), profiles=own)
    if page is not None:
        pages.write(of_serving_runs(report), page)
    if as_json:
        emit(report.to_json())
    else:
        emit(f"{runs_sentence(report)}\n")
        runs_table(report)
        _skipped(row.reason for row in report.rows if row.status == "skipped")
    if not report.summary()["n"]:
        raise RailyardError(f"no run of {folder} could be replayed, so nothing has been validated")


def collectives(logs: Path, *, page: Path | None, as_json: bool) -> None:
    """Every measured collective of a folder of logs.

    Raises:
        InputError: The folder is missing or holds no log, or some lines are wrong (after all others have been printed).
        RailyardError: Nothing of it could be predicted.
    """
    from railyard_validation import page as pages
    from railyard_validation.collectives.compare import validate_collectives

    if page is not None:
        pages.check(page)
    report = validate_collectives(logs, catalog.load())
    if page is not None:
        pages.write(pages.of_collectives(report), page)
    if as_json:
        emit(json.dumps(report.to_json(), indent=1, allow_nan=False))
    else:
        _collective_tables(report)
    wrong = [row for row in report.rows if row.bad]
    if wrong:
        raise InputError.many([Problem(row.reason, file=row.log, line=row.line) for row in wrong])
    if not report.summary()["n"]:
        raise RailyardError(f"nothing in {logs} could be predicted, so nothing has been validated")


def _collective_tables(report: CollectivesReport) -> None:
    """Errors by log, by class of launch and in all, logs that are set apart, and what was skipped."""
    summary = report.summary()
    for key, what in _CLASSES.items():
        emit(_headline(f"collectives ({what}, healthy logs)", summary["healthy"][key]).rstrip("\n"))
    emit("")
    parts = [*summary["by_log"].items(), *((f"healthy, {name}", each) for name, each in summary["by_launch"].items())]
    rows = [(f"{name}: {what}", errors[key]) for name, errors in parts for key, what in _CLASSES.items()]
    totals = [("healthy logs", summary["healthy"]), ("all", summary)]
    rows += [(f"{name}: {what}", errors[key]) for name, errors in totals for key, what in _CLASSES.items()]
    _errors(row for row in rows if row[1]["n"])
    apart = dict.fromkeys((row.log, row.odd) for row in report.rows if row.odd)
    if apart:
        emit("\nnot counted as healthy:")
        for log, reason in apart:
            emit(f"  {log}: {reason}")
    _skipped(row.reason for row in report.rows if row.status == "skipped")


_CLASSES = {"busbw_from_1_mib": "busbw from 1 MiB", "time_below_1_mib": "time below 1 MiB"}


def _headline(what: str, errors: Mapping[str, Any]) -> str:
    """Mean and median error, in one sentence with an empty line below."""
    mean, middle = (percent(errors[key]) for key in ("mean_abs_error", "median_abs_error"))
    return f"Mean error {mean}, median {middle}, over {errors['n']:,} measured {what}.\n"


def _errors(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    table = Table(_HEADINGS, right=(1, 2, 3, 4))
    for name, errors in rows:
        spread = (errors["mean_abs_error"], errors["median_abs_error"], errors["p90_abs_error"])
        table.add(name, str(errors["n"]), *(percent(value) for value in spread))
    table.print()


def _skipped(reasons: Iterable[str]) -> None:
    counted = Counter(re.sub(r"^line \d+: ", "", reason) for reason in reasons)
    if not counted:
        return
    emit(f"\n{counted.total()} row{'s' if counted.total() > 1 else ''} skipped:")
    for reason, times in counted.most_common(_REASONS):
        emit(f"  {times:5d}  {reason}")
    if len(counted) > _REASONS:
        emit(f"         and reasons of other kinds: {len(counted) - _REASONS} (`--json` lists every row)")


def fabric(figures: Sequence[str], *, as_json: bool) -> None:
    """Published figures of fabrics.

    Raises:
        InputError: There is no such figure.
    """
    from railyard_validation.fabric import FIGURES, validate_fabric

    with Progress(wanted=not as_json) as progress:
        report = validate_fabric(figures, progress=progress)
    if as_json:
        emit(json.dumps(report.to_dict(), indent=1, allow_nan=False))
        return
    counts = report.counts()
    emit(f"{counts['ok']} of {counts['ok'] + counts['off']} rows agree with the published figures.\n")
    headings = ("", "case", "expected", "found", "unit", "tolerance", "engine", "status", "note")
    table = Table(headings, right=(3,))
    for row in report.rows:
        found = "-" if row.found is None else f"{row.found:.1f}"
        table.add(row.figure, row.case, row.expected, found, row.unit, row.tolerance, row.engine, row.status, row.note)
    table.print()
    emit("")
    for name in dict.fromkeys(row.figure for row in report.rows):
        emit(f"{name:4s} {FIGURES[name].claim} ({FIGURES[name].source})")


def bills(table: Path, *, as_json: bool) -> None:
    """Published bills of materials, item by item.

    Raises:
        InputError: The table or a scenario in it is wrong.
    """
    from railyard_validation.bills import compare

    found = compare(table)
    if as_json:
        rows = [{**asdict(one), "difference": one.difference} for one in found]
        emit(json.dumps({"items": rows}, indent=1, allow_nan=False))
        return
    equal = sum(one.difference == 0 for one in found)
    emit(f"{equal} of {len(found)} items are equal to the published bills.\n")
    shown = Table(("table", "case", "item", "published", "ours", "difference", "cause"), right=(3, 4, 5))
    for one in found:
        ours = "" if one.ours is None else f"{one.ours:,g}"
        shown.add(one.table, one.case, one.item, f"{one.published:,g}", ours, f"{one.difference:+,g}", one.cause)
    shown.print()


GROUPS = {
    "compared": "Published finishes that a schedule can have",
    "rounded": "Below the bound by latencies that their epochs round away",
    "unexplained": "Below what the links carry, and not explained: no part of any mean",
}
"""What rows of `synthesis` are, and their headings."""


def synthesis(*, as_json: bool) -> None:
    """Synthesized collectives next to TE-CCL's; rows that no schedule can reach are listed separately."""
    from railyard_validation.synthesis import compared, published

    with Progress(wanted=not as_json) as progress:
        found = compared(published(), progress)
    if as_json:
        emit(json.dumps({group: [asdict(one) for one in found if one.group == group] for group in GROUPS}, indent=1))
        return
    published_rows = [one for one in found if one.group == "compared"]
    better = sum(one.finish_us <= one.published_us * (1 + 1e-9) for one in published_rows)
    emit(
        f"Our schedules are as fast or faster in {better} of {len(published_rows)} published cases; all are correct.\n"
    )
    for group, heading in GROUPS.items():
        rows = [one for one in found if one.group == group]
        heads = (
            "network",
            "collective",
            "size of a rank",
            "bytes a pair",
            "published us",
            "ours us",
            "bound us",
            "ours",
        )
        table = Table(heads, right=(3, 4, 5, 6, 7))
        for one in rows:
            times = (f"{time:,.4g}" for time in (one.published_us, one.finish_us, one.lower_bound_us))
            over = f"{one.finish_us / one.published_us - 1:+.1%}"
            name = f"{one.topology} x{one.chassis}"
            table.add(name, one.collective, one.size, f"{one.pair_bytes:,.0f}", *times, over)
        emit(f"{heading}: {len(rows)}")
        table.print()


def htsim(folder: Path, *, only: str, seeds: int, as_json: bool) -> None:
    """Every recorded run of htsim.

    Raises:
        InputError: The folder or a table cannot be read.
    """
    from railyard_validation.packet.htsim import validate_htsim

    with Progress(wanted=not as_json) as progress:
        report = validate_htsim(folder, only=only, seeds=seeds, progress=progress)
    if as_json:
        emit(json.dumps(report.to_dict(), indent=1, allow_nan=False))
        return
    counts = report.counts()
    emit(f"{counts['ok']} of {counts['ok'] + counts['off']} figures agree with htsim.\n")
    table = Table(("run", "figure", "htsim", "found", "range", "error", "tolerance", "status"), right=(2, 3, 4, 5, 6))
    for row in report.rows:
        if row.status == "skipped":
            continue
        expected, found, low, high = (
            "" if value is None else f"{value:.2f}" for value in (row.expected, row.found, row.low, row.high)
        )
        spread = f"{low}..{high}" if row.seeds > 1 else ""
        allowed = row.reason or (percent(row.tolerance) if row.tolerance is not None else "in range")
        table.add(row.name, row.figure, expected, found, spread, percent(row.error), allowed, row.status)
    table.print()
    _skipped(row.reason for row in report.rows if row.status == "skipped")


def faults(only: str, *, page: Path | None, as_json: bool) -> None:
    """Comparisons under faults.

    Raises:
        InputError: No kind of fault has such a name.
    """
    from railyard_validation import faults as under

    if not any(only in kind for kind in under.KINDS):
        raise InputError("no kind of fault has such a name", key="only", found=only, allowed=list(under.KINDS))
    with Progress(wanted=not as_json) as progress:
        rows = under.compared(only, progress=progress)
    if page is not None:
        write_text(page, under.page(rows))
    if as_json:
        emit(json.dumps([asdict(row) for row in rows], indent=1, allow_nan=False))
        return
    emit(f"{sum(not row.problems for row in rows)} of {len(rows)} rows lie within their bounds.\n")
    table = Table(("GPUs", "fault", "fabric", "place: with it (bounds); links hit"), right=(0,))
    for row in rows:
        table.add(str(row.accelerators), row.fault, row.fabric, under.cell(row))
    table.print()


def trials(only: str, *, variants: int, seed: int, folder: Path | None, ray: str | None, as_json: bool) -> None:
    """Random variants of questions that were once answered wrongly.

    Raises:
        InputError: No trial has such a name.
    """
    import tempfile

    from railyard.work.study.workers import every, workers
    from railyard_validation.trials.trial import NAMED
    from railyard_validation.trials.trial import trials as known

    chosen = [name for name in known.names() if only in name]
    if not chosen:
        raise InputError("no trial has such a name", key="only", found=only, allowed=known.names())
    with Progress(wanted=not as_json) as progress, tempfile.TemporaryDirectory() as lent:
        given = {"seed": seed, "folder": str(folder or lent)}
        tasks = [{**given, "trial": name, "number": number} for name in chosen for number in range(variants)]
        rows = every(workers(ray), NAMED, tasks, progress)
    if as_json:
        emit(json.dumps([asdict(row) for row in rows], indent=1))
        return
    emit(f"{sum(not row.problems for row in rows)} of {len(rows)} variants give the right answer.\n")
    table = Table(("trial", "variant", "problems"))
    for row in rows:
        table.add(f"{row.trial} {row.number}", row.words, "; ".join(row.problems) or "none")
    table.print()


def diagnosis(count: int, *, seed: int, noise: float, folder: Path | None, ray: str | None, as_json: bool) -> None:
    """Precision, recall and calibration of the diagnosis of traces."""
    import tempfile

    from railyard.work.study.workers import every, workers
    from railyard_validation.traces.judge import JUDGED, mistakes, report

    with Progress(wanted=not as_json) as progress, tempfile.TemporaryDirectory() as lent:
        given = {"seed": seed, "folder": str(folder or lent), "noise": noise}
        cases = every(workers(ray), JUDGED, [{**given, "number": number} for number in range(count)], progress)
    found = report(cases)
    if as_json:
        emit(json.dumps({**found, "mistakes": list(mistakes(cases))}, indent=1))
        return
    right, of = (sum(row[key] for row in found["reliability"]) for key in ("right", "rows"))
    emit(f"{right} of {of} parts that the diagnosis named are to blame, over {count} cases.\n")
    table = Table(("", "right", "of"), right=(1, 2))
    for name, value in found.items():
        if isinstance(value, tuple):
            table.add(name.replace("_", " "), *map(str, value))
    for name, (right, of) in found["by_situation"].items():
        if of:
            table.add(f"  {name}", str(right), str(of))
    table.print()
    shown = Table(("stated confidence", "mean", "right", "of"), right=(1, 2, 3))
    for row in found["reliability"]:
        shown.add(f"{row['from']:.2f} to {row['to']:.2f}", f"{row['stated']:.3f}", str(row["right"]), str(row["rows"]))
    emit("")
    shown.print()
    for words in mistakes(cases):
        emit(words)
