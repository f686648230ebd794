"""Compares two results of the same question: figures that moved, and what was changed between them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.face.api.figures import (
    CHOICES,
    ROUNDING,
    Document,
    by_kind,
    moved,
    one_sided,
    parts,
    shown_change,
    shown_pair,
)
from railyard.kit.errors import InputError
from railyard.kit.prose import quoted
from railyard.measure import numbers
from railyard.measure.result.answers import DiffAnswer, DiffCause, DiffChoice, DiffOneSided, DiffRenamed
from railyard.measure.result.section import missing, same
from railyard.work.study.memo import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from railyard.face.api.figures import Moved, Part
    from railyard.measure.result.section import Leaf

    Leaves = Mapping[str, Leaf]


_SAID = 3
"""Parts of a step, or figures, that sentences name."""


@dataclass(frozen=True)
class Size:
    """Extent of a comparison.

    Attributes:
        variants: Number of variants of the larger result.
        equal, differ: Values of both that are equal to the last digit, and that are not.
    """

    variants: int
    equal: int
    differ: int


def conclusion(
    figures: Sequence[Moved],
    sides: Sequence[DiffOneSided],
    parts: Sequence[Part],
    choices: Sequence[DiffChoice],
    size: Size,
) -> str:
    """The answer in one line: the variant whose first figure moved most, and figures that only one result has.

    Args:
        figures: Figures that moved.
        sides: Headline figures that only one result has.
        parts: Parts of steps that moved.
        choices: Words that head results and changed.
        size: How much was compared.
    """
    if not size.equal + size.differ:
        return "The two results have no variant and no figure in common."
    chosen = [f"{row.what} {row.old} -> {row.new}" for row in choices if row.what != "bottleneck"]
    said = _lead(figures, parts, size.variants) if figures else _nothing(size.differ)
    return sentence("; ".join([*chosen, said, *_lacking(sides)]))


def _lead(figures: Sequence[Moved], parts: Sequence[Part], variants: int) -> str:
    firsts: dict[str, Moved] = {}
    for row in figures:
        firsts.setdefault(row.variant, row)
    lead = min(firsts.values(), key=lambda row: (row.rank, -round(row.size, 3)))
    text = f"{lead.words} {shown_pair(lead.old, lead.new, lead.unit)} ({shown_change(lead.old, lead.new, lead.unit)})"
    why = _parts([row for row in parts if row.variant == lead.variant], max(abs(lead.old), abs(lead.new)))
    named = f" on {quoted(lead.variant)}" if variants > 1 and lead.variant else ""
    others = f"; {len(firsts) - 1} more of {variants} variants moved" if len(firsts) > 1 else ""
    return f"{text}{named}{f': {why}' if why else ''}{others}"


def _lacking(sides: Sequence[DiffOneSided]) -> list[str]:
    """`not in OLD: network tax, scale-up tax`."""
    lines = []
    for name in ("OLD", "NEW"):
        rows = [row.figure for row in sides if row.absent and (row.old is None) == (name == "OLD")]
        words = list(dict.fromkeys(rows))
        if words:
            more = f" and {len(words) - _SAID} more" if len(words) > _SAID else ""
            lines.append(f"not in {name}: {', '.join(words[:_SAID])}{more}")
    return lines


def _nothing(differ: int) -> str:
    if not differ:
        return "no figure moved: all values are equal"
    return f"no figure moved by more than rounding ({100 * ROUNDING:.2g} %); {differ:,} values differ elsewhere"


def _parts(parts: Sequence[Part], like: float) -> str:
    """`exposed communication -0.31 s; compute unchanged`."""
    kinds = by_kind([row for row in parts if row.moved])
    said = [
        f"{kind} {'+' if seconds > 0 else '-'}{numbers.seconds(abs(seconds), like)}" for kind, seconds in kinds.items()
    ]
    still = any(row.kind == "compute" for row in parts) and "compute" not in kinds
    return "; ".join([*said[:_SAID], *(["compute unchanged"] if said and still else [])])


_NO_INPUT = ("scenario.name", "scenario.format")
_SOURCE = re.compile(r"provenance\.sources\[(.*)\]\.(value|source|year)")
_CONSTANTS = "constants"
"""Field of a source whose value lists many: `a=1, b=2`."""


def _cause(kind: str, what: str, old: str | None, new: str | None, variant: str = "") -> DiffCause:
    row = {"kind": kind, "what": what, "old": old, "new": new, "variant": variant}
    return DiffCause.model_validate(row)


def causes(old: Document, new: Document) -> Iterator[DiffCause]:
    """Differences between two documents as a whole."""
    for kind, paths in (
        ("version", ("provenance.version", "version")),
        ("engine", ("provenance.engine",)),
        ("seed", ("provenance.seed", "seed")),
    ):
        before, after = old.text(*paths), new.text(*paths)
        if before != after:
            yield _cause(kind, kind, before or None, after or None)
    yield from _scenario(old.leaves, new.leaves)
    yield from _catalogue(old.leaves, new.leaves)
    for kind, path in (("default", "provenance.defaults"), ("model", "provenance.left_out")):
        yield from _listed(kind, path, old.leaves, new.leaves)


def _scenario(old: Mapping[str, Leaf], new: Mapping[str, Leaf]) -> Iterator[DiffCause]:
    """Keys of the scenario with different values; sections that only one of them has by their own name."""
    mine, theirs = (_below("scenario.", leaves) for leaves in (old, new))
    for path in mine:
        if path in theirs and not same(mine[path], theirs[path]):
            yield _cause("scenario", path, str(mine[path]), str(theirs[path]))
    for path in missing(mine, theirs):
        yield _cause("scenario", path, _value(mine, path), None)
    for path in missing(theirs, mine):
        yield _cause("scenario", path, None, _value(theirs, path))


def _below(head: str, leaves: Mapping[str, Leaf]) -> dict[str, Leaf]:
    return {
        path.removeprefix(head): value
        for path, value in leaves.items()
        if path.startswith(head) and not path.startswith(_NO_INPUT)
    }


def _value(leaves: Mapping[str, Leaf], path: str) -> str:
    """The value at a path, or all values of a section."""
    if path in leaves:
        return str(leaves[path])
    inside = {key.removeprefix(path).lstrip("."): value for key, value in leaves.items() if key.startswith(path)}
    return ", ".join(f"{key}: {value}" for key, value in inside.items() if value not in (None, "empty list"))


def _catalogue(old: Mapping[str, Leaf], new: Mapping[str, Leaf]) -> Iterator[DiffCause]:
    """Values of the catalogue with their sources; parts that only one has as one line each."""
    mine, theirs = _sources(old), _sources(new)
    for name, row in mine.items():
        if name in theirs and theirs[name] != row:
            yield from _revalued(name, row, theirs[name])
    for item in dict.fromkeys(name[0] for name in (*mine, *theirs)):
        counts = [sum(name[0] == item for name in each) for each in (mine, theirs)]
        if not all(counts):
            before, after = (f"{count} values" if count else None for count in counts)
            yield _cause("catalogue", item, before, after)
        else:
            yield from (
                _cause(
                    "catalogue",
                    f"{item}: {field}",
                    _sourced(mine.get((item, field))),
                    _sourced(theirs.get((item, field))),
                )
                for field in dict.fromkeys(name[1] for name in (*mine, *theirs) if name[0] == item)
                if ((item, field) in mine) != ((item, field) in theirs)
            )


def _sources(leaves: Mapping[str, Leaf]) -> dict[tuple[str, str], dict[str, str]]:
    """Value, source and year by item and field."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for path, value in leaves.items():
        match = _SOURCE.fullmatch(path)
        if match is not None:
            row = f"provenance.sources[{match[1]}]"
            name = str(leaves.get(f"{row}.item", "")), str(leaves.get(f"{row}.field", ""))
            found.setdefault(name, {})[match[2]] = str(value)
    return found


def _revalued(name: tuple[str, str], before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[DiffCause]:
    item, field = name
    if field != _CONSTANTS:
        yield _cause("catalogue", f"{item}: {field}", _sourced(before), _sourced(after))
        return
    mine, theirs = (dict(pair.split("=", 1) for pair in each["value"].split(", ")) for each in (before, after))
    for constant in dict.fromkeys((*mine, *theirs)):
        if mine.get(constant) != theirs.get(constant):
            yield _cause("software", f"{item}: {constant}", mine.get(constant), theirs.get(constant))


def _sourced(row: Mapping[str, str] | None) -> str | None:
    if row is None:
        return None
    origin = ", ".join(text for text in (row.get("source", ""), row.get("year", "")) if text and text != "0")
    return f"{row['value']} ({origin})" if origin else row["value"]


def _listed(kind: str, path: str, old: Mapping[str, Leaf], new: Mapping[str, Leaf]) -> Iterator[DiffCause]:
    """Sentences of a list that only one of the documents has; those about the same thing as one change."""
    mine, theirs = ({str(value) for key, value in each.items() if key.startswith(f"{path}[")} for each in (old, new))
    gone, come = sorted(mine - theirs), sorted(theirs - mine)
    for text in gone:
        head = text.partition(":")[0]
        twin = next((other for other in come if ":" in text and other.partition(":")[0] == head), None)
        if twin is not None:
            come.remove(twin)
        what = head if twin is not None else kind
        yield _cause(kind, what, text if twin is None else text.partition(":")[2].strip(), _rest(twin))
    for text in come:
        yield _cause(kind, kind, None, text)


def _rest(text: str | None) -> str | None:
    return None if text is None else text.partition(":")[2].strip()


def causes_within(variant: str, old: Mapping[str, Leaf], new: Mapping[str, Leaf]) -> Iterator[DiffCause]:
    """Differences in how one variant was carried out: its layout, its collectives' algorithms."""
    before, after = (each.get("layout.words", each.get("layout")) for each in (old, new))
    if isinstance(before, str) and isinstance(after, str) and before != after:
        yield _cause("layout", "layout", before, after, variant)
    for path in old:
        if path.startswith("collectives[") and path.endswith("].algorithm") and path in new:
            row = path.removesuffix("algorithm")
            mine, theirs = (f"{each[path]} ({each.get(f'{row}protocol')})" for each in (old, new))
            if mine != theirs:
                yield _cause("algorithm", row.removeprefix("collectives[").removesuffix("]."), mine, theirs, variant)


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
    """Compares two documents.

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
            "one_sided": tuple(sides),
            "choices": tuple(choices),
            "parts": tuple(map(_part, (row for row in pieces if row.moved))),
            "causes": tuple(_why(old, new, pairs, anything=bool(figures or choices))),
            "only_old": (*lost, *_only(pairs, "old", {row.old for row in renamed})),
            "only_new": (*come, *_only(pairs, "new", {row.new for row in renamed})),
            "renamed": tuple(dict.fromkeys(renamed)),
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
    """Number of variants of the larger document."""
    return max(sum(bool(name) for name in each) for each in (old, new))


def _renamed(pair: _Pair) -> Iterator[DiffRenamed]:
    """Keys that only one of the documents has, in the same section and with the same value."""
    come = [(path, value) for path, value in pair.new.items() if path not in pair.old and _telling(value)]
    by_place = {(path.rpartition(".")[0], value): path for path, value in come}
    for path, value in pair.old.items():
        twin = by_place.get((path.rpartition(".")[0], value)) if path not in pair.new and _telling(value) else None
        if twin is not None:
            yield DiffRenamed(old=path, new=twin)


def _telling(value: object) -> bool:
    """Whether two keys hardly have this value by chance."""
    return isinstance(value, float) and value not in (0.0, 1.0)


def _as_new(pair: _Pair, renamed: list[DiffRenamed]) -> Leaves:
    names = {row.old: row.new for row in renamed}
    return {names.get(path, path): value for path, value in pair.old.items()}


def _choices(pair: _Pair) -> Iterator[DiffChoice]:
    for path, what in CHOICES.items():
        if path in pair.old and path in pair.new and not same(pair.old[path], pair.new[path]):
            old, new = ("none" if each[path] is None else str(each[path]) for each in (pair.old, pair.new))
            yield DiffChoice(variant=pair.name, what=what, old=old, new=new)


def _why(old: Document, new: Document, pairs: list[_Pair], *, anything: bool) -> list[DiffCause]:
    found = list(causes(old, new))
    found += [cause for pair in pairs for cause in causes_within(pair.name, pair.old, pair.new)]
    if anything and not any(cause.kind in _INPUTS for cause in found):
        found.append(_cause("program", "Railyard", old.version or None, new.version or None))
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
