"""NCCL RAS (from 2.28.7): the state of all communicators as JSON, `SET FORMAT json` and `STATUS` on port 28028.

Keys: `communicators`: `hash`, `ranks` (`rank`, `host`, `collective_counts` by collective), `missing_ranks` (`rank`,
`status`: `unresponsive`, `considered_dead`, which some versions write beside `rank`). What stands before the first
brace (answers of the protocol) and commas that are missing or too many are passed over.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from railyard.ask.observe.reader import Member, Piece, Reader, readers
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.ask.observe.sources import Source


_UNPARTED = re.compile(r'([}\]]|(?<=[\s:])(?:-?\d[\d.]*|true|false|null)|"(?=\s*\n))(\s*)(?=[{"])')
"""A value and the next one without a comma: NCCL 2.28.9 leaves it out before the `status` of a missing rank."""


def recognises(_: str, head: bytes) -> bool:
    """By its keys."""
    return b'"communicators"' in head or b'"missing_ranks"' in head or b'"collective_counts"' in head


def read(source: Source) -> Piece:
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


def _loaded(source: Source, piece: Piece) -> Any:
    text = source.everything().decode("utf-8", errors="replace")
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
    raise InputError("the file is damaged: it is no JSON", file=source.name)


def _members(group: str, communicator: dict[str, Any]) -> list[Member]:
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
            found.append(Member(group, rank, str(one.get("host", "")), _counts(one), missing))
    return found


def _counts(one: dict[str, Any]) -> dict[str, int]:
    counts = one.get("collective_counts")
    listed = counts.items() if isinstance(counts, dict) else ()
    return {str(name): count for name, count in listed if isinstance(count, int) and not isinstance(count, bool)}


readers.add("ras", Reader("ras", "NCCL RAS: the state of communicators as JSON", recognises, read))
