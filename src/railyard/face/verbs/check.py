"""`railyard check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.terminal import Junit, Table
from railyard.face.verb import Page, Reply, Request, verb
from railyard.kit.errors import InputError
from railyard.kit.files import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.ask.check.check import CheckedAssertion


@verb(
    "check",
    "Test assertions: lost spine, deadlock, headroom, step time.",
    example="railyard check examples/checks.yaml",
    group="decide",
    parts=["scenario"],
    json=True,
    quiet=True,
    out="keep",
    patient=True,
    order=44,
    page=Page("Check", "Tests the assertions under `check`: figures, lost parts, deadlock, headroom.", order=3),
)
def check(request: Request, *, junit: Junit = None) -> Reply:
    """Test the assertions under `check` of a scenario; exit code 1 if one fails, 2 if one is written wrong."""
    from railyard.ask.check.check import judged
    from railyard.ask.deploy import files

    if junit is not None and not junit.parent.is_dir():
        raise InputError("there is no such folder", file=junit.parent)
    request.progress("reading the scenario", 0.0)
    draft = request.draft()
    checked, answer = judged(draft, request.progress)
    if junit is not None and not answer.stopped:
        several = len({one.variant for one in checked}) > 1
        write_text(junit, files.junit(draft.title, [one.case(several=several) for one in checked]))
    unwritten = "" if junit is None else f", and {junit} was not written"
    stopped = f"{len(checked)} assertions had been judged{unwritten}" if answer.stopped else ""
    failed = not all(one.outcome.holds for one in checked)
    return Reply(answer, lambda: _table(checked), keep=answer, stopped=stopped, code=int(failed))


def _table(checked: Sequence[CheckedAssertion]) -> None:
    """A row for every assertion, those that fail first; with its variant where there are several."""
    several = len({one.variant for one in checked}) > 1
    table = Table(("assertion", *(["variant"] if several else []), "result", "found"), prose=True)
    for one in sorted(checked, key=lambda one: one.outcome.holds):
        words = "; ".join(filter(None, (one.outcome.found, one.outcome.remark)))
        table.add(one.assertion, *([one.variant] if several else []), "pass" if one.outcome.holds else "FAIL", words)
    table.print()
