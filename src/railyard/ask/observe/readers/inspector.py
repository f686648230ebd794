"""NCCL inspector: a JSON object for each collective or message that a process timed, a line each or several lines.

Keys: `header` (`id`, `comm_name`, `rank`, `n_ranks`, `nnodes`), `metadata`, `coll_perf` (`coll`, `coll_sn`,
`coll_msg_size_bytes`, `coll_exec_time_us`, `coll_busbw_gbs` in GB/s) or `p2p_perf` with the same names.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from railyard.ask.observe.kernel_names import kind_of
from railyard.ask.observe.reader import Piece, Reader, Timed, readers
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.observe.sources import Source

EARLIEST_US, LATEST_US = 946_684_800e6, 4_102_444_800e6
"""The years 2000 to 2100, Unix time."""

_BETWEEN = re.compile(r"[\s,]*")


def recognises(_: str, head: bytes) -> bool:
    """By its keys."""
    return head.lstrip()[:1] == b"{" and (
        b"coll_perf" in head or b"p2p_perf" in head or b"inspector_output_format" in head
    )


def read(source: Source) -> Piece:
    """Every collective that was timed.

    Raises:
        InputError: It holds none.
    """
    piece = Piece(source.name)
    bad = 0
    for one in _objects(source.everything().decode("utf-8", errors="replace"), piece):
        timed = _timed(one)
        if timed is None:
            bad += 1
        else:
            piece.timings.append(timed)
    if not piece.timings:
        raise InputError("no collective was timed in it", file=source.name)
    if bad:
        piece.remarks.append(f"{bad} entries lack a time, a size or a rank and were left out")
    return piece


def _objects(text: str, piece: Piece) -> Iterator[Any]:
    decode, at = json.JSONDecoder().raw_decode, 0
    while True:
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        if at >= len(text):
            return
        try:
            found, at = decode(text, at)
        except (ValueError, RecursionError):
            line = text.find("\n", at)
            piece.remarks.append(f"what begins at character {at} is damaged, read on from the next line")
            if line < 0 or len(piece.remarks) > 20:
                return
            at = line + 1
            continue
        yield found


def _timed(one: Any) -> Timed | None:
    if not isinstance(one, dict):
        return None
    header = one.get("header")
    kind, perf = next(
        ((key, one[key]) for key in ("coll_perf", "p2p_perf") if isinstance(one.get(key), dict)), ("", None)
    )
    if not isinstance(header, dict) or perf is None:
        return None
    word = kind.removesuffix("_perf")
    try:
        micros, size = float(perf[f"{word}_exec_time_us"]), int(perf[f"{word}_msg_size_bytes"])
        rank, ranks, hosts = (int(header[key]) for key in ("rank", "n_ranks", "nnodes"))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(micros) or micros <= 0 or size < 0 or rank < 0 or ranks < 1:
        return None
    busbw = perf.get(f"{word}_busbw_gbs")
    bits = 8e9 * busbw if isinstance(busbw, int | float) and math.isfinite(busbw) else None
    group = str(header.get("comm_name") or header.get("id", ""))
    name = kind_of(str(perf.get(word, ""))) or str(perf.get(word, ""))
    return Timed(name, size, micros * 1e-6, ranks, hosts, bits, rank, group, at_s=_noted_s(one.get("metadata")))


def _noted_s(metadata: Any) -> float:
    """When it was written, Unix time; nan where that is not there or no time of this century."""
    at = metadata.get("dump_timestamp_us") if isinstance(metadata, dict) else None
    if isinstance(at, bool) or not isinstance(at, int | float) or not EARLIEST_US < at < LATEST_US:
        return math.nan
    return at * 1e-6


readers.add("nccl-inspector", Reader("nccl-inspector", "NCCL inspector: JSON lines of a process", recognises, read))
