"""`railyard check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.options import Junit
from railyard.face.terminal import Table, say
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
    page=Page("Check", "Judges what stands under `check`: figures, lost parts, deadlock, headroom.", order=3),
)
def check(request: Request, *, junit: Junit = None) -> Reply:
    """Judge the assertions under `check` of a scenario; exit code 1 where one does not hold, 2 where one is wrong."""
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
    failed = sum(not one.outcome.holds for one in checked)

    def show() -> None:
        _table(checked)
        if not request.quiet:
            say(f"{len(checked) - failed} of {len(checked)} hold")

    unwritten = "" if junit is None else f", and {junit} was not written"
    stopped = f"{len(checked)} assertions had been judged{unwritten}" if answer.stopped else ""
    return Reply(answer, show, keep=answer, stopped=stopped, code=int(failed > 0))


def _table(checked: Sequence[CheckedAssertion]) -> None:
    """A row for every assertion; with its variant where there are several."""
    several = len({one.variant for one in checked}) > 1
    table = Table(("assertion", *(["variant"] if several else []), "holds", "found"))
    for one in checked:
        words = "; ".join(part for part in (one.outcome.found, one.outcome.remark) if part)
        holds = "yes" if one.outcome.holds else "NO"
        table.add(one.assertion, *([one.variant] if several else []), holds, words)
    table.print()
