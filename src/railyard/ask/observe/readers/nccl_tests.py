"""nccl-tests and rccl-tests: the table that they print, and the JSON that `-J FILE` writes.

A row is size, count, type, operation, root, then time (us), algbw, busbw (GB/s) and wrong values, out of place and in
place;
newer versions put more columns behind each. Which test it was the file's name or a line of the log says; else the
ratio of
busbw to algbw does where it can.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from railyard.ask.observe.kernels import BUSBW, kind_of
from railyard.ask.observe.reader import Piece, Reader, Timed, is_count, readers
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.ask.observe.reader import Source

_TESTS = "all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce|sendrecv|gather|scatter|hypercube"
_TEST = re.compile(f"({_TESTS})_perf")
_RANK = re.compile(r"^#\s+Rank\s+(\d+)\b.*?\bon\s+(\S+)", re.MULTILINE)
_HEAD = re.compile(r"^#\s+size\s+count\s+type\b(.*)$", re.MULTILINE)
_TIMES = re.compile(r"\btime\b")


def recognises(_: str, head: bytes) -> bool:
    """By its heading, or by the keys of its JSON."""
    table = (b"algbw" in head and b"busbw" in head) or (b"# nThread" in head and b"minBytes" in head)
    keys = (b'"config"', b'"devices"'), (b'"results"', b'"out_of_place"')
    return table or (head.lstrip()[:1] == b"{" and any(all(key in head for key in both) for both in keys))


def read(source: Source) -> Piece:
    """Every row that was timed.

    Raises:
        InputError: It holds no row.
    """
    text = source.text()
    piece = Piece(source.name)
    try:
        plain = text.lstrip()[:1] != "{"
        rows = _of_table(text, source.name, piece) if plain else _of_json(json.loads(text), source.name)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the file is damaged: {error}", file=source.name) from None
    piece.timings = [row for row in rows if row.seconds > 0]
    if not piece.timings:
        allowed = "the table of nccl-tests, or its JSON"
        raise InputError("the log has no row with a time", file=source.name, allowed=allowed)
    wrong = sum(row.wrong > 0 for row in piece.timings)
    if wrong:
        piece.remarks.append(f"{wrong} rows have wrong values")
    return piece


def _of_table(text: str, name: str, piece: Piece) -> list[Timed]:
    listed = _RANK.findall(text)
    ranks, hosts = len(listed), len({host for _, host in listed})
    test = _TEST.search(text) or _TEST.search(name)
    head = _HEAD.search(text)
    width = _width(head[1]) if head else 4
    rows, broken = [], 0
    for line in text.splitlines():
        words = line.split()
        if not words or not is_count(words[0]) or len(words) < 3 + width:
            broken += bool(words) and words[0].isdigit()
            continue
        rows += _row(words, width, ranks, hosts, test[1] if test else "")
    if broken:
        piece.remarks.append(f"{broken} rows are cut off and were left out")
    return rows


def _width(heading: str) -> int:
    """Columns of each half of a row: those from `time` up to the next `time`."""
    times = [found.start() for found in _TIMES.finditer(heading)]
    return len(heading[times[0] : times[1] if len(times) > 1 else None].split()) if times else 4


def _row(words: list[str], width: int, ranks: int, hosts: int, test: str) -> list[Timed]:
    size, found = int(words[0]), []
    for half in (
        {0: words[-2 * width : -width], 1: words[-width:]} if len(words) >= 3 + 2 * width else {1: words[-width:]}
    ).values():
        time_us, algbw, busbw = (_number(word) for word in half[:3])
        wrong = _number(half[3]) if len(half) > 3 else 0.0
        if not math.isfinite(time_us):
            continue
        kind = kind_of(test) or _kind(busbw / algbw if algbw else math.nan, ranks)
        bits = 8e9 * busbw if math.isfinite(busbw) else None
        errors = int(wrong) if math.isfinite(wrong) else 0
        found.append(Timed(kind, size, time_us * 1e-6, ranks, hosts, bits, wrong=errors))
    return found


def _number(word: Any) -> float:
    try:
        return float(word)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _kind(ratio: float, ranks: int) -> str:
    """What the ratio of busbw to algbw says: an all-reduce is the only one with its factor."""
    return "all_reduce" if ranks > 2 and abs(ratio - BUSBW["all_reduce"](ranks)) < 0.02 * ratio else ""


def _of_json(found: Any, name: str) -> list[Timed]:
    if not isinstance(found, dict) or not isinstance(found.get("results"), list):
        raise InputError("the JSON has no list `results`", file=name)
    said = found.get("config")
    config: dict[str, Any] = said if isinstance(said, dict) else {}
    devices = [one for one in config.get("devices", []) if isinstance(one, dict)]
    ranks = len(devices) or _ranks_of(config.get("ngpus"))
    hosts = len({str(one.get("hostname", one.get("host", ""))) for one in devices})
    test = _TEST.search(json.dumps(found.get("args", found.get("command", "")))) or _TEST.search(name)
    rows = []
    for one in found["results"]:
        size = one.get("size") if isinstance(one, dict) else None
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 64:
            continue
        for place in ("out_of_place", "in_place"):
            half = one.get(place)
            if isinstance(half, dict) and math.isfinite(time_us := _number(half.get("time"))):
                busbw = _number(half.get("bus_bw", half.get("busbw")))
                algbw = _number(half.get("alg_bw", half.get("algbw")))
                kind = kind_of(test[1]) if test else _kind(busbw / algbw if algbw else math.nan, ranks)
                wrong = _number(half.get("nwrong", 0))
                bits = 8e9 * busbw if math.isfinite(busbw) else None
                rows.append(Timed(kind, size, time_us * 1e-6, ranks, hosts, bits, wrong=int(wrong) if wrong > 0 else 0))
    return rows


def _ranks_of(word: Any) -> int:
    number = _number(word)
    return int(number) if 0 < number < 1 << 24 else 0


readers.add("nccl-tests", Reader("nccl-tests", "nccl-tests and rccl-tests: table or JSON", recognises, read))
