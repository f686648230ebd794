"""Reference tables of a JSON schema, in the order of the document that it describes.

A part that is used in one place and is short is in the table of its parent, under dotted keys; one of a few plain keys
is in the row of its own key, if the page has words for it. Every other part has a section of its own, named after its
first place; parts used in many places are last. Alternatives of one key share a table: keys that all of them have come
first, then each alternative with its own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Schema = dict[str, Any]

SHORT = 24
"""Most rows of a part that stands in the table of its parent."""
TINY = 4
"""Of a part that appears twice there, or at the top."""
FEW = 6
"""Most keys of a part that is in the row of its own key."""
SAME = 3
"""Rows that a part repeats of an earlier one, from which on they are named in one row."""
ONE_TABLE = 90
"""Most rows of alternatives that share a table."""
MANY = 3
"""Places from which on a part stands at the end of the page."""
LISTS = {"[]": "list; ", ".NAME": "by name; ", "": ""}
"""Words before the parts of a list or mapping, by what stands between its key and the keys below (`suffix`)."""
ENDINGS = re.compile(r"(Section|Figures?|Row|Fault|Topology|Variant|Stage|Update|Settings)$")


def cell(text: str) -> str:
    """Text as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("$", "\\$")


def references(spec: object) -> list[str]:
    """Names of the parts that a value may be."""
    if isinstance(spec, list):
        return [name for each in spec for name in references(each)]
    if not isinstance(spec, dict):
        return []
    below = (value for word, value in spec.items() if word not in {"default", "examples", "discriminator"})
    return (
        [spec["$ref"].rpartition("/")[2]] if "$ref" in spec else [name for each in below for name in references(each)]
    )


@dataclass
class Part:
    """A section of the page: one model, or the alternatives of a key."""

    title: str
    names: tuple[str, ...]
    places: list[str] = field(default_factory=list)
    depth: int = 2

    @property
    def anchor(self) -> str:
        """Its id in links."""
        return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", self.title).strip().lower())


class Tables:
    """Sections of one document.

    Args:
        schema: JSON schema of the whole document.
        columns: Heads of the table; the first is the key, the last the meaning.
        cells: Returns the cells between key and meaning: of a key's specification, whether it is required, and the
            text that stands for parts it refers to, or None.
        elsewhere: Whether a part is shown on another page.
        plain: Words for a key without keys below, of its name, specification and whether it is required; without it
            every key has a row.
        joined: Whether parts of a section continue its table below a row of their own, in place of headings.
    """

    def __init__(
        self,
        schema: Schema,
        columns: tuple[str, ...],
        cells: Callable[[Schema, bool, str | None], list[str]],
        elsewhere: Callable[[str], bool] = lambda _: False,
        plain: Callable[[str, Schema, bool], str] | None = None,
        *,
        joined: bool = False,
    ) -> None:
        self._models: dict[str, Schema] = {"": schema, **schema["$defs"]}
        self._columns = columns
        self._cells = cells
        self._elsewhere = elsewhere
        self._plain = plain
        self._joined = joined
        self._uses: dict[str, int] = defaultdict(int)
        for model in self._models.values():
            for spec in model.get("properties", {}).values():
                for name in references(spec):
                    self._uses[name] += 1
        self.parts: list[Part] = []
        self._homes: dict[str, Part] = {}
        self._visit(Part("", ("",)))

    def text(self) -> str:
        """Every section, those of many places last."""
        shared = [part for part in self.parts if not part.places]
        own = [part for part in self.parts if part.places]
        lines = self._table(Part("", ("",)))
        for part in own:
            self._add(lines, part)
        if shared:
            lines += ["## Parts used in many places", "", *([*self._head(), ""] if self._joined else [])]
        for part in sorted(shared, key=lambda part: part.title):
            self._add(lines, part)
        return "\n".join(lines)

    def _add(self, lines: list[str], part: Part) -> None:
        """Adds a section, or rows to the table that ends the lines."""
        if self._joined and part.depth > 2:
            name = f'<a id="{part.anchor}"></a>**{part.title}**'
            lines[-1:] = [f"| {name} |{' |' * (len(self._columns) - 2)} {self._about(part)} |", *self._body(part), ""]
        else:
            lines += self._section(part)

    def _section(self, part: Part) -> list[str]:
        said = self._about(part)
        return [f"{'#' * part.depth} {part.title}", "", *([said, ""] if said else []), *self._table(part)]

    def _about(self, part: Part) -> str:
        about = self._models[part.names[0]].get("description", "") if len(part.names) == 1 else ""
        also = f"Also {', '.join(f'`{place}`' for place in part.places[1:])}." if len(part.places) > 1 else ""
        return " ".join(filter(None, (about, also)))

    def _table(self, part: Part) -> list[str]:
        return [*self._head(), *self._body(part), ""]

    def _head(self) -> list[str]:
        return [f"| {' | '.join(self._columns)} |", "|" + "---|" * len(self._columns)]

    def _body(self, part: Part) -> list[str]:
        return list(self._alone(part) if len(part.names) == 1 else self._alternatives(part))

    def _alone(self, part: Part) -> list[str]:
        """Rows of one model; those that an earlier part has too are named in one row."""
        own = self._by_key(part.names[0], part.title)
        nearest, same = self._nearest(part, own)
        if nearest is None:
            return [row for rows in own.values() for row in rows]
        keys = ", ".join(f"`{key}`" for key in same)
        row = f"| {keys} |{' |' * (len(self._columns) - 2)} as in [{nearest.title}](#{nearest.anchor}) |"
        return [row, *(row for key, rows in own.items() if key not in same for row in rows)]

    def _by_key(self, name: str, home: str) -> dict[str, list[str]]:
        """Rows of a model by its own key, those of the keys below with it."""
        rows: dict[str, list[str]] = defaultdict(list)
        for row in self._rows(name, home):
            rows[re.split(r"[.\[`]", row.removeprefix("| `"), maxsplit=1)[0]].append(row)
        return rows

    def _nearest(self, part: Part, own: dict[str, list[str]]) -> tuple[Part | None, list[str]]:
        """The earlier part that shares most rows, and the keys that both have alike."""
        most, nearest, same = SAME - 1, None, list[str]()
        for other in self.parts[: self.parts.index(part)] if part in self.parts else ():
            if len(other.names) > 1 or bool(other.places) != bool(part.places):
                continue
            theirs = self._by_key(other.names[0], part.title)
            alike = [key for key, rows in own.items() if theirs.get(key) == rows]
            if sum(len(own[key]) for key in alike) > most:
                most, nearest, same = sum(len(own[key]) for key in alike), other, alike
        return nearest, same

    def _alternatives(self, part: Part) -> Iterator[str]:
        names = part.names
        rows = {name: list(self._rows(name, part.title)) for name in names}
        owners = {row: [name for name in names if row in rows[name]] for name in names for row in rows[name]}
        common = {row for row, having in owners.items() if len(having) > 1 and 2 * len(having) >= len(names)}
        yield from (self._common(row, having, names) for row, having in owners.items() if row in common)
        for name in names:
            meaning = cell(self._models[name].get("description", ""))
            yield f"| **{self.word(name)}** |{' |' * (len(self._columns) - 2)} {meaning} |"
            yield from (row for row in rows[name] if row not in common and not row.startswith("| `kind` |"))

    def _common(self, row: str, having: list[str], names: tuple[str, ...]) -> str:
        lacking = ", ".join(self.word(name) for name in names if name not in having)
        key, rest = row.removeprefix("| ").split(" | ", 1)
        return f"| {key} (not {lacking}) | {rest}" if lacking else row

    def word(self, name: str) -> str:
        """Name of a part for readers: its `kind`, or the words of its class."""
        kind = self._models[name].get("properties", {}).get("kind", {}).get("const")
        return f"`{kind}`" if kind else plain(name)

    def _rows(self, name: str, home: str, prefix: str = "") -> Iterator[str]:
        model = self._models[name]
        for key, spec in model.get("properties", {}).items():
            names = self._parts_of(spec)
            inline = self._inline(name, names)
            shown = (
                None
                if not names
                else "keys below"
                if inline
                else self._links(names, f"{home}.{prefix}{key}{suffix(spec)}".lstrip("."))
            )
            within = self._within(names[0]) if inline else ""
            *middle, meaning = self._cells(spec, key in model.get("required", ()), "keys" if within else shown)
            yield f"| {' | '.join([f'`{prefix}{key}`', *middle, meaning + within])} |"
            if inline and not within:
                yield from self._rows(names[0], home, f"{prefix}{key}{suffix(spec)}.")

    def _within(self, name: str) -> str:
        """The keys of a part in the row of its own key, or nothing where they are too many or have keys below."""
        model = self._models[name]
        keys: dict[str, Schema] = model.get("properties", {})
        if not self._plain or len(keys) > FEW or any(self._parts_of(spec) for spec in keys.values()):
            return ""
        return ": " + "; ".join(self._plain(key, spec, key in model.get("required", ())) for key, spec in keys.items())

    def _parts_of(self, spec: Schema) -> list[str]:
        return [name for name in dict.fromkeys(references(spec)) if not self._elsewhere(name)]

    def _inline(self, owner: str, names: list[str]) -> bool:
        if len(names) != 1:
            return False
        most = SHORT if self._uses[names[0]] == 1 and owner else TINY
        return self._uses[names[0]] < MANY and self._size(names[0]) <= most

    def _size(self, name: str) -> int:
        rows = 0
        for spec in self._models[name].get("properties", {}).values():
            names = self._parts_of(spec)
            rows += 1 + (self._size(names[0]) if self._inline(name, names) else 0)
        return rows

    def _links(self, names: list[str], place: str) -> str:
        homes = list(dict.fromkeys(id(self._homes[name]) for name in names))
        links = []
        for home in homes:
            inside = [name for name in names if id(self._homes[name]) == home]
            part = self._homes[inside[0]]
            words = f"{', '.join(self.word(name) for name in inside)}: " if len(part.names) > 1 else ""
            links.append(f"{words}[{part.title if part.title != place else 'keys'}](#{part.anchor})")
        return " or ".join(links)

    def _visit(self, part: Part) -> None:
        """Gives every part below this one its section, depth first."""
        for name in part.names:
            self._below(name, part.title, 2 if not part.title else 3)

    def _below(self, owner: str, path: str, depth: int) -> None:
        for key, spec in self._models[owner].get("properties", {}).items():
            names = self._parts_of(spec)
            place = f"{path}.{key}".lstrip(".") + suffix(spec)
            if self._inline(owner, names):
                self._below(names[0], place, depth)
                continue
            for name in names:
                if name in self._homes and self._homes[name].places and len(self._homes[name].names) == 1:
                    self._homes[name].places.append(place)
            fresh = [name for name in names if name not in self._homes]
            for group in self._grouped(fresh):
                self._open(group, place, depth, alone=len(names) == 1)

    def _grouped(self, names: list[str]) -> list[tuple[str, ...]]:
        if len(names) > 1 and sum(map(self._size, names)) <= ONE_TABLE:
            return [tuple(names)]
        return [(name,) for name in names]

    def _open(self, names: tuple[str, ...], place: str, depth: int, *, alone: bool) -> None:
        if len(names) == 1 and self._uses[names[0]] >= MANY:
            words = plain(names[0])
            taken = any(part.title == words for part in self.parts)
            part = Part(spaced(names[0]) if taken else words, names, depth=3)
        else:
            title = place if alone or len(names) > 1 else f"{place.removesuffix('[]')}[{plain(names[0])}]"
            part = Part(title, names, [place], depth)
        self.parts.append(part)
        self._homes |= dict.fromkeys(names, part)
        for name in names:
            self._below(name, part.title, 3)


def plain(name: str) -> str:
    """A class name as words, without its ending."""
    return spaced(ENDINGS.sub("", name.rpartition("__")[2]))


def spaced(name: str) -> str:
    """A class name as lower-case words."""
    return " ".join(re.findall(r"[A-Z][a-z]*", name)).lower()


def suffix(spec: Schema) -> str:
    """What stands between a key and the keys below it: of a list, of a mapping by name."""
    forms = [spec, *spec.get("anyOf", ())]
    if any("items" in form for form in forms):
        return "[]"
    return ".NAME" if any(isinstance(form.get("additionalProperties"), dict) for form in forms) else ""
