"""Nodes of a Chakra execution trace, read from its file.

The schema is `et_def.proto` of mlcommons/chakra: a file holds its metadata and then the nodes of one rank, each message
preceded by its length.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.errors import InputError
from railyard.workload.replay.protobuf import FOUR, LENGTH, fields, fixed, messages, packed, signed, zigzag
from railyard.workload.replay.text_file import MOST, content

if TYPE_CHECKING:
    from pathlib import Path

METADATA, MEM_LOAD, MEM_STORE, COMPUTE, SEND, RECV, COLLECTIVE = range(1, 8)
LAST_KIND = 10

_ID, _NAME, _KIND, _CONTROL, _DATA, _DURATION, _ATTRIBUTE = 1, 2, 3, 4, 5, 7, 10
_LAST_US = MOST // 10**6
_FIXED = {3: "d", 5: "f", 19: "I", 23: "i", 21: "Q", 25: "q"}
_ZIGZAG = {15, 17}
_TEXT = 29


@dataclass
class Node:
    """One node.

    Attributes:
        id: Its number in the trace.
        name: As the framework called it.
        kind: `COMPUTE`, `SEND`, ... as in the schema's `NodeType`.
        duration_us: Measured time.
        after: Nodes that must be done, control and data alike.
        attributes: Scalars by name.
    """

    id: int = 0
    name: str = ""
    kind: int = 0
    duration_us: int = 0
    after: list[int] = field(default_factory=list)
    attributes: dict[str, int | float | str] = field(default_factory=dict)

    def number(self, key: str, *, high: int = MOST, default: int | None = None) -> int:
        """An attribute that must be a whole number.

        Raises:
            InputError: It is missing without a default, or out of range.
        """
        value = self.attributes.get(key, default)
        if value is None:
            raise InputError(f"node {self.id} ({self.name}) has no attribute `{key}`")
        if isinstance(value, str) or not 0 <= value <= high:
            raise InputError(
                f"node {self.id} ({self.name}): `{key}` is out of range", found=value, allowed=f"0 to {high}"
            )
        return int(value)


def read(path: Path) -> list[Node]:
    """The nodes of one rank, in the order of the file.

    Raises:
        InputError: The file cannot be read, or is no trace.
    """
    try:
        _, *nodes = [*messages(content(path))] or [b""]
        found = [_node(message) for message in nodes]
        _check(found)
    except InputError as error:
        raise error.located(file=path) from None
    return found


def _check(nodes: list[Node]) -> None:
    known = {node.id for node in nodes}
    if not nodes:
        raise InputError("the trace holds no nodes")
    if len(known) < len(nodes):
        raise InputError("two nodes of the trace have the same number")
    for node in nodes:
        missing = [other for other in node.after if other not in known]
        if missing:
            raise InputError(f"node {node.id} ({node.name}) waits for a node that is not there", found=missing[0])
        if not 0 < node.kind <= LAST_KIND:
            raise InputError(f"node {node.id} ({node.name}) is of no known type", found=node.kind)
        if node.duration_us > _LAST_US:
            raise InputError(f"node {node.id} ({node.name}) takes too long", found=node.duration_us)


def _node(message: bytes) -> Node:
    node = Node()
    for number, kind, value in fields(message):
        if number in {_CONTROL, _DATA}:
            node.after.extend(packed(kind, value))
        elif number == _ATTRIBUTE and isinstance(value, bytes):
            name, scalar = _attribute(value)
            if scalar is not None:
                node.attributes[name] = scalar
        elif number == _NAME and isinstance(value, bytes):
            node.name = value.decode(errors="replace")
        elif number in _PLAIN and isinstance(value, int):
            setattr(node, _PLAIN[number], value)
    return node


_PLAIN = {_ID: "id", _KIND: "kind", _DURATION: "duration_us"}


def _attribute(message: bytes) -> tuple[str, int | float | str | None]:
    """Name and value of an attribute; None where it is a list or bytes."""
    name, scalar = "", None
    found: int | float | str | None = None
    for number, kind, value in fields(message):
        if number == 1 and isinstance(value, bytes):
            name = value.decode(errors="replace")
            continue
        found = _scalar(number, kind, value)
        scalar = found if found is not None else scalar
    return name, scalar


def _scalar(number: int, kind: int, value: int | bytes) -> int | float | str | None:
    if isinstance(value, int):
        return zigzag(value) if number in _ZIGZAG else signed(value)
    if number in _FIXED and kind != LENGTH:
        layout = _FIXED[number]
        right = (kind == FOUR) == (len(value) == 4) and (layout in "fIi") == (kind == FOUR)
        return fixed(value, layout) if right else None
    return value.decode(errors="replace") if number == _TEXT else None
