"""The first waist: tasks, their streams and what they wait for, as columns.

Tasks of one (rank, stream) run one after another in the order of their index. A collective occupies its stream on every
member of its communicator, starts when all of them have reached it, and ends at once for all. A transfer occupies its
source's stream only. Tasks on the stream `FREE` do not wait for one another's turn: only `dep_ptr`/`dep_idx`, which add
waits to that order, and `release_ps` say when they start. Collectives stay symbolic: each engine lowers them at
its own fidelity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, unique
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray


class Kind(IntEnum):
    """Kind of a task; reads and writes are of storage, loads and stores of the memory pool."""

    COMPUTE = 0
    TRANSFER = 1
    COLLECTIVE = 2
    READ = 3
    WRITE = 4
    LOAD = 5
    STORE = 6


@unique
class Stream(IntEnum):
    """The queue of a rank on which a task runs; `FREE` is no queue: its tasks may run at the same time."""

    COMPUTE = 0
    TENSOR = 1
    GRADIENT = 2
    FORWARD = 3
    BACKWARD = 4
    EXPERT = 5
    CONTEXT = 6
    STORAGE = 7
    PARAMETER = 8
    OUTER = 9
    LOADER = 10
    COPY = 11
    FREE = 12
    LOAD = 13
    STORE = 14
    HOST = 15


AT_SENDER, AT_RECEIVER = 0, 1
"""When a transfer has ended for what waits for it: its source has the last acknowledgement, its target every byte."""


class CollectiveKind(IntEnum):
    """Kind of a collective; sizes follow nccl-tests (the larger of one rank's send and receive buffer)."""

    ALL_REDUCE = 0
    ALL_GATHER = 1
    REDUCE_SCATTER = 2
    ALL_TO_ALL = 3
    BROADCAST = 4
    REDUCE = 5


HOST = "host"
"""Phase of computations that run on the host's CPU."""


@dataclass(frozen=True)
class Label:
    """Group of tasks.

    Attributes:
        phase: forward, backward, weight, recompute, gradient, parameter, optimizer, pipeline, data or checkpoint; of a
            trace: trace, or host for what the host's CPU does; of measured kernels: compute,
            communication or copy.
        op: The operation in a word or two.
        group: Class of the communicator ("tp", "dp", "pp", "ep", "cp", "edp"), empty for computation.
        layer: Virtual pipeline stage or layer, -1 where neither applies.
        micro_batch: Micro-batch, -1 where none applies.
    """

    phase: str
    op: str
    group: str = ""
    layer: int = -1
    micro_batch: int = -1

    @property
    def name(self) -> str:
        """Phase, operation and group in one line."""
        return " ".join(word for word in (self.phase, self.op, self.group) if word)


@dataclass(frozen=True)
class Communicators:
    """Groups of ranks: communicator c has the members `ranks[ptr[c]:ptr[c+1]]`, in ring order.

    Attributes:
        ptr: int64[n+1].
        ranks: int32[ptr[-1]].
        group: The class of each communicator, n names.
    """

    ptr: NDArray[np.int64]
    ranks: NDArray[np.int32]
    group: list[str]

    def __len__(self) -> int:
        return len(self.group)

    def members(self, communicator: int) -> NDArray[np.int32]:
        """The ranks of one communicator."""
        return self.ranks[self.ptr[communicator] : self.ptr[communicator + 1]]

    @staticmethod
    def of(groups: Sequence[ArrayLike], names: str | Sequence[str] = "") -> Communicators:
        """Communicators with the ranks of each group; one class for all of them, or one each."""
        members = [np.asarray(group, np.int32) for group in groups]
        ptr = np.cumsum([0, *map(len, members)], dtype=np.int64)
        group = [names] * len(members) if isinstance(names, str) else list(names)
        return Communicators(ptr, np.concatenate([np.empty(0, np.int32), *members]), group)


def _none_idx() -> NDArray[np.int32]:
    return np.empty(0, np.int32)


OBLIGATORY = {
    "kind": (Kind.COMPUTE, np.uint8),
    "rank": (0, np.int32),
    "peer": (-1, np.int32),
    "duration_ps": (0, np.int64),
    "size_bytes": (0, np.int64),
    "count": (1, np.int32),
    "collective": (0, np.uint8),
    "stream": (Stream.COMPUTE, np.uint8),
    "label": (0, np.int32),
}
"""Usual value and type of each obligatory column."""


@dataclass(frozen=True)
class TaskGraph:
    """n tasks of `ranks` ranks.

    Attributes:
        ranks: Number of ranks; every rank index is below it.
        kind: uint8[n], a `Kind`.
        rank: int32[n]; rank of a computation, read, write, load or store; source of a transfer; communicator of a
            collective.
        peer: int32[n]; destination of a transfer, else -1.
        duration_ps: int64[n]; of a computation on a nominal accelerator, else 0.
        size_bytes: int64[n]; of a transfer, read, write, load, store, or of ONE invocation of a collective.
        count: int32[n]; back-to-back invocations of a collective or transfer, requests of a read or write, at least
            1.
        collective: uint8[n], a `CollectiveKind`; 0 where none.
        stream: uint8[n], a `Stream`.
        label: int32[n], index into `labels`.
        dep_ptr: int64[n+1], CSR pointer into `dep_idx`.
        dep_idx: int32; the tasks that must have ended.
        labels: The label table.
        communicators: The groups that collectives run in.
        loss_index: int32[n] or None where communications slow no computation. Of a computation: its row of `loss`; of a
            communication: the column that it counts for while it runs; -1: none.
        loss: float64[rows, columns]; share of its speed that a computation loses to each communication of a column that
            runs on its rank at the same time. Shares add up.
        release_ps: int64[n] or None where no task has such a time; a task does not start earlier.
        delay_ps: int64[n] or None; passes from when a task may start to its start.
        need: int32[n] or None where every task waits for all of its dependencies; how many of them must have ended.
            Fewer than all only on the stream `FREE`.
        dep_at: uint8[m] or None, one a dependency: 0 (`AT_SENDER`): a transfer has ended when its source has the last
            acknowledgement; 1 (`AT_RECEIVER`, what None stands for): when its destination has every byte. Fluid
            engines have one end for both.
    """

    ranks: int
    kind: NDArray[np.uint8]
    rank: NDArray[np.int32]
    peer: NDArray[np.int32]
    duration_ps: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    count: NDArray[np.int32]
    collective: NDArray[np.uint8]
    stream: NDArray[np.uint8]
    label: NDArray[np.int32]
    dep_ptr: NDArray[np.int64]
    dep_idx: NDArray[np.int32] = field(default_factory=_none_idx)
    labels: list[Label] = field(default_factory=list)
    communicators: Communicators = field(default_factory=lambda: Communicators.of([]))
    loss_index: NDArray[np.int32] | None = None
    loss: NDArray[np.float64] | None = None
    release_ps: NDArray[np.int64] | None = None
    delay_ps: NDArray[np.int64] | None = None
    need: NDArray[np.int32] | None = None
    dep_at: NDArray[np.uint8] | None = None

    @classmethod
    def of(cls, ranks: int, *, waits: Sequence[Sequence[int]] = (), **columns: Any) -> TaskGraph:
        """Tasks from the columns that differ from the usual ones.

        Args:
            ranks: Number of ranks.
            waits: Tasks that each task waits for; empty where none waits, or where `dep_ptr` and `dep_idx` are given.
            columns: Fields by name. One value of an obligatory column stands for all tasks; without one they have that
                of `OBLIGATORY`: computations on rank 0 that take no time.
        """
        given = {name: np.asarray(columns.pop(name, value)) for name, (value, _) in OBLIGATORY.items()}
        n = np.broadcast(*given.values()).size
        full: dict[str, Any] = {
            name: np.array(np.broadcast_to(given[name], n), kind) for name, (_, kind) in OBLIGATORY.items()
        }
        if waits:
            columns["dep_ptr"] = np.cumsum([0, *map(len, waits)], dtype=np.int64)
            columns["dep_idx"] = np.array([task for some in waits for task in some], np.int32)
        columns.setdefault("dep_ptr", np.zeros(n + 1, np.int64))
        return cls(ranks, **full, **columns)

    def __len__(self) -> int:
        return len(self.kind)

    def dependencies(self, task: int) -> NDArray[np.int32]:
        """The tasks that must have ended before `task` starts, beyond its stream's order."""
        return self.dep_idx[self.dep_ptr[task] : self.dep_ptr[task + 1]]

    @property
    def on_accelerator(self) -> NDArray[np.bool_]:
        """bool[n], computations that occupy the accelerator, not the host's CPU."""
        host = np.array([label.phase == HOST for label in self.labels], np.bool_)
        computes: NDArray[np.bool_] = self.kind == Kind.COMPUTE
        return computes & ~host[self.label] if host.any() else computes

    def validate(self) -> TaskGraph:
        """The same graph when every column has the right length and every index is in range.

        Raises:
            InputError: Names the first column or task that is wrong.
        """
        n = len(self)
        for name in ("rank", "peer", "duration_ps", "size_bytes", "count", "collective", "stream", "label"):
            if len(getattr(self, name)) != n:
                raise InputError(f"column `{name}` has {len(getattr(self, name))} entries", allowed=n)
        if len(self.dep_ptr) != n + 1:
            raise InputError(f"column `dep_ptr` has {len(self.dep_ptr)} entries", allowed=n + 1)
        self._check_groups()
        if n == 0:
            return self
        groups = self.kind == Kind.COLLECTIVE
        self._in_range("kind", self.kind, len(Kind))
        self._in_range("stream", self.stream, len(Stream))
        self._in_range("rank", np.where(groups, 0, self.rank), self.ranks)
        self._in_range("communicator", np.where(groups, self.rank, 0), max(len(self.communicators), 1))
        self._in_range("peer", np.where(self.kind == Kind.TRANSFER, self.peer, 0), self.ranks)
        self._in_range("label", self.label, len(self.labels))
        self._in_range("dep_idx", self.dep_idx, n)
        self._in_range("collective", self.collective, len(CollectiveKind))
        self._at_least("duration_ps", self.duration_ps, 0)
        self._at_least("size_bytes", self.size_bytes, 0)
        self._at_least("count", self.count, 1)
        self._check_contention()
        self._check_starts()
        return self

    def _check_groups(self) -> None:
        ptr, ranks = self.communicators.ptr, self.communicators.ranks
        if len(ptr) != len(self.communicators) + 1:
            raise InputError(f"communicators' `ptr` has {len(ptr)} entries", allowed=len(self.communicators) + 1)
        if ptr[0] or ptr[-1] != len(ranks) or (np.diff(ptr) < 0).any():
            raise InputError("communicators' `ptr` has to rise from 0 to their number of members", allowed=len(ranks))
        self._in_range("rank of a communicator", ranks, self.ranks)

    def _check_starts(self) -> None:
        lengths = {"release_ps": len(self), "delay_ps": len(self), "need": len(self), "dep_at": len(self.dep_idx)}
        for name, length in lengths.items():
            column = getattr(self, name)
            if column is None:
                continue
            if len(column) != length:
                raise InputError(f"column `{name}` has {len(column)} entries", allowed=length)
            self._at_least(name, column, 0)
        if self.dep_at is not None:
            self._in_range("dep_at", self.dep_at, 2)
        self._check_need()

    def _check_need(self) -> None:
        if self.need is None:
            return
        every = np.diff(self.dep_ptr)
        least = np.where(self.stream == Stream.FREE, np.minimum(every, 1), every)
        bad = np.flatnonzero((self.need < least) | (self.need > every))
        if bad.size:
            task = bad[0]
            allowed = f"{least[task]} to {every[task]}"
            raise InputError(f"`need` of task {task} is out of range", found=self.need[task], allowed=allowed)

    def _check_contention(self) -> None:
        if self.loss_index is None or self.loss is None:
            return
        if len(self.loss_index) != len(self):
            raise InputError(f"column `loss_index` has {len(self.loss_index)} entries", allowed=len(self))
        rows, columns = self.loss.shape
        computes = self.kind == Kind.COMPUTE
        self._at_least("loss_index", self.loss_index, -1)
        self._in_range("loss_index", np.where(computes, self.loss_index, -1) + 1, rows + 1)
        self._in_range("loss_index", np.where(computes, -1, self.loss_index) + 1, columns + 1)
        bad = np.flatnonzero(~((self.loss >= 0) & (self.loss <= 1)))
        if bad.size:
            raise InputError("a lost share of speed", found=self.loss.ravel()[bad[0]], allowed="0 to 1")

    def _in_range(self, name: str, values: NDArray[np.generic], end: int) -> None:
        numbers = np.asarray(values, np.int64)
        bad = np.flatnonzero((numbers < 0) | (numbers >= end))
        if bad.size:
            raise InputError(
                f"`{name}` of entry {bad[0]} is out of range", found=numbers[bad[0]], allowed=f"0 to {end - 1}"
            )

    def _at_least(self, name: str, values: NDArray[np.generic], least: int) -> None:
        numbers = np.asarray(values, np.int64)
        bad = np.flatnonzero(numbers < least)
        if bad.size:
            raise InputError(
                f"`{name}` of task {bad[0]} is too small", found=numbers[bad[0]], allowed=f"at least {least}"
            )
