"""Messages of a Chakra execution trace, as `et_def.proto` of mlcommons/chakra (1.0.0) defines them.

The schema is made at run time, by the library, instead of by its compiler: what a trace needs of it is a page.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from railyard.kit.errors import InputError

_PACKAGE = "ChakraProtoMsg"
_SCALARS = (
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
    "sfixed64", "bool", "string", "bytes",
)  # fmt: skip
_FIRST_VALUE = 3
"""Number of `double_val` in `AttributeProto`; each kind of scalar takes this number and the next one, for its list."""

_NODE = (
    ("id", "uint64", 1), ("name", "string", 2), ("type", "int32", 3), ("ctrl_deps", "repeated uint64", 4),
    ("data_deps", "repeated uint64", 5), ("start_time_micros", "uint64", 6), ("duration_micros", "uint64", 7),
    ("attr", "repeated AttributeProto", 10),
)  # fmt: skip
_METADATA = (("version", "string", 1), ("attr", "repeated AttributeProto", 2))


class Schema(NamedTuple):
    """Classes of the messages that a file holds: one `GlobalMetadata`, then one `Node` after another."""

    metadata: Any
    node: Any


@cache
def schema() -> Schema:
    """The messages.

    Raises:
        InputError: The library is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise InputError(
            "Chakra traces need the protobuf library", hint='pip install "railyard[chakra]", or convert them to JSON'
        ) from None
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package=_PACKAGE, syntax="proto3")
    values = [(f"{kind}_val", kind, _FIRST_VALUE + 2 * at) for at, kind in enumerate(_SCALARS)]
    _message(file, "AttributeProto", (("name", "string", 1), *values))
    _message(file, "Node", _NODE)
    _message(file, "GlobalMetadata", _METADATA)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in ("GlobalMetadata", "Node")
    )
    return Schema(*classes)


def _message(file: Any, name: str, fields: tuple[tuple[str, str, int], ...]) -> None:
    """Adds a message of optional scalars, repeated scalars and repeated messages."""
    message = file.message_type.add(name=name)
    for field, kind, number in fields:
        *repeated, word = kind.split()
        entry = message.field.add(name=field, number=number)
        entry.label = entry.LABEL_REPEATED if repeated else entry.LABEL_OPTIONAL
        if word in _SCALARS:
            entry.type = getattr(entry, f"TYPE_{word.upper()}")
        else:
            entry.type, entry.type_name = entry.TYPE_MESSAGE, f".{_PACKAGE}.{word}"
        if name == "AttributeProto" and number >= _FIRST_VALUE:
            entry.proto3_optional = True
            entry.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field}")
