"""NCCL RAS as text (`ncclras`, from 2.24): communicators whose ranks differ in how often they called a collective.

`#0-0 (hash) MISMATCH`, `Communicator ranks have different AllGather operation counts`, `30 ranks have launched up to
operation
640`, and `Rank 12 -- GPU 4 managed by process 323032 on node 10.0.0.1` for those of the smaller set.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railyard.ask.observe.reader import Member, Piece, Reader, readers
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.ask.observe.sources import Source

_GROUP = re.compile(r"^#\S+ \(([0-9a-fA-Fx]+)\) (\w+)")
_WHAT = re.compile(r"different (\w+) operation counts")
_COUNT = re.compile(r"^\s+(\d{1,9}) ranks? ha(?:ve|s) launched up to operation (\d{1,18})(?!\d)")
_RANK = re.compile(r"^\s+Rank (\d{1,9}) -- GPU .*? on node (\S+)")
_WELL = re.compile(r"^\s+\d+\s+(\d{1,9})(?:\s+\d+){3,4}\s+RUNNING\s+OK\s*$")
_MOST = 1 << 20


def recognises(_: str, head: bytes) -> bool:
    """By its headings."""
    return b"Job summary" in head and b"Communicators" in head and b"NCCL version" in head


def read(source: Source) -> Piece:
    """Members of communicators that differ; of those that agree only how many.

    Raises:
        InputError: The report ends before its warnings.
    """
    piece = Piece(source.name)
    text = source.everything().decode("utf-8", errors="replace")
    if "Communicators" not in text:
        raise InputError("the report ends before its communicators", file=source.name)
    group = what = ""
    sets: list[tuple[int, int, list[Member]]] = []
    for line in [*text.splitlines(), "#end (0) END"]:
        if found := _GROUP.match(line):
            _note(piece, group, what, sets)
            group, what, sets = found[1], "", []
        elif found := _WHAT.search(line):
            _note(piece, group, what, sets)
            what, sets = found[1], []
        elif found := _COUNT.match(line):
            sets.append((int(found[1]), int(found[2]), []))
        elif (found := _RANK.match(line)) and sets:
            sets[-1][2].append(Member(group, int(found[1]), found[2], {what: sets[-1][1]}))
        elif found := _WELL.match(line):
            piece.well += int(found[1])
    if piece.well:
        piece.remarks.append(
            f"{piece.well} communicators run and agree: one that hangs all the same is held up elsewhere"
        )
    return piece


def _note(piece: Piece, group: str, what: str, sets: list[tuple[int, int, list[Member]]]) -> None:
    """Those that are named, and the others by number where all ranks are known by that."""
    total = sum(count for count, _, _ in sets)
    if not what or len(sets) < 2 or total > _MOST:
        return
    named = {member.rank for _, _, members in sets for member in members}
    unnamed = [(count, calls) for count, calls, members in sets if not members]
    piece.members += [member for _, _, members in sets for member in members]
    rest = [rank for rank in range(total) if rank not in named]
    if len(unnamed) == 1 and len(rest) == unnamed[0][0]:
        piece.members += [Member(group, rank, "", {what: unnamed[0][1]}) for rank in rest]
    elif unnamed:
        piece.remarks.append(f"communicator {group}: the report does not name all ranks")


readers.add("ras-text", Reader("ras-text", "NCCL RAS: the report as text", recognises, read))
