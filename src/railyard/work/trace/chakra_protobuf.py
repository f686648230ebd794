"""Chakra traces in protocol buffers: each message is preceded by its length, and the metadata stands first."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from railyard.kit.errors import InputError
from railyard.work.trace.builder import MOST, MOST_HOSTS
from railyard.work.trace.chakra_order import LAST_KIND, ChakraNode, RankTrace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.trace.chakra_order import Scalar


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


_KINDS = (
    "INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE", "COMM_SEND_NODE",
    "COMM_RECV_NODE", "COMM_COLL_NODE",
)  # fmt: skip
_KEYS = {
    "id": ("id", "Id"),
    "name": ("name", "Name"),
    "kind": ("type", "NodeType"),
    "duration": ("durationMicros", "duration_micros", "runtime"),
    "control": ("ctrlDeps", "ctrl_deps"),
    "data": ("dataDeps", "data_deps"),
}
_FIELDS = frozenset({name for names in _KEYS.values() for name in names} | {"attr", "inputs", "outputs"})


def decoded_json(data: bytes) -> RankTrace:
    """The trace in the text of a file.

    Raises:
        InputError: It is no JSON, or no trace.
    """
    try:
        objects = [*_objects(data.decode())]
    except UnicodeDecodeError as error:
        raise InputError("the file is not text in UTF-8", found=f"byte {error.start}") from None
    except RecursionError:
        raise InputError("the JSON is nested too deeply") from None
    first = objects[0] if objects else None
    if isinstance(first, dict) and "workload_graph" in first:
        nodes = first["workload_graph"]
        return RankTrace(
            [_chakra_json_node(entry) for entry in _list(nodes, "workload_graph")], _ranks(first.get("ngpus", 0))
        )
    if isinstance(first, dict) and "nodes" in first and "schema" in first:
        raise InputError(
            "this is PyTorch's trace of the host alone, which has no times",
            hint="link it with the device's trace (chakra_trace_link) and convert it (chakra_converter)",
        )
    return RankTrace([_chakra_json_node(entry) for entry in objects if not _is_metadata(entry)])


def _objects(text: str) -> Iterator[Any]:
    """The values of a text in which one follows another.

    Raises:
        InputError: One is no JSON; with the line.
    """
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise InputError(f"the trace is not JSON: {error.msg}", line=error.lineno) from None
        except ValueError as error:  # an integer of too many digits
            raise InputError("the trace is not JSON", found=str(error)) from None
        yield value
        while text[at : at + 1].isspace():
            at += 1


def _is_metadata(entry: Any) -> bool:
    """Whether an object is the metadata that stands before the nodes: it has neither number nor type."""
    return isinstance(entry, dict) and not any(key in entry for key in (*_KEYS["id"], *_KEYS["kind"], *_KEYS["name"]))


def _list(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"expected a list in `{key}`", found=type(value).__name__)
    return value


def _ranks(value: Any) -> int:
    return _integer(value, "ngpus") if _integer(value, "ngpus") <= MOST_HOSTS else 0


def _chakra_json_node(entry: Any) -> ChakraNode:
    if not isinstance(entry, dict):
        raise InputError("expected an object a node", found=type(entry).__name__)
    found = {name: next((entry[key] for key in keys if key in entry), None) for name, keys in _KEYS.items()}
    node = ChakraNode(
        id=_integer(found["id"] or 0, "id"),
        name=str(found["name"] or ""),
        kind=_kind(found["kind"]),
        duration_us=_integer(found["duration"] or 0, "duration"),
        control=[_integer(one, "control dependency") for one in _list(found["control"] or [], "ctrlDeps")],
        data=[_integer(one, "data dependency") for one in _list(found["data"] or [], "dataDeps")],
    )
    node.attributes |= {key: value for key, value in entry.items() if key not in _FIELDS and _is_scalar(value)}
    node.attributes |= dict(_chakra_json_attributes(_list(entry.get("attr", []), "attr")))
    return node


def _is_scalar(value: Any) -> bool:
    return isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value))


def _kind(value: Any) -> int:
    if isinstance(value, str) and value in _KINDS:
        return _KINDS.index(value)
    kind = _integer(value or 0, "node type")
    return kind if kind <= LAST_KIND else 0


def _integer(value: Any, what: str) -> int:
    """An integer, also as the text that 64-bit integers are in JSON.

    Raises:
        InputError: It is none, or out of range.
    """
    text = str(value)
    if isinstance(value, bool | float) or not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise InputError(f"{what}: expected an integer", found=value)
    if int(text) > MOST and what == "duration":
        raise InputError(f"{what} is out of range", found=text)
    return int(text)


def _chakra_json_attributes(entries: list[Any]) -> Iterator[tuple[str, Scalar]]:
    """Names and values of the attributes that are scalars: `{"name": "comm_size", "int64Val": "600"}`."""
    for entry in entries:
        if not isinstance(entry, dict):
            raise InputError("expected an object an attribute", found=type(entry).__name__)
        for key, value in entry.items():
            if key != "name" and key.lower().endswith("val") and _is_scalar(value):
                yield str(entry.get("name", "")), _scalar(key, value)


def _scalar(key: str, value: Scalar) -> Scalar:
    """A value as its key says: integers of 64 bits come as text."""
    is_integer = "int" in key.lower() or "fixed" in key.lower()
    text = str(value).removeprefix("-")
    return int(value) if is_integer and text.isascii() and text.isdigit() and len(text) <= 20 else value


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
    kinds, at = schema(), 0
    from google.protobuf.message import DecodeError  # after `schema`, which says how to install it

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
