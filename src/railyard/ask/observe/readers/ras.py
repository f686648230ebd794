"""NCCL RAS (from 2.28.7): the state of all communicators as JSON, `SET FORMAT json` and `STATUS` on port 28028.

Keys: `communicators`: `hash`, `ranks` (`rank`, `host`, `collective_counts` by collective), `missing_ranks` (`rank`,
`status`: `unresponsive`, `considered_dead`, which some versions write next to `rank`). What stands before the first
brace (answers of the protocol) and commas that are missing or too many are passed over.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from railyard.ask.observe.reader import CommunicatorMember, Piece, Reader, readers
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.ask.observe.reader import TraceSource


_GROUP = re.compile(r"^#\S+ \(([0-9a-fA-Fx]+)\) (\w+)")
_WHAT = re.compile(r"different (\w+) operation counts")
_COUNT = re.compile(r"^\s+(\d{1,9}) ranks? ha(?:ve|s) launched up to operation (\d{1,18})(?!\d)")
_RANK = re.compile(r"^\s+Rank (\d{1,9}) -- GPU .*? on node (\S+)")
_WELL = re.compile(r"^\s+\d+\s+(\d{1,9})(?:\s+\d+){3,4}\s+RUNNING\s+OK\s*$")
_MOST = 1 << 20


def _read_ras_text(source: TraceSource) -> Piece:
    """Members of communicators that differ; of those that agree only how many.

    Raises:
        InputError: The report ends before its warnings.
    """
    piece = Piece(source.name)
    text = source.text()
    if "Communicators" not in text:
        raise InputError("the report ends before its communicators", file=source.name)
    group = what = ""
    sets: list[tuple[int, int, list[CommunicatorMember]]] = []
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
            sets[-1][2].append(CommunicatorMember(group, int(found[1]), found[2], {what: sets[-1][1]}))
        elif found := _WELL.match(line):
            piece.well += int(found[1])
    piece.note(piece.well, "communicators run and agree: if one still hangs, the cause is elsewhere")
    return piece


def _note(piece: Piece, group: str, what: str, sets: list[tuple[int, int, list[CommunicatorMember]]]) -> None:
    """Those that are named, and the others by number where all ranks are known by that."""
    total = sum(count for count, _, _ in sets)
    if not what or len(sets) < 2 or total > _MOST:
        return
    named = {member.rank for _, _, members in sets for member in members}
    unnamed = [(count, calls) for count, calls, members in sets if not members]
    piece.members += [member for _, _, members in sets for member in members]
    rest = [rank for rank in range(total) if rank not in named]
    if len(unnamed) == 1 and len(rest) == unnamed[0][0]:
        piece.members += [CommunicatorMember(group, rank, "", {what: unnamed[0][1]}) for rank in rest]
    elif unnamed:
        piece.remarks.append(f"communicator {group}: the report does not name all ranks")


readers.enter(
    Reader(
        "ras-text",
        "NCCL RAS: the report as text",
        lambda _, head: b"Job summary" in head and b"Communicators" in head and b"NCCL version" in head,
        _read_ras_text,
    ),
)


_UNPARTED = re.compile(r'([}\]]|(?<=[\s:])(?:-?\d[\d.]*|true|false|null)|"(?=\s*\n))(\s*)(?=[{"])')
"""A value and the next one without a comma: NCCL 2.28.9 leaves it out before the `status` of a missing rank."""


def _read_ras(source: TraceSource) -> Piece:
    """The members of every communicator.

    Raises:
        InputError: The file is no such state.
    """
    piece = Piece(source.name)
    state = _loaded(source, piece)
    listed = state.get("communicators") if isinstance(state, dict) else None
    if not isinstance(listed, list):
        raise InputError("the state has no list `communicators`", file=source.name)
    for number, one in enumerate(listed):
        if isinstance(one, dict):
            piece.members += _members(str(one.get("hash", one.get("name", number))), one)
    return piece


def _loaded(source: TraceSource, piece: Piece) -> Any:
    text = source.text()
    text = text[max(text.find("{"), 0) : text.rfind("}") + 1]
    mended = re.sub(r",(\s*[}\]])", r"\1", _UNPARTED.sub(r"\1,\2", text))
    for words in (text, mended):
        try:
            found = json.loads(words)
        except (ValueError, RecursionError):
            continue
        if words is not text:
            piece.remarks.append("commas were missing or too many in it")
        return found
    raise InputError("the file is damaged: it is not JSON", file=source.name)


def _members(group: str, communicator: dict[str, Any]) -> list[CommunicatorMember]:
    found = []
    for key in ("ranks", "missing_ranks"):
        listed = communicator.get(key)
        for one in listed if isinstance(listed, list) else ():
            rank = one.get("rank") if isinstance(one, dict) else None
            if not isinstance(rank, int) or isinstance(rank, bool) or rank < 0:
                continue
            noted = one.get("status")
            status = {**one, **(noted if isinstance(noted, dict) else {})}
            dead = status.get("considered_dead") is True
            missing = ("dead" if dead else "unresponsive") if key == "missing_ranks" else ""
            found.append(CommunicatorMember(group, rank, str(one.get("host", "")), _counts(one), missing))
    return found


def _counts(one: dict[str, Any]) -> dict[str, int]:
    counts = one.get("collective_counts")
    listed = counts.items() if isinstance(counts, dict) else ()
    return {str(name): count for name, count in listed if isinstance(count, int) and not isinstance(count, bool)}


readers.enter(
    Reader(
        "ras",
        "NCCL RAS: the state of communicators as JSON",
        lambda _, head: b'"communicators"' in head or b'"missing_ranks"' in head or b'"collective_counts"' in head,
        _read_ras,
    ),
)
