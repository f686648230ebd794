"""The flows of a network and what each waits for: what every traffic importer gives, and what a packet engine takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

AT_SENDER, AT_RECEIVER = 0, 1
BY_OTHERS = -1
"""Start time of a flow that only other flows start."""


@dataclass(frozen=True, eq=False)
class FlowTable:
    """Flows and local work, one row each.

    A row may start when `need` of the rows that it waits for are done, not before `start_ps`, and then `delay_ps`
    later. A row whose source is its target is local work: it sends nothing and is done when it starts.

    Attributes:
        hosts: Number of hosts; sources and targets are 0 to hosts - 1.
        source: int32[n], sending host.
        target: int32[n], receiving host; the source itself for local work.
        size_bytes: int64[n], payload; 0 for local work.
        start_ps: int64[n], earliest start, `BY_OTHERS` (-1) where only other rows start it.
        need: int32[n], how many of the rows that it waits for must be done.
        dep_ptr: int64[n + 1], slices of `dep_idx` and `dep_at`, one a row.
        dep_idx: int32[m], rows waited for.
        dep_at: uint8[m], `AT_SENDER` (0): done when the sender has the last acknowledgement; `AT_RECEIVER` (1): when
            the receiver has every byte.
        delay_ps: int64[n], added to the start.
        line: int32[n], line of the file, 0 where there is none.
        never: Rows of the file that nothing can start, left out of the columns above: their lines.
        left_out: What the file says and the flows do not.
    """

    hosts: int
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    size_bytes: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    need: NDArray[np.int32]
    dep_ptr: NDArray[np.int64]
    dep_idx: NDArray[np.int32]
    dep_at: NDArray[np.uint8]
    delay_ps: NDArray[np.int64]
    line: NDArray[np.int32]
    never: tuple[int, ...] = ()
    left_out: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Number of rows that can start."""
        return len(self.source)

    @property
    def travels(self) -> NDArray[np.bool_]:
        """bool[n], rows that use the network."""
        return np.asarray(self.source != self.target)

    def without_dead(self) -> FlowTable:
        """The same table without the rows that can never start, whose lines are then in `never`.

        A row can never start when fewer than `need` of the rows it waits for can.
        """
        alive = startable(self)
        if alive.all():
            return self
        number = np.cumsum(alive) - 1
        owner = np.repeat(np.arange(len(self)), np.diff(self.dep_ptr))
        kept = alive[owner] & alive[self.dep_idx]
        counts = np.bincount(owner[kept], minlength=len(self))[alive]
        rows = {name: getattr(self, name)[alive] for name in _ROWS}
        return FlowTable(
            self.hosts,
            **rows,
            dep_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            dep_idx=number[self.dep_idx[kept]].astype(np.int32),
            dep_at=self.dep_at[kept],
            never=self.never + tuple(int(line) for line in self.line[~alive]),
            left_out=self.left_out,
        )


_ROWS = ("source", "target", "size_bytes", "start_ps", "need", "delay_ps", "line")


def startable(table: FlowTable) -> NDArray[np.bool_]:
    """bool[n]: rows that start some day if every started row is done some day."""
    waiting = table.need.copy()
    owner = np.repeat(np.arange(len(table), dtype=np.int64), np.diff(table.dep_ptr))
    order = np.argsort(table.dep_idx, kind="stable")
    followers = owner[order]
    first = np.searchsorted(table.dep_idx[order], np.arange(len(table) + 1))
    alive = (waiting <= 0) & ((table.start_ps >= 0) | (np.diff(table.dep_ptr) > 0))
    front = np.flatnonzero(alive)
    while len(front):
        reached = np.concatenate([followers[first[row] : first[row + 1]] for row in front])
        np.subtract.at(waiting, reached, 1)
        before = alive.copy()
        alive[reached[waiting[reached] <= 0]] = True
        front = np.flatnonzero(alive & ~before)
    return alive


@dataclass
class FlowBuilder:
    """Collects rows in any order; rows may wait for rows that come later."""

    hosts: int
    _rows: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    _need: list[int | None] = field(default_factory=list)
    _deps: list[list[tuple[int, int]]] = field(default_factory=list)

    def __len__(self) -> int:
        """Rows so far."""
        return len(self._rows)

    def add(
        self, source: int, target: int, size_bytes: int, *, start_ps: int = BY_OTHERS, delay_ps: int = 0, line: int = 0
    ) -> int:
        """Adds a flow; returns its row."""
        self._rows.append((source, target, size_bytes, start_ps, delay_ps, line))
        self._need.append(None)
        self._deps.append([])
        return len(self._rows) - 1

    def work(self, host: int, delay_ps: int, *, start_ps: int = BY_OTHERS, line: int = 0) -> int:
        """Adds local work of a host; returns its row."""
        return self.add(host, host, 0, start_ps=start_ps, delay_ps=delay_ps, line=line)

    def wait(self, row: int, others: Sequence[tuple[int, int]], *, need: int | None = None) -> None:
        """Lets a row wait for others.

        Args:
            row: The row that waits.
            others: Rows and where they must be done (`AT_SENDER`, `AT_RECEIVER`).
            need: How many of all the rows it waits for must be done; all by default.
        """
        self._deps[row].extend(others)
        if need is not None:
            self._need[row] = need

    def waits(self, row: int) -> list[tuple[int, int]]:
        """What a row waits for."""
        return self._deps[row]

    def start_roots(self, start_ps: int = 0) -> None:
        """Lets every row that waits for nothing and has no start begin at `start_ps`."""
        for row, (source, target, size, start, delay, line) in enumerate(self._rows):
            if start == BY_OTHERS and not self._deps[row]:
                self._rows[row] = (source, target, size, start_ps, delay, line)

    def build(self, *, left_out: tuple[str, ...] = ()) -> FlowTable:
        """The finished table, rows that can never start taken out."""
        columns: list[Any] = [np.array(column) for column in zip(*self._rows, strict=True)] or [np.empty(0)] * 6
        counts = np.fromiter((len(deps) for deps in self._deps), np.int64, len(self._deps))
        flat = [dep for deps in self._deps for dep in deps]
        pairs = np.array(flat, np.int64).reshape(-1, 2)
        need = [
            (len(deps) if need is None else need) if deps or need else (0 if row[3] >= 0 else 1)
            for row, need, deps in zip(self._rows, self._need, self._deps, strict=True)
        ]
        return FlowTable(
            self.hosts,
            source=columns[0].astype(np.int32),
            target=columns[1].astype(np.int32),
            size_bytes=columns[2].astype(np.int64),
            start_ps=columns[3].astype(np.int64),
            need=np.array(need, np.int32),
            dep_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            dep_idx=pairs[:, 0].astype(np.int32),
            dep_at=pairs[:, 1].astype(np.uint8),
            delay_ps=columns[4].astype(np.int64),
            line=columns[5].astype(np.int32),
            left_out=left_out,
        ).without_dead()
