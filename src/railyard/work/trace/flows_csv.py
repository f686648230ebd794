"""Reads flows from a CSV file, one a line, under a heading.

    source,target,size_bytes,start_us,after,delay_us
    0,5,2000000,0,,
    5,9,2000000,,1,2.5

`after` names the rows (numbered from 1) that must have reached their receivers first, separated by blanks; a flow that
waits for none starts at `start_us`. What is not given is zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.graph import AT_RECEIVER
from railyard.kit import table
from railyard.kit.errors import InputError
from railyard.work.trace.builder import MOST_BYTES, MOST_HOSTS, GraphBuilder, decimal, integer

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.work.trace.builder import Trace

COLUMNS = ("source", "target", "size_bytes", "start_us", "after", "delay_us")
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
    rows = list(table.read(path, *COLUMNS[:3], known=COLUMNS, comment="#", most=MOST_BYTES))
    builder = GraphBuilder(0)
    most = -1
    for row in rows:
        try:
            most = max(most, _flow(builder, row, row.line, len(rows)))
        except InputError as error:
            raise row.located(error) from None
    if not rows:
        raise InputError("the file holds no flows", file=path, allowed=COLUMNS)
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
