"""The verb `memo`: one page for a decision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railyard.face.terminal import say
from railyard.face.verb import verb
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.work.study.memo import DecisionMemo


@verb(
    "memo",
    "Write one page for a decision: PDF, HTML or Markdown.",
    example="railyard memo runs/first-* -o memo.pdf",
    group="decide",
    quiet=True,
    order=6,
)
def memo(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run or a plan, or its JSON file.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Write memo.pdf, .html or .md; without it, Markdown to stdout."
        ),
    ] = None,
) -> None:
    """Write one page for a decision: recommendation, three figures, losses against the bound, what would change it."""
    from railyard.face import memo as memos
    from railyard.face.terminal import emit

    found = _memo_of(run)
    if out is None:
        emit(memos.as_markdown(found).rstrip("\n"))
        return
    memos.write_memo(found, out)
    say(f"wrote {out}")


def _memo_of(run: Path) -> DecisionMemo:
    """The memo of a run or of a plan.

    Raises:
        InputError: There is no document, or this kind of result has no memo.
    """
    from railyard.ask.plan.memo import memo_of_plan
    from railyard.face.api.finished import document_of
    from railyard.measure.result.choices import PlanAnswer
    from railyard.measure.result.reading import Result
    from railyard.work.study.presentation import presentation_of, presentations

    file, found = document_of(run)
    if isinstance(found, PlanAnswer):
        return memo_of_plan(found)
    if not isinstance(found, Result):
        raise InputError("this answer has no memo", file=file, allowed="a run or a plan")
    write = presentation_of(found).memo
    if write is None:
        kinds = [name for name in presentations if presentations.get(name).memo is not None]
        raise InputError("this kind of work has no memo", file=file, found=found.variants[0].kind, allowed=kinds)
    return write(found)
