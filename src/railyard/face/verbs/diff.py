"""`railyard diff`: which figures moved between two results, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railyard.face.terminal import Table, emit
from railyard.face.verb import Reply, Request, verb
from railyard.measure import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.measure.result.answers import DiffAnswer, DiffFigure, DiffOneSided

_FIGURES, _PARTS, _CAUSES, _NAMED, _LONG = 16, 8, 16, 8, 60


@verb(
    "diff",
    "Show which figures differ between two results, and why.",
    example="railyard diff runs/first-* other/first-*",
    group="simulate",
    json=True,
    details=True,
    quiet=True,
    order=2,
)
def diff(
    request: Request,
    old: Annotated[Path, typer.Argument(metavar="OLD", help="Folder of a run or plan, or its JSON file.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The same question, run later or changed.")],
) -> Reply:
    """Say which figures moved between two results, of any versions, where the step moved, and what was changed."""
    from railyard.face.api.difference import difference
    from railyard.face.api.figures import read

    found = difference(read(old), read(new))
    return Reply(found, lambda: _show(found, request), headline=found.conclusion)


def _show(found: DiffAnswer, request: Request) -> None:
    if request.quiet:
        emit(found.conclusion)
        return
    tables = (_figures(found), *((_parts(found), _causes(found)) if request.details else ()))
    for number, table in enumerate(filter(None, tables)):
        if number:
            emit("")
        table.print()
    if notes := _notes(found):
        emit("\n" + "\n".join(notes))


def _figures(found: DiffAnswer) -> Table | None:
    from railyard.face.api.figures import shown, shown_change

    if not (found.figures or found.one_sided or found.choices):
        return None
    table = Table(("variant", "figure", "old", "new", "change"), (2, 3, 4))
    for choice in found.choices:
        table.add(choice.variant, choice.what, choice.old, choice.new, "")
    rows = _most(found)
    for row in rows:
        like = max(abs(row.old), abs(row.new))
        ends = (shown(row.old, row.unit, like), shown(row.new, row.unit, like))
        table.add(row.variant, row.figure, *ends, shown_change(row.old, row.new, row.unit))
    if len(found.figures) > len(rows):
        table.add("", f"{len(found.figures) - len(rows)} more: `--json` has all", "", "", "")
    for row_of_one_side in _one_sided(found.one_sided):
        table.add(*row_of_one_side, "")
    return table


def _one_sided(rows: Sequence[DiffOneSided]) -> Iterator[tuple[str, ...]]:
    """A row a figure that one result lacks, with the range over the variants that have it."""
    from railyard.face.api.figures import shown

    groups: dict[tuple[str, bool, bool], list[DiffOneSided]] = {}
    for row in rows:
        groups.setdefault((row.figure, row.absent, row.old is None), []).append(row)
    for (figure, absent, is_new), same in groups.items():
        values = sorted(value for row in same for value in (row.old, row.new) if value is not None)
        low, high = (shown(value, same[0].unit, values[-1]) for value in (values[0], values[-1]))
        lacking = f"not in {'OLD' if is_new else 'NEW'}" if absent else "none"
        found = numbers.from_to(low, high)
        variant = same[0].variant if len(same) == 1 else f"{len(same)} variants"
        yield variant, figure, *((lacking, found) if is_new else (found, lacking))


def _most(found: DiffAnswer) -> list[DiffFigure]:
    """The figures to print: many of one variant, few of each where there are many."""
    names = list(dict.fromkeys(row.variant for row in found.figures))
    each = max(_FIGURES // max(len(names), 1), 2)
    kept = [row for name in names for row in [one for one in found.figures if one.variant == name][:each]]
    return kept[:_FIGURES]


def _parts(found: DiffAnswer) -> Table | None:
    from railyard.face.api.figures import shown

    if not found.parts:
        return None
    table = Table(("variant", "where the time moved", "old", "new", "change"), (2, 3, 4))
    for row in found.parts[:_PARTS]:
        like, sign = max(row.old, row.new), "+" if row.change > 0 else "-"
        ends = (shown(row.old, "s", like), shown(row.new, "s", like))
        table.add(row.variant, row.part, *ends, sign + shown(abs(row.change), "s", like))
    return table


def _causes(found: DiffAnswer) -> Table | None:
    if not found.causes:
        return None
    table = Table(("changed", "what", "old", "new"), ())
    for row in found.causes[:_CAUSES]:
        what = f"{row.variant}: {row.what}" if row.variant else row.what
        table.add(row.kind, what, *_cut(row.old, row.new))
    if len(found.causes) > _CAUSES:
        table.add("", f"{len(found.causes) - _CAUSES} more: `--json` has all", "", "")
    return table


def _cut(old: str | None, new: str | None) -> Iterator[str]:
    """Two values without the words that both begin with, where they are long."""
    ends = (old or "", new or "")
    long = max(map(len, ends)) > _LONG
    alike = next((at for at, (one, other) in enumerate(zip(*ends, strict=False)) if one != other), min(map(len, ends)))
    shared = len(ends[0][:alike].rpartition(" ")[0])
    for text in ("none" if each is None else each for each in (old, new)):
        rest = f"...{text[shared:]}" if long and shared else text
        yield rest if len(rest) <= _LONG else f"{rest[: _LONG - 3]}..."


def _notes(found: DiffAnswer) -> list[str]:
    rows = [
        ("only in the old result", found.only_old),
        ("only in the new result", found.only_new),
        ("renamed", tuple(f"{row.old} -> {row.new}" for row in found.renamed)),
    ]
    lines = [f"{words}: {_some(paths)}" for words, paths in rows if paths]
    if any(row.kind == "program" for row in found.causes):
        lines.append("no input differs: Railyard itself computes this differently (CHANGELOG.md, Results changed)")
    return lines


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more
