"""Chakra traces of MLCommons: nodes with durations and dependencies, protocol buffers or JSON, one file per rank.

The converters write no start times. So the timeline is the one in which every node runs as soon as the nodes that it
names have ended and its thread or stream is free: what the trace alone implies.
"""

from __future__ import annotations

import re
from collections import deque
from pathlib import PurePath
from typing import TYPE_CHECKING

from railyard.ask.observe.kernels import COMMUNICATION, COMPUTE, COPY_PHASE, KernelRows, kind_of
from railyard.ask.observe.reader import Piece, Reader, readers
from railyard.kit.errors import InputError
from railyard.work.trace.chakra import decoded
from railyard.work.trace.chakra_order import COLLECTIVE, KINDS, MEM_LOAD, MEM_STORE, RECV, SEND

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.ask.observe.reader import TraceSource
    from railyard.work.trace.chakra_order import ChakraNode

_RANK = re.compile(r"(\d{1,9})\.(?:et|json)(?:\.gz)?$")
_KEYS = (b'"workload_graph"', b'"ctrlDeps"', b'"NodeType"', b'"durationMicros"')
_COMMUNICATIONS, _COPIES = (SEND, RECV, COLLECTIVE), (MEM_LOAD, MEM_STORE)


def recognises(name: str, head: bytes) -> bool:
    """Recognises the ending `.et`, or the keys of its JSON."""
    text = head.lstrip()[:1] in (b"{", b"[")
    return any(key in head for key in _KEYS) if text else PurePath(name.removesuffix(".gz")).suffix == ".et"


def read(source: TraceSource) -> Piece:
    """Reads the kernels of the device, or of the host if the device ran none.

    Raises:
        InputError: It is no Chakra trace.
    """
    nodes = decoded(source.everything()).nodes
    device = [node for node in nodes if node.attributes.get("is_cpu_op") is False]
    ran = {id(node) for node in device or nodes}
    rows = KernelRows()
    for node, start_us in _timeline(nodes):
        if id(node) in ran and node.duration_us > 0:
            _add(rows, node, start_us)
    if not len(rows):
        raise InputError("no node of the trace has a duration", file=source.name)
    piece = Piece(source.name, kernels=rows.columns(), timed=True)
    found = _RANK.search(PurePath(source.name).name)
    piece.rank = int(found[1]) if found else None
    piece.remarks.append(
        "the trace has durations and no times: nodes run as soon as those that they wait for have ended"
    )
    if not device:
        piece.remarks.append("no node of it ran on a device: times are the host's")
    return piece


def _timeline(nodes: Sequence[ChakraNode]) -> Iterator[tuple[ChakraNode, int]]:
    """Every node and when it starts, us; those on a cycle of dependencies come last, in the order of the file."""
    place = {node.id: number for number, node in enumerate(nodes)}
    waits = [
        {place[one] for one in (*node.data, *node.control) if one in place} - {at} for at, node in enumerate(nodes)
    ]
    followers: list[list[int]] = [[] for _ in nodes]
    for at, those in enumerate(waits):
        for one in those:
            followers[one].append(at)
    missing = [len(those) for those in waits]
    front = deque(at for at, count in enumerate(missing) if not count)
    end_us = [-1] * len(nodes)
    free_us: dict[tuple[object, object], int] = {}

    def run(at: int) -> tuple[ChakraNode, int]:
        node = nodes[at]
        lane = node.attributes.get("is_cpu_op"), node.attributes.get("tid", node.attributes.get("stream"))
        start = max([free_us.get(lane, 0), *(end_us[one] for one in waits[at])])
        end_us[at] = free_us[lane] = start + node.duration_us
        return node, start

    while front:
        at = front.popleft()
        yield run(at)
        for one in followers[at]:
            missing[one] -= 1
            if not missing[one]:
                front.append(one)
    for at, end in enumerate(end_us):
        if end < 0:
            yield run(at)


def _add(rows: KernelRows, node: ChakraNode, start_us: int) -> None:
    about = node.attributes
    talks = node.kind in _COMMUNICATIONS
    phase = COMMUNICATION if talks else COPY_PHASE if node.kind in _COPIES else COMPUTE
    size, called = about.get("comm_size", 0), about.get("comm_type")
    named = KINDS[called].lower() if isinstance(called, int) and 0 <= called < len(KINDS) else ""
    lane = about.get("tid", about.get("stream", 0))
    rows.add(
        phase,
        node.name,
        1000 * start_us,
        1000 * node.duration_us,
        stream=lane if isinstance(lane, int) else 0,
        kind=(kind_of(node.name) or named) if talks else "",
        group=str(about.get("pg_name", "")) if talks else "",
        size_bytes=size if talks and isinstance(size, int) and 0 <= size < 1 << 62 else 0,
    )


readers.enter(Reader("chakra", "Chakra execution traces: protocol buffers or JSON", recognises, read))
