"""Two documents set against each other: the figures that moved, where the step moved, and what was changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.face.api.difference.causes import Cause, causes, causes_within
from railyard.face.api.difference.conclusion import Size, conclusion
from railyard.face.api.difference.figures import CHOICES, Choice, moved, one_sided
from railyard.face.api.difference.steps import parts
from railyard.kit.errors import InputError
from railyard.measure.result.answers.diff import DiffAnswer
from railyard.measure.result.leaves import missing, same

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from railyard.face.api.difference.documents import Document
    from railyard.face.api.difference.figures import Moved
    from railyard.face.api.difference.steps import Part
    from railyard.measure.result.leaves import Leaf

    Leaves = Mapping[str, Leaf]

_TOLD = ("scenario", "provenance", "format", "version")
"""Sections whose differences the causes explain."""


@dataclass(frozen=True)
class _Pair:
    """One variant of both documents.

    Attributes:
        name: Name of the variant.
        old, new: Its leaves.
    """

    name: str
    old: Leaves
    new: Leaves


def difference(old: Document, new: Document) -> DiffAnswer:
    """How two documents differ.

    Raises:
        InputError: They answer different kinds of questions.
    """
    if old.kind != new.kind:
        found = f"{old.file}: {old.text('format')}, {new.file}: {new.text('format')}"
        raise InputError("these answer different kinds of questions", key="format", found=found)
    before, after = ({name: _figures(part) for name, part in each.parts().items()} for each in (old, new))
    pairs, lost, come = _paired(before, after)
    renamed = [row for pair in pairs for row in _renamed(pair)]
    several = _names(before, after)
    now = [_Pair(pair.name, _as_new(pair, renamed), pair.new) for pair in pairs]
    compared = [pair for pair in now if pair.name or not several]
    figures = [row for pair in now for row in moved(pair.name, pair.old, pair.new, every=pair in compared)]
    sides = [row for pair in now for row in one_sided(pair.name, pair.old, pair.new)]
    pieces = [row for pair in now for row in parts(pair.name, pair.old, pair.new)]
    choices = [row for pair in pairs for row in _choices(pair)]
    size = Size(several, *_counted(compared))
    return DiffAnswer.model_validate(
        {
            "format": "railyard-diff/1",
            "conclusion": conclusion(figures, sides, pieces, choices, size),
            "old": _side(old),
            "new": _side(new),
            "figures": tuple(map(_figure, figures)),
            "one_sided": tuple(map(vars, sides)),
            "choices": tuple(map(vars, choices)),
            "parts": tuple(map(_part, (row for row in pieces if row.moved))),
            "causes": tuple(map(vars, _why(old, new, pairs, anything=bool(figures or choices)))),
            "only_old": (*lost, *_only(pairs, "old", {row.old for row in renamed})),
            "only_new": (*come, *_only(pairs, "new", {row.new for row in renamed})),
            "renamed": tuple(map(vars, dict.fromkeys(renamed))),
            "equal": size.equal,
            "differ": size.differ,
        }
    )


def _figures(part: Leaves) -> Leaves:
    return {path: value for path, value in part.items() if path.partition(".")[0] not in _TOLD}


def _side(document: Document) -> dict[str, str]:
    return {"file": document.file, "name": document.text("name"), "version": document.version}


def _figure(row: Moved) -> dict[str, Any]:
    named = {"variant": row.variant, "figure": row.words, "path": row.path, "unit": row.unit}
    return {**named, "old": row.old, "new": row.new, "change": row.change, "share": row.share}


def _part(row: Part) -> dict[str, Any]:
    return {"variant": row.variant, "part": row.name, "old": row.old, "new": row.new, "change": row.change}


def _paired(old: Mapping[str, Leaves], new: Mapping[str, Leaves]) -> tuple[list[_Pair], list[str], list[str]]:
    """Variants by their names; a single one, or as many under other names, in their order; those without a twin."""
    pairs = [_Pair(name, old[name], new[name]) for name in old if name in new]
    left, right = ([name for name in each if name not in other] for each, other in ((old, new), (new, old)))
    if len(pairs) == 1 and len(left) == len(right):  # all but what stands outside of variants has another name
        pairs += [
            _Pair(f"{mine} -> {theirs}", old[mine], new[theirs]) for mine, theirs in zip(left, right, strict=True)
        ]
        return pairs, [], []
    return pairs, left, right


def _names(old: Mapping[str, Leaves], new: Mapping[str, Leaves]) -> int:
    """How many variants the larger document has."""
    return max(sum(bool(name) for name in each) for each in (old, new))


@dataclass(frozen=True)
class _Renamed:
    old: str
    new: str


def _renamed(pair: _Pair) -> Iterator[_Renamed]:
    """Keys that only one of the documents has, in the same section and with the same value."""
    come = [(path, value) for path, value in pair.new.items() if path not in pair.old and _telling(value)]
    by_place = {(path.rpartition(".")[0], value): path for path, value in come}
    for path, value in pair.old.items():
        twin = by_place.get((path.rpartition(".")[0], value)) if path not in pair.new and _telling(value) else None
        if twin is not None:
            yield _Renamed(path, twin)


def _telling(value: object) -> bool:
    """Whether two keys hardly have this value by chance."""
    return isinstance(value, float) and value not in (0.0, 1.0)


def _as_new(pair: _Pair, renamed: list[_Renamed]) -> Leaves:
    names = {row.old: row.new for row in renamed}
    return {names.get(path, path): value for path, value in pair.old.items()}


def _choices(pair: _Pair) -> Iterator[Choice]:
    for path, what in CHOICES.items():
        if path in pair.old and path in pair.new and not same(pair.old[path], pair.new[path]):
            old, new = ("none" if each[path] is None else str(each[path]) for each in (pair.old, pair.new))
            yield Choice(pair.name, what, old, new)


def _why(old: Document, new: Document, pairs: list[_Pair], *, anything: bool) -> list[Cause]:
    found = list(causes(old, new))
    found += [cause for pair in pairs for cause in causes_within(pair.name, pair.old, pair.new)]
    if anything and not any(cause.kind in _INPUTS for cause in found):
        found.append(Cause("program", "Railyard", old.version or None, new.version or None))
    return found


_INPUTS = ("engine", "seed", "scenario", "catalogue", "software")


def _only(pairs: list[_Pair], side: str, renamed: set[str]) -> list[str]:
    """Sections that variants have on one side only, without the rows of lists."""
    found = []
    for pair in pairs:
        mine, other = (pair.old, pair.new) if side == "old" else (pair.new, pair.old)
        found += missing({path: value for path, value in mine.items() if path not in renamed}, other)
    return [path for path in dict.fromkeys(found) if "[" not in path]


def _counted(pairs: list[_Pair]) -> tuple[int, int]:
    both = [same(value, pair.new[path]) for pair in pairs for path, value in pair.old.items() if path in pair.new]
    return sum(both), len(both) - sum(both)
