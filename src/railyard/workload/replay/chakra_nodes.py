"""Nodes of a Chakra execution trace, read from its file: protocol buffers, or either form of JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError
from railyard.workload.replay.chakra_schema import schema
from railyard.workload.replay.text_file import MOST

if TYPE_CHECKING:
    from collections.abc import Iterator

METADATA, MEM_LOAD, MEM_STORE, COMPUTE, SEND, RECV, COLLECTIVE = range(1, 8)
"""`NodeType` of the schema."""
LAST_KIND = COLLECTIVE

Scalar = int | float | str | bool

_LAST_US = MOST // 10**6


@dataclass
class Node:
    """One node.

    Attributes:
        id: Its number in the trace.
        name: As the framework called it.
        kind: `COMPUTE`, `SEND`, ... as in the schema's `NodeType`.
        duration_us: Measured time.
        control: Nodes that it names as control dependencies.
        data: Nodes that it names as data dependencies.
        attributes: Scalars by name.
    """

    id: int = 0
    name: str = ""
    kind: int = 0
    duration_us: int = 0
    control: list[int] = field(default_factory=list)
    data: list[int] = field(default_factory=list)
    attributes: dict[str, Scalar] = field(default_factory=dict)

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


@dataclass(frozen=True, eq=False)
class RankTrace:
    """The trace of one rank.

    Attributes:
        nodes: In the order of the file.
        ranks: How many ranks the file says that the job has; 0 where it says none.
    """

    nodes: list[Node]
    ranks: int = 0


def decoded(data: bytes) -> RankTrace:
    """The trace in the bytes of a file.

    Raises:
        InputError: They are no trace.
    """
    if data.lstrip()[:1] in (b"{", b"["):
        from railyard.workload.replay.chakra_json import decoded as from_json

        found = from_json(data)
    else:
        found = RankTrace([_node(message) for message in _messages(data)])
    _check(found.nodes)
    return found


def _check(nodes: list[Node]) -> None:
    if not nodes:
        raise InputError("the trace holds no nodes")
    if len({node.id for node in nodes}) < len(nodes):
        raise InputError("two nodes of the trace have the same number")
    for node in nodes:
        if not 0 <= node.duration_us <= _LAST_US:
            raise InputError(f"node {node.id} ({node.name}) takes too long", found=node.duration_us)


def _messages(data: bytes) -> Iterator[Any]:
    """The nodes of a file: each message is preceded by its length, and the metadata stands first.

    Raises:
        InputError: The file ends within a message, or one cannot be read.
    """
    from google.protobuf.message import DecodeError

    kinds, at = schema(), 0
    while at < len(data):
        first = at == 0
        width, at = _length(data, at)
        if at + width > len(data):
            raise InputError("the trace ends within a message", found=f"byte {at}")
        message = kinds.metadata() if first else kinds.node()
        try:
            message.ParseFromString(data[at : at + width])
        except DecodeError as error:
            raise InputError("this is no protocol buffer", found=f"byte {at}: {error}") from None
        at += width
        if not first:
            yield message


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A variable-length integer and the place behind it (protobuf.dev, "Encoding").

    Raises:
        InputError: The bytes end within it, or it has more than ten.
    """
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise InputError("the trace ends within a number", found=f"byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise InputError("a number of more than ten bytes: this is no protocol buffer", found=f"byte {at}")


def _node(message: Any) -> Node:
    return Node(
        id=message.id,
        name=message.name,
        kind=message.type,
        duration_us=message.duration_micros,
        control=list(message.ctrl_deps),
        data=list(message.data_deps),
        attributes=dict(_attributes(message.attr)),
    )


def _attributes(entries: Any) -> Iterator[tuple[str, Scalar]]:
    """Names and values of the attributes that are scalars."""
    for entry in entries:
        for kind, value in entry.ListFields():
            if kind.name != "name" and not isinstance(value, bytes):
                yield entry.name, value
