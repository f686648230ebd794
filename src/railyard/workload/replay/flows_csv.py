"""Reads flows from a CSV file, one a line, under a heading.

    source,target,size_bytes,start_us,after,delay_us
    0,5,2000000,0,,
    5,9,2000000,,1,2.5

`after` names the rows (numbered from 1) that must have reached their receivers first, separated by blanks; a flow that
waits for none starts at `start_us`. What is not given is zero.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from railyard.errors import InputError, did_you_mean
from railyard.files import reading_csv
from railyard.graph import AT_RECEIVER
from railyard.workload.replay.builder import GraphBuilder
from railyard.workload.replay.text_file import MOST_HOSTS, decimal, integer, lines

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.workload.replay.trace import Trace

COLUMNS = ("source", "target", "size_bytes", "start_us", "after", "delay_us")
_NEEDED = COLUMNS[:3]
_PS_PER_US = 10**6
_LAST_US = 1e11


def read(path: Path, *, hosts: int | None = None) -> Trace:
    """The flows of a CSV file.

    Args:
        path: The file.
        hosts: Number of hosts; as many as the flows name by default.

    Raises:
        InputError: The file cannot be read, or a line is wrong; with the line.
    """
    numbered = [(line, text) for line, text in lines(path) if text.strip() and not text.startswith("#")]
    if not numbered:
        raise InputError("the file holds no flows", file=path, allowed=COLUMNS)
    columns = _heading(*numbered[0], path)
    rows: list[dict[str, str]] = []
    for line, text in numbered[1:]:
        with reading_csv(path, line):
            cells = next(csv.reader([text]))
        if len(cells) != len(columns):
            raise InputError(
                "as many cells as the heading has", file=path, line=line, found=len(cells), allowed=len(columns)
            )
        rows.append(dict(zip(columns, (cell.strip() for cell in cells), strict=True)))
    places = [line for line, _ in numbered[1:]]
    return _table(rows, places, path, hosts)


def _heading(line: int, text: str, path: Path) -> list[str]:
    with reading_csv(path, line):
        columns = [cell.strip() for cell in next(csv.reader([text]))]
    for name in columns:
        if name not in COLUMNS:
            hint = did_you_mean(name, COLUMNS)
            raise InputError("unknown column", file=path, line=line, found=name, allowed=COLUMNS, hint=hint)
    missing = [name for name in _NEEDED if name not in columns]
    if missing or len(set(columns)) < len(columns):
        found = ", ".join(columns)
        raise InputError(
            "the heading lacks a column or names one twice", file=path, line=line, found=found, allowed=COLUMNS
        )
    return columns


def _table(rows: list[dict[str, str]], places: list[int], path: Path, hosts: int | None) -> Trace:
    builder = GraphBuilder(0)
    most = -1
    for line, row in zip(places, rows, strict=True):
        try:
            most = max(most, _flow(builder, row, line, len(rows)))
        except InputError as error:
            raise error.located(file=path, line=line) from None
    builder.ranks = most + 1 if hosts is None else hosts
    if most >= builder.ranks:
        raise InputError(f"there is a host {most}, but only {builder.ranks} hosts", file=path)
    return builder.build()


def _flow(builder: GraphBuilder, row: dict[str, str], line: int, count: int) -> int:
    source, target = (integer(row[key], key, high=MOST_HOSTS - 1) for key in ("source", "target"))
    if source == target:
        raise InputError("a flow from a host to itself", found=source)
    size = integer(row["size_bytes"], "size_bytes", low=1)
    delay = round(decimal(row.get("delay_us") or "0", "delay_us", high=_LAST_US) * _PS_PER_US)
    after = [integer(word, "after", low=1, high=count) - 1 for word in row.get("after", "").split()]
    if after and row.get("start_us"):
        raise InputError("a flow has `start_us` or `after`, not both")
    start = round(decimal(row.get("start_us") or "0", "start_us", high=_LAST_US) * _PS_PER_US)
    number = builder.transfer(source, target, size, release_ps=start, delay_ps=delay, line=line)
    builder.wait(number, [(other, AT_RECEIVER) for other in dict.fromkeys(after)])
    return max(source, target)
