"""Fields of protocol buffers, read from the wire format: the little of it that a trace needs.

A message is a row of fields, each a tag (number and wire type) and a value: a variable-length integer, eight bytes, a
length and so many bytes, or four bytes. Source: the encoding guide of Protocol Buffers (protobuf.dev, "Encoding").
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from railyard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5
_WIDTH = {EIGHT: 8, FOUR: 4}
_MASK = (1 << 64) - 1


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An integer and the place behind it.

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
            return value & _MASK, at
    raise InputError("a number of more than ten bytes: this is no protocol buffer", found=f"byte {at}")


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, wire type and value of every field of a message.

    Raises:
        InputError: The bytes are no message.
    """
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = varint(data, at)
            yield number, kind, value
            continue
        if kind == LENGTH:
            width, at = varint(data, at)
        elif kind in _WIDTH:
            width = _WIDTH[kind]
        else:
            raise InputError(
                "a field of unknown wire type: this is no protocol buffer", found=f"type {kind}, byte {at}"
            )
        if at + width > len(data):
            raise InputError("the trace ends within a field", found=f"byte {at}")
        yield number, kind, data[at : at + width]
        at += width


def messages(data: bytes) -> Iterator[bytes]:
    """The messages of a file in which each is preceded by its length.

    Raises:
        InputError: The file ends within one.
    """
    at = 0
    while at < len(data):
        width, at = varint(data, at)
        if at + width > len(data):
            raise InputError("the trace ends within a message", found=f"byte {at}")
        yield data[at : at + width]
        at += width


def signed(value: int) -> int:
    """An `int64` or `int32` as it was written."""
    return value - (1 << 64) if value >> 63 else value


def zigzag(value: int) -> int:
    """An `sint64` or `sint32` as it was written."""
    return (value >> 1) ^ -(value & 1)


def fixed(value: bytes, layout: str) -> float:
    """A number of four or eight bytes; `layout` as in `struct`."""
    return float(struct.unpack("<" + layout, value)[0])


def packed(kind: int, value: int | bytes) -> list[int]:
    """The integers of a repeated field, packed or one by one.

    Raises:
        InputError: The field holds no integers.
    """
    if isinstance(value, int):
        return [value]
    if kind != LENGTH:
        raise InputError("a list of numbers expected: this is no execution trace")
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found
