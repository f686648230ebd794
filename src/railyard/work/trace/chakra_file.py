"""One file of a Chakra trace: protocol buffers, or either form of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.work.trace import chakra_json, chakra_protobuf
from railyard.work.trace.text_file import MOST

if TYPE_CHECKING:
    from railyard.work.trace.chakra_nodes import ChakraNode, RankTrace

_LAST_US = MOST // 10**6


def decoded(data: bytes) -> RankTrace:
    """The trace in the bytes of a file.

    Raises:
        InputError: They are no trace.
    """
    decode = chakra_json.decoded if data.lstrip()[:1] in (b"{", b"[") else chakra_protobuf.decoded
    found = decode(data)
    _check(found.nodes)
    return found


def _check(nodes: list[ChakraNode]) -> None:
    if not nodes:
        raise InputError("the trace holds no nodes")
    if len({node.id for node in nodes}) < len(nodes):
        raise InputError("two nodes of the trace have the same number")
    for node in nodes:
        if not 0 <= node.duration_us <= _LAST_US:
            raise InputError(f"node {node.id} ({node.name}) takes too long", found=node.duration_us)
