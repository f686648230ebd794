"""Logs of NCCL and RCCL with `NCCL_DEBUG=INFO`: connections of ranks, with their channels and NICs.

Lines: `host:pid:tid [dev] NCCL INFO Channel 02/0 : 3[3] -> 4[4] [send] via NET/IB/1/GDRDMA comm 0x.. nRanks 16`,
`Channel 00/16 : 0 1 2 3` (the order of a ring), `Trees [0] 1/-1/-1->0->-1 [1] ...` (children, rank, parent of each
channel),
`comm 0x.. rank 0 nranks 16 cudaDev 0 ... commId 0x.. - Init COMPLETE`.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from railyard.ask.observe.kernels import BUSBW, kind_of
from railyard.ask.observe.reader import (
    Edge,
    Piece,
    Reader,
    Timed,
    add_text_reader,
    decoded_json,
    float_or_nan,
    is_count,
    readers,
)
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.observe.reader import TraceSource


_TESTS = "all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce|sendrecv|gather|scatter|hypercube"
_TEST = re.compile(f"({_TESTS})_perf")
_RANK = re.compile(r"^#\s+Rank\s+(\d+)\b.*?\bon\s+(\S+)", re.MULTILINE)
_HEAD = re.compile(r"^#\s+size\s+count\s+type\b(.*)$", re.MULTILINE)
_TIMES = re.compile(r"\btime\b")


def is_nccl_tests(_: str, head: bytes) -> bool:
    """Recognises the heading, or the keys of its JSON."""
    table = (b"algbw" in head and b"busbw" in head) or (b"# nThread" in head and b"minBytes" in head)
    keys = (b'"config"', b'"devices"'), (b'"results"', b'"out_of_place"')
    return table or (head.lstrip()[:1] == b"{" and any(all(key in head for key in both) for both in keys))


def read_nccl_tests(source: TraceSource) -> Piece:
    """Every row that was timed.

    Raises:
        InputError: It holds no row.
    """
    text = source.text()
    piece = Piece(source.name)
    plain = text.lstrip()[:1] != "{"
    rows = _of_table(text, source.name, piece) if plain else _of_json(decoded_json(text, source.name), source.name)
    piece.timings = [row for row in rows if row.seconds > 0]
    if not piece.timings:
        allowed = "the table of nccl-tests, or its JSON"
        raise InputError("the log has no row with a time", file=source.name, allowed=allowed)
    piece.note(sum(row.wrong > 0 for row in piece.timings), "rows have wrong values")
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
    piece.note(broken, "rows are cut off and were left out")
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
        time_us, algbw, busbw = map(float_or_nan, half[:3])
        wrong = float_or_nan(half[3]) if len(half) > 3 else 0.0
        if math.isfinite(time_us):
            found.append(_half(kind_of(test), (size, ranks, hosts), time_us, (algbw, busbw), wrong))
    return found


def _half(
    kind: str, about: tuple[int, int, int], time_us: float, rates_gbs: tuple[float, float], wrong: float
) -> Timed:
    """A timed half of a row, about so many bytes, ranks and hosts; of unknown kind where the file does not say it."""
    algbw, busbw = rates_gbs
    size, ranks, hosts = about
    kind = kind or _kind(busbw / algbw if algbw else math.nan, ranks)
    bits = 8e9 * busbw if math.isfinite(busbw) else None
    errors = int(wrong) if math.isfinite(wrong) else 0
    return Timed(kind, size, time_us * 1e-6, ranks, hosts, bits, wrong=errors)


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
            if isinstance(half, dict) and math.isfinite(time_us := float_or_nan(half.get("time"))):
                kind, wrong = kind_of(test[1]) if test else "", max(float_or_nan(half.get("nwrong", 0)), 0.0)
                rates = (
                    float_or_nan(half.get("alg_bw", half.get("algbw"))),
                    float_or_nan(half.get("bus_bw", half.get("busbw"))),
                )
                rows.append(_half(kind, (size, ranks, hosts), time_us, rates, wrong))
    return rows


def _ranks_of(word: Any) -> int:
    count = float_or_nan(word)
    return int(count) if 0 < count < 1 << 24 else 0


readers.enter(Reader("nccl-tests", "nccl-tests and rccl-tests: table or JSON", is_nccl_tests, read_nccl_tests))


EARLIEST_US, LATEST_US = 946_684_800e6, 4_102_444_800e6
"""The years 2000 to 2100, Unix time."""

_BETWEEN = re.compile(r"[\s,]*")


def _is_inspector(_: str, head: bytes) -> bool:
    return head.lstrip()[:1] == b"{" and (
        b"coll_perf" in head or b"p2p_perf" in head or b"inspector_output_format" in head
    )


def _take_inspector(text: str, piece: Piece) -> None:
    bad = 0
    for one in _objects(text, piece):
        timed = _timed(one)
        if timed is None:
            bad += 1
        else:
            piece.timings.append(timed)
    piece.note(bad, "entries lack a time, a size or a rank and were left out")


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
    """Unix time at which it was written; nan if that is not there or no time of this century."""
    at = metadata.get("dump_timestamp_us") if isinstance(metadata, dict) else None
    if isinstance(at, bool) or not isinstance(at, int | float) or not EARLIEST_US < at < LATEST_US:
        return math.nan
    return at * 1e-6


add_text_reader(
    "nccl-inspector",
    "NCCL inspector: JSON lines of a process",
    _is_inspector,
    _take_inspector,
    ("it times no collective", None),
)


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


def _take_nccl_debug(text: str, piece: Piece) -> None:
    group: dict[str, str] = {}
    edges: dict[tuple[str, int, int, int, str], Edge] = {}
    for line in text.splitlines():
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


add_text_reader(
    "nccl-debug",
    "logs of NCCL or RCCL with NCCL_DEBUG=INFO",
    lambda _, head: b"NCCL INFO" in head or b"NCCL WARN" in head,
    _take_nccl_debug,
    ("the log names no connection of NCCL", "a log with NCCL_DEBUG=INFO"),
)
