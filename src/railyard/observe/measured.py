"""What was read as a record: a row a kernel, times of one clock from the first of them on."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.errors import InputError
from railyard.graph import Label, Record
from railyard.observe.clocks import aligned
from railyard.observe.reader import COMMUNICATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.observe.clocks import Clock, Ends
    from railyard.observe.gather import Gathered
    from railyard.observe.reader import Kernel, Piece

_LONGEST_NS = (1 << 63) // 2000
"""Longest trace in nanoseconds of which picoseconds still fit in 64 bits, with room to spare: 53 days."""


def record_of(found: Gathered) -> Record:
    """The kernels of all ranks.

    Raises:
        InputError: No trace of times was read, or its times lie too far apart.
    """
    pieces = [piece for piece in found.pieces if piece.timed and piece.kernels]
    if not pieces:
        raise InputError("no kernel was found: there is nothing to measure", found="; ".join(found.remarks[:4]) or None)
    numbered = {_rank(piece): _numbered(piece.kernels) for piece in pieces}
    clocks = aligned({rank: _ends(kernels) for rank, kernels in numbered.items()})
    rows = [(rank, kernel, number) for rank, kernels in numbered.items() for kernel, number in kernels]
    ahead = np.array([clocks[rank].ahead_ns for rank, _, _ in rows], object)
    start = np.array([kernel.start_ns for _, kernel, _ in rows], object) - ahead
    first = min(start)
    if max(start) - first > _LONGEST_NS:
        raise InputError("times of the traces lie more than 53 days apart", found=f"{max(start) - first} ns")
    begin = (start - first).astype(np.int64)
    duration = np.array([kernel.duration_ns for _, kernel, _ in rows], np.int64)
    labels, what = _labels([kernel for _, kernel, _ in rows])
    groups, communicator = _groups(rows, pieces)
    return Record(
        rows="kernels",
        who=np.array([rank for rank, _, _ in rows], np.int32),
        what=what,
        start_ps=begin * 1000,
        end_ps=(begin + duration) * 1000,
        size_bytes=np.array([kernel.size_bytes for _, kernel, _ in rows], np.int64),
        labels=labels,
        optional={
            "communicator": communicator,
            "sequence": np.array([number for _, _, number in rows], np.int64),
            "stream": np.array([kernel.stream for _, kernel, _ in rows], np.int64),
        },
        meta=_meta(found, pieces, clocks, groups),
    )


def _rank(piece: Piece) -> int:
    return -1 if piece.rank is None else piece.rank


def _numbered(kernels: Sequence[Kernel]) -> list[tuple[Kernel, int]]:
    """Each with its number in its group: as noted, else counted by kind in the order of time; -1 of what is no such."""
    counts: Counter[tuple[str, str]] = Counter()
    numbered = []
    for kernel in sorted(kernels, key=lambda one: (one.start_ns, one.stream)):
        number = -1
        if kernel.phase == COMMUNICATION:
            key = (kernel.group, kernel.kind)
            number = counts[key] if kernel.sequence < 0 else kernel.sequence
            counts[key] += 1
        numbered.append((kernel, number))
    return numbered


def _ends(kernels: Sequence[tuple[Kernel, int]]) -> Ends:
    return {
        (kernel.group, kernel.kind, number): kernel.start_ns + kernel.duration_ns
        for kernel, number in kernels
        if number >= 0 and kernel.kind not in ("send", "recv", "send_recv")
    }


def _labels(kernels: Sequence[Kernel]) -> tuple[list[Label], Any]:
    number: dict[tuple[str, str, str], int] = {}
    what = np.empty(len(kernels), np.int32)
    for row, kernel in enumerate(kernels):
        what[row] = number.setdefault((kernel.phase, kernel.kind or kernel.name, kernel.group), len(number))
    return [Label(phase, op, group) for phase, op, group in number], what


def _groups(rows: Sequence[tuple[int, Kernel, int]], pieces: Sequence[Piece]) -> tuple[list[dict[str, Any]], Any]:
    """Process groups by number, and that of each row. Groups of equal name and different members are different ones."""
    members = {(piece.rank, name): ranks for piece in pieces for name, ranks in piece.groups.items()}
    number: dict[tuple[str, tuple[int, ...]], int] = {}
    column = np.full(len(rows), -1, np.int32)
    for row, (rank, kernel, _) in enumerate(rows):
        if kernel.phase == COMMUNICATION:
            key = (kernel.group, members.get((rank, kernel.group), ()))
            column[row] = number.setdefault(key, len(number))
    return [{"name": name, "ranks": list(ranks)} for name, ranks in number], column


def _meta(
    found: Gathered, pieces: Sequence[Piece], clocks: dict[int, Clock], groups: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "sources": {str(piece.rank): piece.source for piece in pieces},
        "world": max((piece.world for piece in pieces), default=0),
        "communicators": groups,
        "clocks": {
            str(rank): {"ahead_ns": one.ahead_ns, "error_ns": one.error_ns, "shared": one.shared}
            for rank, one in clocks.items()
        },
        "warnings": found.remarks,
    }
