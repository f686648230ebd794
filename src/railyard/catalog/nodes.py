"""YAML text to nodes that know their place, for catalogue files.

A deliberately small part of YAML: mappings with text keys, lists, scalars. Anchors, tags and duplicate keys are
refused: a file of facts needs none, and each has a way of saying something else than it seems to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 20
# What YAML itself gives to untagged values; their text is read by the field's own reader, never by YAML's.
PLAIN_TAGS = {
    f"tag:yaml.org,2002:{kind}"
    for kind in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp", "merge", "value")
}


@dataclass(frozen=True)
class Node:
    """A value and its place.

    Attributes:
        value: Text of a scalar, a list of nodes, or a mapping of `Key` to node.
        file: The file's name.
        line: From 1.
        column: From 1.
        quoted: Whether a scalar stands in quotes.
    """

    value: str | list[Node] | dict[str, tuple[Node, Node]]
    file: str
    line: int
    column: int
    quoted: bool = False

    @property
    def text(self) -> str | None:
        """The scalar's text; None for a list or a mapping."""
        return self.value if isinstance(self.value, str) else None

    @property
    def items(self) -> list[Node] | None:
        """The list; None for anything else."""
        return self.value if isinstance(self.value, list) else None

    @property
    def mapping(self) -> dict[str, Node] | None:
        """The mapping; None for anything else."""
        return {key: value for key, (_, value) in self.value.items()} if isinstance(self.value, dict) else None

    def key(self, name: str) -> Node:
        """The place of a key in a mapping; the mapping's own for a key that it lacks."""
        return self.value[name][0] if isinstance(self.value, dict) and name in self.value else self

    def problem(self, message: str, **details: Any) -> Problem:
        """A problem at this place."""
        return Problem(message, file=self.file, line=self.line, column=self.column, **details)

    def kind(self) -> str:
        """What it is, in words."""
        if isinstance(self.value, str):
            return f"`{self.value[:60]}`" if self.value else "nothing"
        return "a list" if isinstance(self.value, list) else "a mapping"


def mapping_of(pairs: dict[str, Node], place: Node) -> Node:
    """A mapping made of nodes that stand elsewhere, at the place of another."""
    value = {name: (node, node) for name, node in pairs.items()}
    return Node(value, place.file, place.line, place.column)


def read(path: Path) -> Node:
    """The mapping in a YAML file.

    Raises:
        InputError: No such file, not text, not YAML, or no mapping at the top.
    """
    return parse(read_text(path), str(path))


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        InputError: The file is missing, a folder, unreadable, too large or not UTF-8.
    """
    if not path.is_file():
        raise InputError("there is no such file", file=path, key=str(path))
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None
    if len(raw) > MAX_BYTES:
        raise InputError(
            f"is too large for a catalogue file: {len(raw)} bytes", file=path, allowed=f"{MAX_BYTES} bytes"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError("is not UTF-8 text", file=path, line=line) from None


def parse(text: str, file: str) -> Node:
    """The mapping in YAML text.

    Args:
        text: YAML.
        file: Name for messages.

    Raises:
        InputError: Not YAML, or no mapping at the top.
    """
    root = _compose(text, file)
    if root is None:
        raise InputError("the file is empty", file=file, line=1)
    node = _convert(root, file, 0, set())
    if node.mapping is None:
        raise InputError.many(
            [node.problem("the file must hold keys and values", found=node.kind(), allowed="a mapping")]
        )
    return node


def _compose(text: str, file: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise InputError(
            f"is not YAML: {error.problem or error.context}", file=file, line=line, column=column
        ) from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1 if isinstance(error.position, int) else None
        raise InputError(f"is not YAML: {error.reason}", file=file, line=line) from None
    except RecursionError:
        raise InputError("is nested too deep", file=file, allowed=f"{MAX_DEPTH} levels") from None


def _convert(root: Any, file: str, depth: int, seen: set[int]) -> Node:
    line, column = root.start_mark.line + 1, root.start_mark.column + 1
    if id(root) in seen:
        raise InputError("anchors and aliases are not read in catalogue files", file=file, line=line, column=column)
    seen.add(id(root))
    if depth > MAX_DEPTH:
        raise InputError("is nested too deep", file=file, line=line, column=column, allowed=f"{MAX_DEPTH} levels")
    if root.tag not in PLAIN_TAGS:
        raise InputError(f"the tag `{root.tag}` is not read in catalogue files", file=file, line=line, column=column)
    if root.id == "scalar":
        return Node(root.value.strip(), file, line, column, quoted=root.style in ("'", '"'))
    if root.id == "sequence":
        return Node([_convert(item, file, depth + 1, seen) for item in root.value], file, line, column)
    return Node(dict(_pairs(root, file, depth, seen)), file, line, column)


def _pairs(root: Any, file: str, depth: int, seen: set[int]) -> Iterator[tuple[str, tuple[Node, Node]]]:
    names: set[str] = set()
    for left, right in root.value:
        key = _convert(left, file, depth + 1, seen)
        if key.text is None:
            raise InputError.many([key.problem("a key must be a word", found=key.kind())])
        if key.text in names:
            raise InputError.many([key.problem("stands twice", key=key.text)])
        names.add(key.text)
        yield key.text, (key, _convert(right, file, depth + 1, seen))
