"""Recorded faults of servers: a table of events, each taking a server away or giving it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit import table
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

COLUMNS = ("day", "node", "event")
MOST_SERVERS = 10_000_000
MOST_DAYS = 36_525
"""A hundred years: the curves of repairs and of servers away have a point for each hour or so."""

EVENTS = ("fault_start", "fault_end")


@dataclass(frozen=True, eq=False)
class History:
    """Outages of servers, n of them in the order of their start; times in days.

    Attributes:
        start: float64[n].
        end: float64[n], the end of what was seen where the server was not back by then.
        back: bool[n], whether it was.
        servers: How many there are.
        days: How long they were watched.
    """

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    back: NDArray[np.bool_]
    servers: int
    days: float

    def __len__(self) -> int:
        return len(self.start)

    def until(self, day: float) -> History:
        """What was known on that day."""
        seen = self.start < day
        end = self.end[seen]
        return History(self.start[seen], np.minimum(end, day), self.back[seen] & (end <= day), self.servers, day)

    def out(self, times: NDArray[np.float64]) -> NDArray[np.int64]:
        """int64[times], servers that are out at each time."""
        begun = np.searchsorted(np.sort(self.start), times, side="right")
        over = np.searchsorted(np.sort(self.end[self.back]), times, side="right")
        return np.asarray(begun - over)


def read(path: Path, servers: int, days: float) -> History:
    """Reads a CSV with the columns day, node, event (fault_start, fault_end).

    Args:
        path: The file; further columns are left aside.
        servers: How many servers were watched, those without a fault included.
        days: For how long, from day 0.

    Raises:
        InputError: A row is wrong; with its line.
    """
    for key, value, most in (("--servers", servers, MOST_SERVERS), ("--days", days, MOST_DAYS)):
        if not 0 < value <= most:
            raise InputError("the number is out of range", key=key, found=value, allowed=f"above 0, at most {most:,}")
    away: dict[str, float] = {}
    found: list[tuple[float, float, bool]] = []
    last = 0.0
    for line, day, node, event in _rows(path):
        if day < last:
            raise InputError("days go back", file=path, line=line, found=day, allowed=f"{last:g} or more")
        if day > days:
            raise InputError("an event after the last day", file=path, line=line, found=day, allowed=f"0 to {days:g}")
        last = day
        if event == "fault_start":
            if node in away:
                raise InputError(f"`{node}` fails while it is away", file=path, line=line, key="node", found=node)
            away[node] = day
        elif node not in away:
            raise InputError(f"`{node}` comes back and never went", file=path, line=line, key="node", found=node)
        else:
            found.append((away.pop(node), day, True))
    found = sorted([*found, *((day, days, False) for day in away.values())])
    if not found:
        raise InputError("no fault in the file", file=path)
    start, end, back = (np.array(column) for column in zip(*found, strict=True))
    return History(start, end, back, servers, days)


def _rows(path: Path) -> Iterator[tuple[int, float, str, str]]:
    for row in table.read(path, *COLUMNS):
        event = row.one_of("event", EVENTS)
        if not row["node"]:
            raise row.wrong("node", "no name of a node")
        yield row.line, row.number("day", low=0), row["node"], event
