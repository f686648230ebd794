"""Logs of NCCL and RCCL with `NCCL_DEBUG=INFO`: who is connected to whom, over which channel and NIC.

Lines: `host:pid:tid [dev] NCCL INFO Channel 02/0 : 3[3] -> 4[4] [send] via NET/IB/1/GDRDMA comm 0x.. nRanks 16`,
`Channel 00/16 : 0 1 2 3` (the order of a ring), `Trees [0] 1/-1/-1->0->-1 [1] ...` (children, rank, parent of each
channel),
`comm 0x.. rank 0 nranks 16 cudaDev 0 ... commId 0x.. - Init COMPLETE`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railyard.ask.observe.reader import Edge, Piece, Reader, readers
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.ask.observe.sources import Source

_LINE = re.compile(r"(?:NCCL|RCCL) (?:INFO|WARN) (.*)$")
_PROCESS = re.compile(r"^(?:\[[^\]]*\]\s*)*(\S+?:\d+:\d+)")
_CONNECTION = re.compile(
    r"^Channel (\d{1,9})(?:/\d+)? : (\d{1,9})\[[0-9a-f]+\] -> (\d{1,9})\[[0-9a-f]+\]"
    r"(?: \[(?:send|receive)\])? via (\S+)",
    re.IGNORECASE,
)
_RING = re.compile(r"^Channel (\d{1,9})/\d+ :((?:\s+\d{1,9}){2,})\s*$")
_TREE = re.compile(r"\[(\d{1,9})\] (-?\d{1,9})/(-?\d{1,9})/(-?\d{1,9})->(-?\d{1,9})->(-?\d{1,9})(?!\d)")
_READY = re.compile(
    r"comm (0x[0-9a-f]+) rank (\d{1,9}) n[rR]anks (\d{1,9})\b(?:.*commId (0x[0-9a-f]+))?.*Init COMPLETE"
)


def recognises(_: str, head: bytes) -> bool:
    """By the words that stand before every line."""
    return b"NCCL INFO" in head or b"NCCL WARN" in head


def read(source: Source) -> Piece:
    """Rings, trees and connections.

    Raises:
        InputError: The log names no connection.
    """
    piece = Piece(source.name)
    group: dict[str, str] = {}
    edges: dict[tuple[str, int, int, int, str], Edge] = {}
    for line in source.everything().decode("utf-8", errors="replace").splitlines():
        said = _LINE.search(line)
        if said is None:
            continue
        process = _PROCESS.match(line)
        who = process[1] if process else ""
        if "NCCL WARN" in line and len(piece.remarks) < 20:
            piece.remarks.append(f"{who} warns: {said[1][:200]}")
        if ready := _READY.search(said[1]):
            group[who] = ready[4] or ready[1]
            piece.world = max(piece.world, min(int(ready[3]), 1 << 24))
        for edge in _edges(said[1], group.get(who, "")):
            edges.setdefault((edge.group, edge.channel, edge.source, edge.target, edge.pattern), edge)
    piece.edges = list(edges.values())
    if not piece.edges:
        raise InputError("the log names no connection of NCCL", file=source.name, allowed="a log with NCCL_DEBUG=INFO")
    return piece


def _edges(words: str, group: str) -> list[Edge]:
    if found := _CONNECTION.match(words):
        return [Edge(group, int(found[1]), int(found[2]), int(found[3]), found[4])]
    if found := _RING.match(words):
        ranks = [int(word) for word in found[2].split()]
        return [
            Edge(group, int(found[1]), a, b, "", "ring") for a, b in zip(ranks, [*ranks[1:], ranks[0]], strict=True)
        ]
    if not words.startswith("Trees "):
        return []
    listed = []
    for channel, *children, rank, parent in _TREE.findall(words):
        listed += [
            Edge(group, int(channel), int(child), int(rank), "", "tree") for child in children if int(child) >= 0
        ]
        if int(parent) >= 0:
            listed.append(Edge(group, int(channel), int(rank), int(parent), "", "tree"))
    return listed


readers.add("nccl-debug", Reader("nccl-debug", "logs of NCCL or RCCL with NCCL_DEBUG=INFO", recognises, read))
