"""`railyard accept`."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from railyard.ask.accept import folder
from railyard.ask.accept.judge import FAILED, MISSING, OUTSIDE, PASSED, common, judged
from railyard.ask.accept.planned import planned
from railyard.ask.accept.results import collected
from railyard.ask.accept.tests import FILE, NCCL
from railyard.ask.bring_up.study import study
from railyard.ask.deploy.cabling import plan_of
from railyard.ask.deploy.files import JunitCase, junit, replaced
from railyard.ask.deploy.system import system_named
from railyard.face import terminal
from railyard.face.terminal import Progress, Table, emit, say
from railyard.kit.errors import InputError
from railyard.kit.files import keep_existing, write_text
from railyard.measure import numbers
from railyard.work.study import compose

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.ask.accept.judge import JudgedTest
    from railyard.ask.accept.tests import Test
    from railyard.ask.bring_up.study import BringUpOutcome, DrawSpread, PartWait


def bring_up(scenario: Path, *, sets: Sequence[str], as_json: bool, quiet: bool) -> None:
    """Prints what orders of racks and measures against faults cost while a cluster is built.

    Raises:
        InputError: The scenario is wrong.
    """
    with Progress(wanted=not quiet) as progress:
        progress("reading the scenario", 0.0)
        found = study(terminal.scenario(scenario, sets), progress)
    if as_json:
        emit(json.dumps(asdict(found), ensure_ascii=False, allow_nan=False))
        return
    emit(
        f"{found.racks:,} racks, {found.cables:,} cables, {numbers.dollars(found.capital_usd_per_d)} of capital a day;"
        f" the first job takes {found.first_job:,} accelerators"
    )
    _table("order of racks", [(one.order, one) for one in found.orders])
    best = found.orders[0]
    _table(f"{best.order}, but with", [("nothing changed", best), *((one.change, one) for one in found.measures)])
    if found.parts:
        _parts(found.parts)
    if not quiet:
        say("10th to 90th percentile of the draws in brackets; assumptions are those of `bring_up`")


def _table(head: str, rows: Sequence[tuple[str, BringUpOutcome]]) -> None:
    heads = (head, "first job", "half earn", "all earn", "idle capital", "crews", "wrong cables", "servers replaced")
    table = Table(heads, range(1, len(heads)))
    for name, one in rows:
        days = (_days(spread) for spread in (one.first_job_d, one.half_d, one.all_d))
        money = (_dollars(spread) for spread in (one.idle_usd, one.crew_usd))
        table.add(name, *days, *money, _count(one.wrong), _count(one.replaced))
    emit("")
    table.print()


def _parts(waits: Sequence[PartWait]) -> None:
    heads = (
        "what waits for",
        "arrives",
        "delays the first job most",
        "first job later by",
        "all later by",
        "idle for it",
    )
    table = Table(heads, range(1, len(heads)))
    for one in waits:
        money = _dollars(one.idle_usd)
        days = (_days(one.first_job_d), _days(one.all_d))
        table.add(one.part, _days(one.arrives_d), numbers.percent(one.critical), *days, money)
    emit("")
    table.print()


def _days(spread: DrawSpread) -> str:
    return f"{spread.typical:.1f} d ({spread.low:.1f} to {spread.high:.1f})"


def _dollars(spread: DrawSpread) -> str:
    typical, low, high = (_signed(value) for value in (spread.typical, spread.low, spread.high))
    return f"{typical} ({low} to {high})"


def _signed(value: float) -> str:
    return f"-{numbers.dollars(-value)}" if value < 0 else numbers.dollars(value)


def _count(spread: DrawSpread) -> str:
    return f"{spread.typical:,.0f}"


SHOWN = 40
LARGEST = 1 << 28
"""Size in bytes at which the summary of a plan says what is expected."""


def accept(
    path: Path,
    *,
    sets: Sequence[str],
    out: Path | None,
    results: Path | None,
    report: Path | None,
    system: str,
    as_json: bool,
    quiet: bool,
) -> int:
    """Writes a plan of acceptance, or judges results, and gives the exit code.

    Raises:
        InputError: The scenario or folder is wrong, nothing was measured, or something cannot be written.
    """
    if (out is None) == (results is None):
        raise InputError("tests are written, or results are judged", allowed="`--out FOLDER` or `--results PATH`")
    system_named(system)
    if report is not None:
        keep_existing(report, force=True)
    if path.is_dir() and out is not None:
        raise InputError("a plan is written from a scenario", file=path, allowed="a YAML file")
    with Progress(wanted=not quiet) as progress:
        if path.is_dir():
            tests, members = folder.folder_of(path)
            title = path.name
        else:
            progress("reading the scenario", 0.0)
            draft = terminal.scenario(path, sets)
            plan = plan_of(compose.cluster_of(draft, compose.catalog_of(draft)))
            tests, members, title = planned(plan, progress, system), folder.members_of(plan), draft.title
        if out is not None:
            names = replaced(out, FILE, folder.files(plan, tests, title), progress)
    if out is not None:
        _written(tests, out, names, as_json=as_json, quiet=quiet)
        return 0
    assert results is not None
    found = collected(results, tests)
    every = judged(tests, found, members)
    if report is not None:
        write_text(report, junit(title, [_case(one) for one in every]))
    for problem in found.problems:
        say(problem.render())
    code = _read(every, as_json=as_json)
    return InputError.exit_code if found.unknown else code


def _case(one: JudgedTest) -> JunitCase:
    words = f"{_figures(one)}; look at: {', '.join(one.look_at)}" if one.look_at else _figures(one)
    failure = f"{one.verdict}: {one.why}" if one.verdict in (FAILED, MISSING) else None
    return JunitCase(one.name, failure, words)


def _figures(one: JudgedTest) -> str:
    measured = "nothing" if one.measured is None else f"{one.measured:.4g} {one.test.unit}"
    return f"measured {measured}, expected {one.mark.expected:.4g} ({one.mark.low:.4g} to {one.mark.high:.4g})"


def _written(tests: Sequence[Test], out: Path, names: Sequence[str], *, as_json: bool, quiet: bool) -> None:
    groups = folder.alike(tests)
    if as_json:
        listed = [
            {"scope": key[0], "test": key[1], "ranks": key[2], "count": len(those)} for key, those in groups.items()
        ]
        emit(json.dumps({"folder": str(out), "files": list(names), "tests": listed}, ensure_ascii=False))
        return
    table = Table(("scope", "test", "ranks", "tests", "expected", "passes from", "to"), (2, 3, 4, 5, 6))
    for key, those in groups.items():
        one = those[0]
        mark = next((mark for mark in one.marks if mark.size_bytes == LARGEST), one.marks[0])
        at = f" at {LARGEST >> 20} MiB" if one.method == NCCL else ""
        figures = (f"{value:.4g}" for value in (mark.low, mark.high))
        table.add(
            key[0], key[1] + at, str(key[2] or ""), f"{len(those):,}", f"{mark.expected:.4g} {one.unit}", *figures
        )
    table.print()
    if not quiet:
        say(f"wrote {out}: {', '.join(names)}")


def _read(every: Sequence[JudgedTest], *, as_json: bool) -> int:
    count = Counter(one.verdict for one in every)
    bad = count[FAILED] + count[MISSING]
    remarks = common(every)
    if as_json:
        plain = {
            "holds": not bad,
            "counts": {verdict: count[verdict] for verdict in (PASSED, FAILED, OUTSIDE, MISSING)},
            "remarks": remarks,
            "tests": [one.plain() for one in every],
        }
        emit(json.dumps(plain, ensure_ascii=False, allow_nan=False))
        return int(bad > 0)
    listed = [one for one in every if one.verdict in (FAILED, OUTSIDE)]
    if listed:
        table = Table(("test", "verdict", "measured", "expected", "passes", "why", "look at"), (2, 3))
        for one in listed[:SHOWN]:
            measured, bounds = f"{one.measured:.4g} {one.test.unit}", f"{one.mark.low:.4g} to {one.mark.high:.4g}"
            expected = f"{one.mark.expected:.4g}"
            table.add(one.name, one.verdict, measured, expected, bounds, one.why, "; ".join(one.look_at))
        table.print()
    if len(listed) > SHOWN:
        emit(f"and {len(listed) - SHOWN} more: `--json` has all")
    for words in remarks:
        emit(words)
    absent = [one.test for one in every if one.verdict == MISSING]
    missing = Counter(f"{test.scope} {test.collective or test.method}" for test in absent)
    if missing:
        emit("missing: " + ", ".join(f"{many:,} of {words}" for words, many in missing.items()))
    emit(", ".join(f"{count[verdict]:,} {verdict}" for verdict in (PASSED, FAILED, OUTSIDE, MISSING)))
    return int(bad > 0)
