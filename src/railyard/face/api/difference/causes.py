"""What was changed between two documents: inputs, catalogue values, choices by default, engine, seed, version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.measure.result.leaves import missing, same

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from railyard.face.api.difference.documents import Document
    from railyard.measure.result.leaves import Leaf

_NO_INPUT = ("scenario.name", "scenario.format")
_SOURCE = re.compile(r"provenance\.sources\[(.*)\]\.(value|source|year)")
_CONSTANTS = "constants"
"""Field of a source whose value lists many: `a=1, b=2`."""


@dataclass(frozen=True)
class Cause:
    """Something that two documents have differently and that figures follow from.

    Attributes:
        kind: version, engine, seed, scenario, catalogue, layout, algorithm, default, model, software, program.
        what: Name of what changed.
        old, new: What each has; None: nothing.
        variant: Whose; empty: all.
    """

    kind: str
    what: str
    old: str | None
    new: str | None
    variant: str = ""


def causes(old: Document, new: Document) -> Iterator[Cause]:
    """What differs between two documents as a whole."""
    for kind, paths in (
        ("version", ("provenance.version", "version")),
        ("engine", ("provenance.engine",)),
        ("seed", ("provenance.seed", "seed")),
    ):
        before, after = old.text(*paths), new.text(*paths)
        if before != after:
            yield Cause(kind, kind, before or None, after or None)
    yield from _scenario(old.leaves, new.leaves)
    yield from _catalogue(old.leaves, new.leaves)
    for kind, path in (("default", "provenance.defaults"), ("model", "provenance.left_out")):
        yield from _listed(kind, path, old.leaves, new.leaves)


def _scenario(old: Mapping[str, Leaf], new: Mapping[str, Leaf]) -> Iterator[Cause]:
    """Keys of the scenario with different values; sections that only one of them has by their own name."""
    mine, theirs = (_below("scenario.", leaves) for leaves in (old, new))
    for path in mine:
        if path in theirs and not same(mine[path], theirs[path]):
            yield Cause("scenario", path, str(mine[path]), str(theirs[path]))
    for path in missing(mine, theirs):
        yield Cause("scenario", path, _value(mine, path), None)
    for path in missing(theirs, mine):
        yield Cause("scenario", path, None, _value(theirs, path))


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


def _catalogue(old: Mapping[str, Leaf], new: Mapping[str, Leaf]) -> Iterator[Cause]:
    """Values of the catalogue with their sources; parts that only one has as one line each."""
    mine, theirs = _sources(old), _sources(new)
    for name, row in mine.items():
        if name in theirs and theirs[name] != row:
            yield from _revalued(name, row, theirs[name])
    for item in dict.fromkeys(name[0] for name in (*mine, *theirs)):
        counts = [sum(name[0] == item for name in each) for each in (mine, theirs)]
        if not all(counts):
            before, after = (f"{count} values" if count else None for count in counts)
            yield Cause("catalogue", item, before, after)
        else:
            yield from (
                Cause(
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


def _revalued(name: tuple[str, str], before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Cause]:
    item, field = name
    if field != _CONSTANTS:
        yield Cause("catalogue", f"{item}: {field}", _sourced(before), _sourced(after))
        return
    mine, theirs = (dict(pair.split("=", 1) for pair in each["value"].split(", ")) for each in (before, after))
    for constant in dict.fromkeys((*mine, *theirs)):
        if mine.get(constant) != theirs.get(constant):
            yield Cause("software", f"{item}: {constant}", mine.get(constant), theirs.get(constant))


def _sourced(row: Mapping[str, str] | None) -> str | None:
    if row is None:
        return None
    origin = ", ".join(text for text in (row.get("source", ""), row.get("year", "")) if text and text != "0")
    return f"{row['value']} ({origin})" if origin else row["value"]


def _listed(kind: str, path: str, old: Mapping[str, Leaf], new: Mapping[str, Leaf]) -> Iterator[Cause]:
    """Sentences of a list that only one of the documents has; those about the same thing as one change."""
    mine, theirs = ({str(value) for key, value in each.items() if key.startswith(f"{path}[")} for each in (old, new))
    gone, come = sorted(mine - theirs), sorted(theirs - mine)
    for text in gone:
        head = text.partition(":")[0]
        twin = next((other for other in come if ":" in text and other.partition(":")[0] == head), None)
        if twin is not None:
            come.remove(twin)
        what = head if twin is not None else kind
        yield Cause(kind, what, text if twin is None else text.partition(":")[2].strip(), _rest(twin))
    for text in come:
        yield Cause(kind, kind, None, text)


def _rest(text: str | None) -> str | None:
    return None if text is None else text.partition(":")[2].strip()


def causes_within(variant: str, old: Mapping[str, Leaf], new: Mapping[str, Leaf]) -> Iterator[Cause]:
    """What differs in how one variant was carried out: its layout, its collectives' algorithms."""
    before, after = (each.get("layout.words", each.get("layout")) for each in (old, new))
    if isinstance(before, str) and isinstance(after, str) and before != after:
        yield Cause("layout", "layout", before, after, variant)
    for path in old:
        if path.startswith("collectives[") and path.endswith("].algorithm") and path in new:
            row = path.removesuffix("algorithm")
            mine, theirs = (f"{each[path]} ({each.get(f'{row}protocol')})" for each in (old, new))
            if mine != theirs:
                yield Cause("algorithm", row.removeprefix("collectives[").removesuffix("]."), mine, theirs, variant)
