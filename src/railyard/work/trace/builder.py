"""Collects tasks in any order, and what each waits for, into the graph of a trace."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph import AT_RECEIVER, HOST, CollectiveKind, Communicators, Kind, Label, Stream, TaskGraph
from railyard.kit.errors import InputError
from railyard.kit.files import opened, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


@dataclass
class Lacks:
    """Gaps of a trace.

    Attributes:
        counts: Of each kind; sentences have a place `{}` for the number.
    """

    counts: Counter[str] = field(default_factory=Counter)

    def note(self, sentence: str, count: int = 1) -> None:
        """Counts gaps of a kind."""
        if count:
            self.counts[sentence] += count

    def sentences(self) -> tuple[str, ...]:
        """One sentence a kind of gap, in the order in which they came up."""
        return tuple(sentence.format(f"{count:,}") for sentence, count in self.counts.items())


MOST = (1 << 62) - 1
MOST_BYTES = 4 << 30
"""Largest trace."""
MOST_HOSTS = 1 << 20


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a text file, without their ends.

    Raises:
        InputError: The file cannot be read, or is no text.
    """
    return iter(enumerate(read_text(path, MOST_BYTES).splitlines(), start=1))


def content(path: Path, *, most: int = -1) -> bytes:
    """The bytes of a file, all or the first so many.

    Raises:
        InputError: The file cannot be read.
    """
    with opened(path, MOST_BYTES) as file:
        return file.read(most)


def integer(text: str, what: str, *, low: int = 0, high: int = MOST) -> int:
    """An integer written in decimal digits.

    Raises:
        InputError: It is none, or out of range; without file and line, which `InputError.located` adds.
    """
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 19):
        raise InputError(f"{what}: expected an integer", found=text)
    value = int(text)
    if not low <= value <= high:
        allowed = f"{low} or more" if high == MOST else f"{low} to {high}"
        raise InputError(f"{what} is out of range", found=text, allowed=allowed)
    return value


def decimal(text: str, what: str, *, high: float) -> float:
    """A number of zero or more, such as `12`, `0.5` or `1e6`.

    Raises:
        InputError: It is none, or out of range.
    """
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (text.isascii() and 0 <= value <= high):
        raise InputError(f"{what}: expected a number from 0 to {high:g}", found=text)
    return value


@dataclass(frozen=True)
class Failure:
    """A link that a connection matrix takes out.

    Attributes:
        switch: Tier of the switch: `TOR`, `AGG` or `CORE`.
        switch_id: Number of the switch in its tier.
    """

    switch: str
    switch_id: int
    link_id: int
    line: int


@dataclass(frozen=True, eq=False)
class Trace:
    """Work that was read from a file.

    Attributes:
        graph: Its tasks, all on the stream `FREE`; a rank is a host of a matrix, a rank of a schedule or a trace.
        line: int32[n], line of the file of each task, 0 where there is none.
        never: Lines of the tasks that nothing can ever start; they are not in the graph.
        lacks: What this file should say and does not, with counts.
        left_out: What files of this format say and the graph does not.
        failures: Links that the file takes out.
    """

    graph: TaskGraph
    line: NDArray[np.int32]
    never: tuple[int, ...] = ()
    lacks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def ranks(self) -> int:
        """Number of ranks or hosts."""
        return self.graph.ranks


PHASE, TRANSFERS, WORLD = "trace", "p2p", "world"
"""Phase of every label; groups of transfers, and of collectives of a group without a name."""

_COLUMNS: dict[str, type[np.generic]] = {
    "kind": np.uint8,
    "rank": np.int32,
    "peer": np.int32,
    "duration_ps": np.int64,
    "size_bytes": np.int64,
    "collective": np.uint8,
    "release_ps": np.int64,
    "delay_ps": np.int64,
    "label": np.int32,
    "line": np.int32,
}


@dataclass
class GraphBuilder:
    """Collects tasks; tasks may wait for tasks that come later."""

    ranks: int
    _rows: list[tuple[int, ...]] = field(default_factory=list)
    _need: list[int | None] = field(default_factory=list)
    _waits: list[list[tuple[int, int]]] = field(default_factory=list)
    _labels: dict[Label, int] = field(default_factory=dict)
    _groups: dict[tuple[str, tuple[int, ...]], int] = field(default_factory=dict)

    def __len__(self) -> int:
        """Tasks so far."""
        return len(self._rows)

    def work(self, rank: int, duration_ps: int, *, op: str = "compute", host: bool = False, line: int = 0) -> int:
        """Adds a computation, of the accelerator or of its host processor; returns its number."""
        label = self._label(Label(HOST if host else PHASE, op))
        return self._add(Kind.COMPUTE, rank, -1, duration_ps, 0, 0, 0, 0, label, line)

    def transfer(
        self, source: int, target: int, size_bytes: int, *, release_ps: int = 0, delay_ps: int = 0, line: int = 0
    ) -> int:
        """Adds a transfer; returns its number."""
        label = self._label(Label(PHASE, "transfer", TRANSFERS))
        return self._add(Kind.TRANSFER, source, target, 0, size_bytes, 0, release_ps, delay_ps, label, line)

    def collective(self, kind: CollectiveKind, group: str, members: tuple[int, ...], size_bytes: int) -> int:
        """Adds a collective of a process group; of a broadcast or a reduction the first member is the root."""
        number = self._groups.setdefault((group, members), len(self._groups))
        label = self._label(Label(PHASE, kind.name.lower().replace("_", "-"), group))
        return self._add(Kind.COLLECTIVE, number, -1, 0, size_bytes, kind, 0, 0, label, 0)

    def _label(self, label: Label) -> int:
        return self._labels.setdefault(label, len(self._labels))

    def _add(self, *row: int) -> int:
        self._rows.append(row)
        self._need.append(None)
        self._waits.append([])
        return len(self._rows) - 1

    def wait(self, task: int, others: Sequence[tuple[int, int]], *, need: int | None = None) -> None:
        """Lets a task wait for others.

        Args:
            task: The task that waits.
            others: Tasks, and where they must have ended if they are transfers (`AT_SENDER`, `AT_RECEIVER`).
            need: How many of all the tasks it waits for must have ended; all by default.
        """
        self._waits[task].extend(others)
        if need is not None:
            self._need[task] = need

    def build(
        self, *, left_out: tuple[str, ...] = (), lacks: tuple[str, ...] = (), failures: tuple[Failure, ...] = ()
    ) -> Trace:
        """The finished trace, tasks that can never start taken out."""
        table = np.array(self._rows, np.int64).reshape(-1, len(_COLUMNS))
        columns = {name: table[:, at].astype(kind) for at, (name, kind) in enumerate(_COLUMNS.items())}
        waits = _Waits.of(self._waits, self._need)
        alive = waits.startable()
        line = columns.pop("line")
        if not alive.all():
            columns = {name: column[alive] for name, column in columns.items()}
        kept = waits.only(alive)
        graph = TaskGraph(
            ranks=self.ranks,
            **{name: columns.pop(name) for name in ("release_ps", "delay_ps") if columns[name].any()},
            **{name: column for name, column in columns.items() if name not in {"release_ps", "delay_ps"}},
            count=np.ones(len(kept.need), np.int32),
            stream=np.full(len(kept.need), Stream.FREE, np.uint8),
            dep_ptr=kept.ptr,
            dep_idx=kept.task.astype(np.int32),
            dep_at=kept.at if (kept.at != AT_RECEIVER).any() else None,
            need=kept.need.astype(np.int32) if (kept.need < np.diff(kept.ptr)).any() else None,
            labels=list(self._labels),
            communicators=self._communicators(),
        ).validate()
        never = tuple(line[~alive].tolist())
        return Trace(graph, line[alive], never, lacks, left_out, failures)

    def _communicators(self) -> Communicators:
        return Communicators.of([members for _, members in self._groups], [name for name, _ in self._groups])


@dataclass(frozen=True, eq=False)
class _Waits:
    """Which task waits for which.

    Attributes:
        ptr: int64[n + 1].
        task: int64[m], tasks waited for.
        at: uint8[m].
        need: int64[n], how many of them must have ended.
    """

    ptr: Ints
    task: Ints
    at: NDArray[np.uint8]
    need: Ints

    @staticmethod
    def of(waits: Sequence[Sequence[tuple[int, int]]], need: Sequence[int | None]) -> _Waits:
        counts = np.fromiter((len(each) for each in waits), np.int64, len(waits))
        pairs = np.array([pair for each in waits for pair in each], np.int64).reshape(-1, 2)
        wanted: list[Any] = [count if need is None else need for count, need in zip(counts, need, strict=True)]
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return _Waits(ptr, pairs[:, 0], pairs[:, 1].astype(np.uint8), np.array(wanted, np.int64))

    @property
    def waiting(self) -> Ints:
        """int64[m], the task that waits, of every entry."""
        return np.repeat(np.arange(len(self.need)), np.diff(self.ptr))

    def startable(self) -> NDArray[np.bool_]:
        """bool[n]: tasks that start some day if every started task ends some day."""
        left = self.need.copy()
        order = np.argsort(self.task, kind="stable")
        followers = self.waiting[order]
        first = np.searchsorted(self.task[order], np.arange(len(left) + 1))
        alive = left <= 0
        front = np.flatnonzero(alive)
        while len(front):
            reached = np.concatenate([followers[first[task] : first[task + 1]] for task in front])
            np.subtract.at(left, reached, 1)
            before = alive.copy()
            alive[reached[left[reached] <= 0]] = True
            front = np.flatnonzero(alive & ~before)
        return alive

    def only(self, alive: NDArray[np.bool_]) -> _Waits:
        """Waits of the tasks that are alive, renumbered."""
        if alive.all():
            return self
        number = np.cumsum(alive) - 1
        waiting = self.waiting
        kept = alive[waiting] & alive[self.task]
        counts = np.bincount(waiting[kept], minlength=len(alive))[alive]
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return _Waits(ptr, number[self.task[kept]], self.at[kept], self.need[alive])
