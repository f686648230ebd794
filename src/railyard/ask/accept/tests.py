"""Tests of acceptance as rows: what is run, what it should give, and within which bounds it passes."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.kit import table
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

NCCL, WRITE, BURN, CABLE, COUNTERS = "nccl-tests", "ib_write_bw", "burn-in", "cable", "counters"
METHODS = (NCCL, WRITE, BURN, CABLE, COUNTERS)

PRE_FEC, LOST, SYMBOLS = "pre-FEC BER", "codewords lost", "symbol errors a bit"
"""Units of counters: ratios, as many of one kind a bit or a codeword."""

FILE = "tests.csv"
"""Of a plan's folder."""

_HEADS = (
    *("test", "scope", "method", "collective", "servers", "ranks", "size_bytes"),
    *("expected", "low", "high", "unit", "hosts", "parts"),
)


@dataclass(frozen=True, slots=True)
class Mark:
    """What one test should give, at one size where it has sizes.

    Attributes:
        size_bytes: Of the message as the test counts it; 0 where it has none.
        expected: In the test's unit.
        low, high: Within which it passes.
    """

    size_bytes: int
    expected: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Test:
    """One test.

    Attributes:
        name: Of the test, and of the file that its result is put into.
        scope: `node`, `rail`, `leaf`, `pod`, `all`, `pair`, `server` or `cable`.
        method: One of `METHODS`.
        collective: all_reduce and so on, of nccl-tests; else empty.
        servers: That take part.
        ranks: Of the communicator; 0 where there is none.
        unit: `GB/s` of nccl-tests (busbw), `Gb/s` of ib_write_bw and of cables, `faults` of burn-in,
            those of counters.
        hosts: Name of the list of servers; of one or two, their names, separated by a blank.
        parts: What it can point at: NICs, cables or servers; empty: the servers. Of counters the cable, then both ends.
        marks: What it should give, by rising size.
    """

    name: str
    scope: str
    method: str
    collective: str
    servers: int
    ranks: int
    unit: str
    hosts: str
    parts: tuple[str, ...]
    marks: tuple[Mark, ...]


def written(tests: Iterable[Test]) -> str:
    """The tests as CSV, a row a mark."""
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")
    rows.writerow(_HEADS)
    for one in tests:
        for mark in one.marks:
            bounds = (f"{value:.6g}" for value in (mark.expected, mark.low, mark.high))
            size = mark.size_bytes or ""
            how = (one.name, one.scope, one.method, one.collective, one.servers, one.ranks, size)
            rows.writerow((*how, *bounds, one.unit, one.hosts, " ".join(one.parts)))
    return buffer.getvalue()


def read(path: Path) -> list[Test]:
    """Tests that `written` wrote, perhaps with bounds that somebody moved.

    Raises:
        InputError: It is no such file, or a bound is no number.
    """
    by_name: dict[str, tuple[dict[str, str], list[Mark]]] = {}
    for row in table.read(path, *_HEADS):
        first, marks = by_name.setdefault(row["test"], (row, []))
        if any(row[key] != first[key] for key in ("scope", "method", "collective", "unit")):
            raise row.wrong("test", f"two tests are called `{row['test']}`")
        marks.append(_mark(row, path, row.line))
    return [_test(row, marks) for row, marks in by_name.values()]


def _test(row: dict[str, str], marks: Sequence[Mark]) -> Test:
    return Test(
        name=row["test"],
        scope=row["scope"],
        method=row["method"],
        collective=row["collective"],
        servers=int(row["servers"] or 0),
        ranks=int(row["ranks"] or 0),
        unit=row["unit"],
        hosts=row["hosts"],
        parts=tuple(row["parts"].split()),
        marks=tuple(sorted(marks, key=lambda mark: mark.size_bytes)),
    )


def _mark(row: dict[str, str], path: Path, line: int) -> Mark:
    values = []
    for key in ("servers", "ranks", "size_bytes", "expected", "low", "high"):
        text = row[key] or "0"
        try:
            value = float(text) if key in ("expected", "low", "high") else int(text)
        except (TypeError, ValueError):
            value = -1
        if not 0 <= value < float("inf"):
            raise InputError(
                f"`{key}` is no number", file=path, line=line, key=key, found=row[key], allowed="0 or more"
            )
        values.append(value)
    size, expected, low, high = values[2:]
    if low > high:
        raise InputError("the lower bound is above the upper one", file=path, line=line, key="low", found=row["low"])
    if row["method"] not in METHODS:
        raise InputError("there is no such method", file=path, line=line, found=row["method"], allowed=METHODS)
    return Mark(int(size), expected, low, high)
