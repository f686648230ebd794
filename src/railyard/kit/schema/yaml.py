"""YAML text to a tree that remembers where every key and value stands, for scenarios, catalogues and mixed fabrics.

Only the plain part of YAML is read: mappings, lists, scalars, anchors. The scalars follow YAML 1.2's core schema,
because YAML 1.1 reads the oversubscription `3:1` as the number 181 and the country `no` as false. Tags are refused: a
file is data, and one from elsewhere must not be able to build objects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from railyard.kit.errors import InputError, Problem
from railyard.kit.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 40
MAX_NODES = 100_000
MAX_DIGITS = 300
_SHOWN = 60

_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}


@dataclass(frozen=True)
class Mark:
    """Place in a file; line and column from 1, or None for what came from the command line or from Python."""

    file: str
    line: int | None = None
    column: int | None = None

    def problem(self, message: str, **details: Any) -> Problem:
        """A problem at this place."""
        return Problem(message, file=self.file, line=self.line, column=self.column, **details)


@dataclass(frozen=True)
class Node:
    """A value with its place: a scalar, a `dict[str, Node]` or a `list[Node]`.

    Attributes:
        value: The scalar, the mapping or the list.
        keys: Where each key of a mapping stands.
        size: Number of values below and including this one, anchors counted as often as they are used.
        text: A scalar as it is written, without quotes; None for a list or a mapping, and for values from Python.
    """

    value: Any
    mark: Mark
    keys: Mapping[str, Mark] = field(default_factory=dict)
    size: int = 1
    text: str | None = None

    @property
    def items(self) -> list[Node] | None:
        """The list; None for anything else."""
        return self.value if isinstance(self.value, list) else None

    @property
    def mapping(self) -> dict[str, Node] | None:
        """The mapping; None for anything else."""
        return self.value if isinstance(self.value, dict) else None

    def problem(self, message: str, **details: Any) -> Problem:
        """A problem at this place."""
        return self.mark.problem(message, **details)

    def place_of(self, key: str) -> Mark:
        """Place of a key of a mapping; the mapping's own place for a key that it lacks."""
        return self.keys.get(key, self.mark)

    def plain(self) -> Any:
        """The same as ordinary Python values."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


def read(path: Path, *, if_empty: str | None = None) -> Node:
    """Reads a YAML file whose top level is a mapping.

    Args:
        path: The file.
        if_empty: Hint for a file without a value.

    Raises:
        InputError: The file is missing, unreadable, too large, no text, no YAML or no mapping.
    """
    return parse_mapping(_text(path), str(path), if_empty=if_empty)


def parse_mapping(text: str, file: str, *, if_empty: str | None = None) -> Node:
    """Reads YAML text whose top level must be a mapping.

    Args:
        text: YAML.
        file: Name for messages.
        if_empty: Hint for a text without a value.

    Raises:
        InputError: With the place of every fault that can be found in one pass.
    """
    node = parse(text, file)
    if not isinstance(node.value, dict):
        if node.value is None:
            raise InputError("the file is empty", file=file, allowed="a mapping of keys", hint=if_empty)
        raise InputError.many([node.mark.problem(f"expected a mapping of keys, got {kind_of(node.value)}")])
    return node


def parse(text: str, file: str) -> Node:
    """Reads one YAML value.

    Raises:
        InputError: The text is no YAML, or uses a part of it that is not read here.
    """
    import yaml

    try:
        return _Builder(events_of(text), file).document()
    except UnicodeEncodeError as error:
        reason = f"this is not text: byte {ord(error.object[error.start]) & 0xFF} is not UTF-8"
        raise InputError(reason, file=file, line=text.count("\n", 0, error.start) + 1) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        reason = f"this is not valid YAML: the character U+{ord(_character(error)):04X} is not allowed"
        raise InputError(reason, file=file, line=line) from None
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, file) from None


def events_of(text: str) -> Iterator[Any]:
    """PyYAML's events of a text, by its C library where that is installed."""
    import yaml

    return iter(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def from_plain(value: Any, mark: Mark) -> Node:
    """A tree of ordinary Python values, all at the same place.

    Raises:
        InputError: A key is no text.
    """
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise InputError.many([mark.problem(f"expected text for a key, got {key!r}")])
        children = {key: from_plain(item, mark) for key, item in value.items()}
        return Node(children, mark, dict.fromkeys(children, mark), 1 + sum(child.size for child in children.values()))
    if isinstance(value, list | tuple):
        items = [from_plain(item, mark) for item in value]
        return Node(items, mark, size=1 + sum(item.size for item in items))
    return Node(value, mark)


def to_text(plain: Mapping[str, Any]) -> str:
    """Plain values as YAML text that `parse_mapping` reads back to the same values."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Quotes what YAML 1.2 would not read as text, which PyYAML, at YAML 1.1, does not know."""

    def text_node(dumper: Any, text: str) -> Any:
        quoted = not isinstance(resolve(text), str)
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if quoted else None)

    Dumper.add_representer(str, text_node)
    text: str = yaml.dump(dict(plain), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text


def kind_of(value: Any) -> str:
    """Kind of a value, in the words of a user of YAML."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value[:_SHOWN]}'" if isinstance(value, str) else f"{value}"


def _text(path: Path) -> str:
    if path.is_dir():
        raise InputError("this is a folder, expected a file", file=path)
    try:
        data = read_bytes(path, MAX_BYTES)
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise InputError("there is no such file", file=path, hint=_neighbour(path)) from None
        raise
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("the file is not UTF-8 text", file=path, line=line) from None


def _neighbour(path: Path) -> str | None:
    from railyard.kit.errors import did_you_mean

    try:
        names = sorted(
            str(path.parent / entry.name) for entry in path.parent.iterdir() if entry.suffix in {".yaml", ".yml"}
        )
    except OSError:
        return None
    return did_you_mean(str(path), names)


def _character(error: Any) -> str:
    return error.character if isinstance(error.character, str) else chr(error.character)


def _syntax_error(error: Any, file: str) -> InputError:
    mark = error.problem_mark or error.context_mark
    words = "; ".join(part for part in (error.context, error.problem) if part)
    place = {} if mark is None else {"line": mark.line + 1, "column": mark.column + 1}
    return InputError(f"this is not valid YAML: {words}", file=file, hint=error.note, **place)


class _Builder:
    """Builds the tree from PyYAML's events, so that depth, size, duplicates and places are all in our hands."""

    def __init__(self, events: Iterator[Any], file: str) -> None:
        self.events = events
        self.file = file
        self.anchors: dict[str, Node] = {}
        self.problems: list[Problem] = []

    def document(self) -> Node:
        import yaml

        node = Node(None, Mark(self.file))
        documents = 0
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self.refuse(event, "a second document starts here; a file holds one")
                node = self.value(next(self.events), 0)
        if self.problems:
            raise InputError.many(self.problems)
        return node

    def value(self, event: Any, depth: int) -> Node:
        import yaml

        if depth > MAX_DEPTH:
            self.refuse(event, f"nested more than {MAX_DEPTH} deep")
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event)
        if event.tag not in (None, "!"):
            self.refuse(event, f"tags such as `{event.tag}` are not read")
        if isinstance(event, yaml.ScalarEvent):
            node = Node(_scalar(event), self.mark(event), text=event.value.strip())
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self.sequence(event, depth)
        else:
            node = self.mapping(event, depth)
        if node.size > MAX_NODES:
            self.refuse(event, f"more than {MAX_NODES} values")
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def alias(self, event: Any) -> Node:
        if event.anchor not in self.anchors:
            self.refuse(event, f"the alias `*{event.anchor}` has no anchor `&{event.anchor}` before it")
        return self.anchors[event.anchor]

    def sequence(self, start: Any, depth: int) -> Node:
        import yaml

        items = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.value(event, depth + 1))
        return Node(items, self.mark(start), size=1 + sum(item.size for item in items))

    def mapping(self, start: Any, depth: int) -> Node:
        import yaml

        children: dict[str, Node] = {}
        keys: dict[str, Mark] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                self.refuse(event, "a key must be a word")
            key, mark = event.value, self.mark(event)
            if key == "<<":
                self.refuse(event, "merge keys (`<<`) are not read; write the keys out")
            child = self.value(next(self.events), depth + 1)
            if key in children:
                self.problems.append(
                    mark.problem(f"the key `{key}` appears twice", hint=f"the first is in line {keys[key].line}")
                )
                continue
            children[key], keys[key] = child, mark
        return Node(children, self.mark(start), keys, 1 + sum(child.size for child in children.values()))

    def mark(self, event: Any) -> Mark:
        return Mark(self.file, event.start_mark.line + 1, event.start_mark.column + 1)

    def refuse(self, event: Any, message: str) -> NoReturn:
        raise InputError.many([*self.problems, self.mark(event).problem(message)])


def _scalar(event: Any) -> Any:
    text: str = event.value
    return resolve(text) if event.implicit[0] else text


def resolve(text: str) -> Any:
    """The value of an unquoted scalar by YAML 1.2's core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= MAX_DIGITS:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
    return text
