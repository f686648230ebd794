"""Answers of `railyard accept` and `railyard bring-up`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from railyard.ask.accept import folder
from railyard.ask.accept.judge import FAILED, MISSING, OUTSIDE, PASSED, common, judged
from railyard.ask.accept.results import collected
from railyard.ask.accept.tests import NCCL
from railyard.ask.deploy.files import JunitCase, junit
from railyard.face.terminal import Table, emit, say, wrapped
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


def bring_up_sentence(found: BringUp) -> str:
    """The order to build in, when the first job starts, and what idles until then."""
    best = found.orders[0]
    return (
        f"Build in the order {best.order}: the first job starts after {_days(best.first_job_d)}, all accelerators work"
        f" after {_days(best.all_d)}, and {_dollars(best.idle_usd)} of capital idles."
    )


def show_bring_up(found: BringUp, *, quiet: bool, details: bool) -> None:
    """Prints what each order of racks costs; with details the measures against faults, and parts to wait for."""
    best = found.orders[0]
    _table("order of racks", [(one.order, one) for one in found.orders], details=details)
    if details:
        rows = [("as planned", best), *((one.change, one) for one in found.measures)]
        _table(f"order {best.order}", rows, details=True)
        if found.parts:
            _parts(found.parts)
    if not quiet:
        measure = min(found.measures, key=lambda one: one.idle_usd.typical, default=None)
        emit("")
        if measure is not None and measure.idle_usd.typical < best.idle_usd.typical:
            first, idle = _days(measure.first_job_d), _dollars(measure.idle_usd)
            emit(wrapped(f"With {measure.change}, the first job starts after {first} and {idle} of capital idles."))
        has = f"The cluster has {found.racks:,} racks and {found.cables:,} cables"
        needs = f"the first job needs {found.first_job:,} accelerators"
        a_day = numbers.dollars(found.capital_usd_per_d)
        emit(wrapped(f"{has}, and costs {a_day} a day; {needs}. In brackets: the 80 % interval."))


def _table(head: str, rows: Sequence[tuple[str, BringUpOutcome]], *, details: bool) -> None:
    """A row per way to build; with details when half works, crews, and what was wrong."""
    heads = (head, "first job", "all work", "idle capital")
    more = ("half work", "crews", "wrong cables", "servers replaced") if details else ()
    table = Table(heads + more, range(1, len(heads + more)), turn=True)
    for name, one in rows:
        cells = (name, _days(one.first_job_d), _days(one.all_d), _dollars(one.idle_usd))
        rest = (_days(one.half_d), _dollars(one.crew_usd), _count(one.wrong), _count(one.replaced))
        table.add(*cells, *rest[: len(more)])
    if details:
        emit("")
    table.print()


def _parts(waits: Sequence[PartWait]) -> None:
    heads = ("late part", "arrives", "is the last in", "first job later by", "all later by", "idle capital")
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
    typical, low, high = (numbers.signed_dollars(value) for value in (spread.typical, spread.low, spread.high))
    return f"{typical} ({low} to {high})"


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
    return Reply(
        every, lambda: _show(every, remarks), lambda: plain, headline=_judged(every, count), notes=notes, code=code
    )


def _judged(every: Sequence[JudgedTest], count: Counter[str]) -> str:
    """Whether to accept the cluster, and why not."""
    bad = [f"{count[verdict]:,} {verdict}" for verdict in (FAILED, MISSING) if count[verdict]]
    passed = f"{count[PASSED]:,} of {len(every):,} results passed"
    more = f", {count[OUTSIDE]:,} {OUTSIDE}" if count[OUTSIDE] else ""
    if not bad:
        return f"Accept the cluster: {passed}{more}."
    first = next((one for one in every if one.verdict == FAILED), None)
    where = f"; first {first.name}, {_figures(first)}" if first else ""
    return f"Do not accept the cluster yet: {passed}{more}, {' and '.join(bad)}{where}."


def _case(one: JudgedTest) -> JunitCase:
    words = f"{_figures(one)}; check: {', '.join(one.look_at)}" if one.look_at else _figures(one)
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
            say(f"wrote {len(names)} files to {out}; open {out / 'index.html'} first")

    return Reply(
        listed,
        show,
        lambda: {"folder": str(out), "files": list(names), "tests": listed},
        headline=folder.acceptance_sentence(tests),
    )


def _show_written(groups: Mapping[tuple[str, str, int, str], Sequence[Test]]) -> None:
    table = Table(("scope", "test", "ranks", "tests", "expected", "pass from", "to"), (2, 3, 4, 5, 6))
    for key, those in groups.items():
        one = those[0]
        mark = next((mark for mark in one.marks if mark.size_bytes == LARGEST), one.marks[0])
        at = f" at {LARGEST >> 20} MiB" if one.method == NCCL else ""
        figures = (f"{value:.4g}" for value in (mark.low, mark.high))
        table.add(
            key[0], key[1] + at, str(key[2] or ""), f"{len(those):,}", f"{mark.expected:.4g} {one.unit}", *figures
        )
    table.print()


def _show(every: Sequence[JudgedTest], remarks: Sequence[str]) -> None:
    listed = [one for one in every if one.verdict in (FAILED, OUTSIDE)]
    if listed:
        table = Table(("test", "result", "measured", "expected", "pass range", "why", "check"), (2, 3))
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
