"""Chakra traces in JSON: what `chakra_jsonizer` writes, and the `workload_graph` that Chakra's feeder reads.

`chakra_jsonizer` writes one object after another, the metadata first, in the JSON mapping of protocol buffers (names in
camel case, 64-bit integers as strings, types by name). A `workload_graph` (`json_node.cpp`) is one object with a list.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.work.trace.chakra_nodes import LAST_KIND, ChakraNode, RankTrace
from railyard.work.trace.text_file import MOST, MOST_HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.trace.chakra_nodes import Scalar

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


def decoded(data: bytes) -> RankTrace:
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
        return RankTrace([_node(entry) for entry in _list(nodes, "workload_graph")], _ranks(first.get("ngpus", 0)))
    if isinstance(first, dict) and "nodes" in first and "schema" in first:
        raise InputError(
            "this is PyTorch's trace of the host alone, which has no times",
            hint="link it with the device's trace (chakra_trace_link) and convert it (chakra_converter)",
        )
    return RankTrace([_node(entry) for entry in objects if not _is_metadata(entry)])


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


def _node(entry: Any) -> ChakraNode:
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
    node.attributes |= dict(_attributes(_list(entry.get("attr", []), "attr")))
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


def _attributes(entries: list[Any]) -> Iterator[tuple[str, Scalar]]:
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
