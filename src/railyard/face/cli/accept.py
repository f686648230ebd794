"""`railyard accept`."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from railyard.ask.accept import folder
from railyard.ask.accept.judge import FAILED, MISSING, OUTSIDE, PASSED, common, judged
from railyard.ask.accept.planned import planned
from railyard.ask.accept.results import collected
from railyard.ask.accept.tests import FILE, NCCL
from railyard.ask.deploy.emit.configurations import writer
from railyard.ask.deploy.folders import replaced
from railyard.ask.deploy.junit import Case, junit
from railyard.ask.deploy.plan.cabling import plan_of
from railyard.face.cli import messages
from railyard.face.cli.messages import say
from railyard.face.cli.progress import Progress
from railyard.face.cli.tables import Table, emit
from railyard.kit.errors import InputError
from railyard.kit.files import keep_existing, write_text
from railyard.work.study import compose

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.ask.accept.judge import Judged
    from railyard.ask.accept.tests import Test

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
    writer(system)
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
            draft = messages.scenario(path, sets)
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


def _case(one: Judged) -> Case:
    words = f"{_figures(one)}; look at: {', '.join(one.look_at)}" if one.look_at else _figures(one)
    failure = f"{one.verdict}: {one.why}" if one.verdict in (FAILED, MISSING) else None
    return Case(one.name, failure, words)


def _figures(one: Judged) -> str:
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


def _read(every: Sequence[Judged], *, as_json: bool) -> int:
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
