"""Chakra traces in protocol buffers: each message is preceded by its length, and the metadata stands first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.work.trace.chakra_nodes import ChakraNode, RankTrace
from railyard.work.trace.chakra_schema import schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.trace.chakra_nodes import Scalar


def decoded(data: bytes) -> RankTrace:
    """The trace in the bytes of a file.

    Raises:
        InputError: They are no trace.
    """
    return RankTrace([_node(message) for message in _messages(data)])


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
            raise InputError("not a protocol buffer", found=f"byte {at}: {error}") from None
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
    raise InputError("a varint of more than ten bytes: not a protocol buffer", found=f"byte {at}")


def _node(message: Any) -> ChakraNode:
    return ChakraNode(
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
