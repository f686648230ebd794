"""Answers of `railyard accept` and `railyard bring-up`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from railyard.ask.accept import folder
from railyard.ask.accept.judge import FAILED, MISSING, OUTSIDE, PASSED, common, judged
from railyard.ask.accept.results import collected
from railyard.ask.accept.tests import NCCL
from railyard.ask.deploy.files import JunitCase, junit
from railyard.face.terminal import Table, emit, say
from railyard.face.verb import Reply
from railyard.kit.errors import InputError
from railyard.kit.files import write_text
from railyard.measure import numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from railyard.ask.accept.judge import JudgedTest
    from railyard.ask.accept.tests import Test
    from railyard.ask.bring_up.study import BringUp, BringUpOutcome, DrawSpread, PartWait


def show_bring_up(found: BringUp, *, quiet: bool) -> None:
    """Prints what orders of racks and measures against faults cost while a cluster is built."""
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


def judged_by(
    title: str, tests: Sequence[Test], members: dict[str, Sequence[str]], results: Path | None, report: Path | None
) -> Reply:
    """Judges what was measured.

    Args:
        title: Name of the cluster.
        tests: All tests.
        members: Servers of each scope, by its name.
        results: What was measured.
        report: Where a JUnit report goes.

    Raises:
        InputError: Nothing was measured, or the report cannot be written.
    """
    assert results is not None, "tests are written, or results are judged"
    found = collected(results, tests)
    every = judged(tests, found, members)
    if report is not None:
        write_text(report, junit(title, [_case(one) for one in every]))
    count = Counter(one.verdict for one in every)
    bad, remarks = count[FAILED] + count[MISSING], common(every)
    plain = {
        "holds": not bad,
        "counts": {verdict: count[verdict] for verdict in (PASSED, FAILED, OUTSIDE, MISSING)},
        "remarks": remarks,
        "tests": [one.plain() for one in every],
    }
    notes = [problem.render() for problem in found.problems]
    code = InputError.exit_code if found.unknown else int(bad > 0)
    return Reply(every, lambda: _show(every, count, remarks), lambda: plain, notes=notes, code=code)


def _case(one: JudgedTest) -> JunitCase:
    words = f"{_figures(one)}; look at: {', '.join(one.look_at)}" if one.look_at else _figures(one)
    failure = f"{one.verdict}: {one.why}" if one.verdict in (FAILED, MISSING) else None
    return JunitCase(one.name, failure, words)


def _figures(one: JudgedTest) -> str:
    measured = "nothing" if one.measured is None else f"{one.measured:.4g} {one.test.unit}"
    return f"measured {measured}, expected {one.mark.expected:.4g} ({one.mark.low:.4g} to {one.mark.high:.4g})"


def written(tests: Sequence[Test], out: Path, names: Sequence[str], *, quiet: bool) -> Reply:
    """Tests that were written into a folder, and the names of its files."""
    groups = folder.alike(tests)
    listed = [{"scope": key[0], "test": key[1], "ranks": key[2], "count": len(those)} for key, those in groups.items()]

    def show() -> None:
        _show_written(groups)
        if not quiet:
            say(f"wrote {out}: {', '.join(names)}")

    return Reply(listed, show, lambda: {"folder": str(out), "files": list(names), "tests": listed})


def _show_written(groups: Mapping[tuple[str, str, int, str], Sequence[Test]]) -> None:
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


def _show(every: Sequence[JudgedTest], count: Counter[str], remarks: Sequence[str]) -> None:
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
