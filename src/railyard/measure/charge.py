"""Charges the time of a running task to the ranks that waited for it, or that ran it on their compute stream.

A communication that took d, or a when alone, with latency l, splits into latency l, bandwidth a - l and contention
d - a. If only x of it was exposed, contention is charged first, min(x, d - a), because without contention exactly that
would not have been waited for. The rest is split between latency and bandwidth in proportion.

Why was a member of a collective late? Usually it just computes while others wait, as they did before, which explains
nothing. So its chain of blockers is followed into the past, beyond the start of the wait, until the time is explained
by

    compute     that ran longer than its nominal duration: a straggler, whichever rank it is;
    contention  of a communication that ended before the wait began: the network made it late;
    a delay     before a task that nothing blocked: a straggler;

or until a collective that the waiting rank took part in too: both left it together. Time that stays unexplained is
`bubble` if the late member had waited in its pipeline, otherwise `straggler` (its work was larger).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Kind, Record
from railyard.kit.errors import RailyardError
from railyard.measure.causes import PIPELINE_INDEX, Cause, Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Communicators
    from railyard.measure.causes import TimeLedger


@dataclass
class Lateness:
    """Waits for members that were still computing when they were due.

    Attributes:
        wait: int64[m]; number of the wait, the same for parts of one wait.
        rank: int64[m]; the waiting rank.
        low_ps: int64[m]; start of the wait.
        owed_ps: int64[m]; time still to be explained.
        task: int64[m]; the computation that is waited for.
        via: int64[m]; the collective in which the rank waits, or `AT_STEP_END`.
    """

    wait: NDArray[np.int64]
    rank: NDArray[np.int64]
    low_ps: NDArray[np.int64]
    owed_ps: NDArray[np.int64]
    task: NDArray[np.int64]
    via: NDArray[np.int64]

    @staticmethod
    def joined(parts: list[Lateness]) -> Lateness:
        """One entry per wait: the first part's task, and the sum of what is owed."""
        columns = [np.concatenate([getattr(part, name) for part in parts]) for name in Lateness.__dataclass_fields__]
        wait, first, group = np.unique(columns[0], return_index=True, return_inverse=True)
        owed = np.bincount(group, columns[3]).astype(np.int64)
        return Lateness(wait, columns[1][first], columns[2][first], owed, columns[4][first], columns[5][first])


@dataclass
class _Search:
    rank: NDArray[np.int64]
    low_ps: NDArray[np.int64]
    owed_ps: NDArray[np.int64]
    origin: NDArray[np.int64]
    via: NDArray[np.int64]
    task: NDArray[np.int64]
    left: NDArray[np.bool_]

    @staticmethod
    def of(late: Lateness) -> _Search:
        known = (late.rank, late.low_ps, late.owed_ps, late.task, late.via)
        return _Search(*known, task=late.task, left=np.zeros(len(late.rank), np.bool_))

    def only(self, chosen: NDArray[np.bool_]) -> _Search:
        return self if chosen.all() else _Search(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


class Membership:
    """Membership of ranks in communicators."""

    def __init__(self, communicators: Communicators, ranks: int) -> None:
        owner = np.repeat(np.arange(len(communicators), dtype=np.int64), np.diff(communicators.ptr))
        self._ranks = ranks
        self._keys = np.sort(owner * ranks + communicators.ranks)

    def holds(self, communicator: NDArray[np.int64], rank: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each communicator contains the rank of the same entry."""
        if not self._keys.size:
            return np.zeros(len(rank), np.bool_)
        keys = communicator * self._ranks + rank
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        known: NDArray[np.bool_] = self._keys[place] == keys
        return known


def explain(charger: Charger, stage: NDArray[np.int64], membership: Membership, late: Lateness) -> None:
    """Books all time that is owed.

    Args:
        charger: Books the causes.
        stage: int64[ranks], from `stages`.
        membership: Membership in the graph's communicators.
        late: The waits; consumed.

    Raises:
        RailyardError: The record's blockers form a cycle.
    """
    search = _Search.of(late)
    graph = charger.record.graph
    for _ in range(len(graph) + 1):
        search = search.only(search.owed_ps > 0)
        met = graph.kind[search.task] == Kind.COLLECTIVE
        met &= membership.holds(np.where(met, graph.rank[search.task], 0).astype(np.int64), search.rank)
        _book_rest(charger, search.only(met) if met.any() else None)
        search = search.only(~met)
        if not len(search.rank):
            return
        search = _look_back(charger, stage, search)
        if not len(search.rank):
            return
    raise RailyardError("the record's blockers form a cycle")


def _look_back(charger: Charger, stage: NDArray[np.int64], search: _Search) -> _Search:
    """Books what the current task explains, then moves on to its blocker."""
    line, graph, task = charger.record, charger.record.graph, search.task
    kind = graph.kind[task]
    placed = kind != Kind.COLLECTIVE
    elsewhere = placed & (stage[np.where(placed, graph.rank[task], 0)] != stage[search.rank])
    crossing = charger.is_communication(task)
    search.left = search.left | elsewhere
    duration = line.end_ps[task] - line.start_ps[task]
    computing = kind == Kind.COMPUTE
    nominal = graph.duration_ps[task] + (line.column("slowed_ps")[task] if line.has("slowed_ps") else 0)
    over = np.where(computing, duration - nominal, duration - line.column("alone_ps")[task])
    over = np.where(computing | (line.end_ps[task] <= search.low_ps), over, 0)
    _take(charger, search, np.clip(over, 0, search.owed_ps), crossing)
    blocker = line.column("blocker")[task].astype(np.int64)
    late_ps = line.start_ps[task] - np.where(blocker >= 0, line.end_ps[blocker], 0)
    _take(charger, search, np.where(placed, np.clip(late_ps, 0, search.owed_ps), 0), np.zeros(len(task), np.bool_))
    search.task = blocker
    ended = (blocker < 0) & (search.owed_ps > 0)
    _book_rest(charger, search.only(ended) if ended.any() else None)
    return search.only((blocker >= 0) & (search.owed_ps > 0))


def _take(charger: Charger, search: _Search, amount_ps: NDArray[np.int64], network: NDArray[np.bool_]) -> None:
    some = amount_ps > 0
    if some.any():
        cause = np.where(network[some], Cause.CONTENTION, Cause.STRAGGLER).astype(np.int64)
        via = np.where(network[some], search.task[some], search.via[some])
        charger.late(search.rank[some], cause, search.task[some], via, amount_ps[some])
        search.owed_ps = search.owed_ps - amount_ps


def _book_rest(charger: Charger, search: _Search | None) -> None:
    if search is not None:
        cause = np.where(search.left, Cause.BUBBLE, Cause.STRAGGLER).astype(np.int64)
        charger.late(search.rank, cause, search.origin, search.via, search.owed_ps)


_COMMUNICATES = (Kind.TRANSFER, Kind.COLLECTIVE, Kind.LOAD, Kind.STORE)
AT_STEP_END = -2
"""The barrier between this step and the next, in place of the communication task that was crossed."""


@dataclass(frozen=True)
class Waiting:
    """Waiting ranks, and how the chain of blockers reached its current task.

    Attributes:
        rank: int64[m]; the waiting rank.
        via: int64[m]; the communication that passed the wait on, `AT_STEP_END`, or -1 for none.
        left: bool[m]; whether the chain has left the waiting rank's pipeline stage.
    """

    rank: NDArray[np.int64]
    via: NDArray[np.int64]
    left: NDArray[np.bool_]

    def only(self, chosen: NDArray[np.bool_]) -> Waiting:
        """The chosen entries."""
        return Waiting(self.rank[chosen], self.via[chosen], self.left[chosen])


@dataclass(frozen=True)
class Charger:
    """Books time of a record into a ledger."""

    record: Record
    vocabulary: Vocabulary
    ledger: TimeLedger

    def is_communication(self, task: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Transfers, collectives, loads and stores, except those that feed or save a step: these wait for storage."""
        kind, label = self.record.graph.kind[task], self.record.graph.label[task]
        stored = self.vocabulary.checkpoint[label] | self.vocabulary.data[label]
        found: NDArray[np.bool_] = np.isin(kind, _COMMUNICATES) & ~stored
        return found

    def compute(self, rank: NDArray[np.int64], task: NDArray[np.int64], amount_ps: NDArray[np.int64]) -> None:
        """Books tasks that ran on the rank's own compute stream."""
        network = self.is_communication(task)
        self._network(rank[network], task[network], amount_ps[network])
        rest = ~network
        self._book(rank[rest], self._local_cause(task[rest], Cause.COMPUTE), task[rest], 0, amount_ps[rest])

    def waited(self, waiting: Waiting, task: NDArray[np.int64], amount_ps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Books waits during which the chain of blockers was running `task`.

        Returns:
            The waits for a late member of the same stage, which are NOT booked: `lateness.py` finds the reason.
        """
        network = self.is_communication(task)
        self._network(waiting.rank[network], task[network], amount_ps[network])
        late = self._is_late(waiting, task) & ~network
        rest = ~network & ~late
        unbooked = waiting.only(rest)
        reached = np.where(unbooked.via == -1, Cause.DEPENDENCY, Cause.BUBBLE)
        cause = self._local_cause(task[rest], reached.astype(np.int64))
        self._book(unbooked.rank, cause, task[rest], self._group(unbooked.via, cause), amount_ps[rest])
        return late

    def delayed(self, waiting: Waiting, task: NDArray[np.int64], amount_ps: NDArray[np.int64]) -> None:
        """Books waits during which nothing ran and `task` was delayed although nothing blocked it."""
        reached = np.where(waiting.left, Cause.BUBBLE, Cause.STRAGGLER)
        cause = np.where(waiting.via == -1, Cause.FAULT, reached).astype(np.int64)
        cause = np.where(self._is_timed(task), Cause.RELEASE, cause)
        self.late(waiting.rank, cause, task, waiting.via, amount_ps)

    def _is_timed(self, task: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the work itself delayed a task: by its release time, or by a delay before its start."""
        graph = self.record.graph
        timed = np.zeros(len(task), np.bool_)
        for column in (graph.release_ps, graph.delay_ps):
            if column is not None:
                timed |= column[task] > 0
        return timed

    def late(
        self,
        rank: NDArray[np.int64],
        cause: NDArray[np.int64],
        task: NDArray[np.int64],
        via: NDArray[np.int64],
        amount_ps: NDArray[np.int64],
    ) -> None:
        """Books waits with a known cause; for stragglers, the rank of `task` is the one waited for."""
        cause = self._local_cause(task, cause)
        self._book(rank, cause, task, self._group(via, cause), amount_ps)
        graph = self.record.graph
        blamed = (cause == Cause.STRAGGLER) & (graph.kind[task] != Kind.COLLECTIVE)
        self.ledger.book_late(graph.rank[task[blamed]].astype(np.int64), via[blamed], amount_ps[blamed])

    def _is_late(self, waiting: Waiting, task: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the wait is for a computation of the same stage, reached through a collective."""
        late: NDArray[np.bool_] = self.record.graph.kind[task] == Kind.COMPUTE
        late &= self._local_cause(task, Cause.COMPUTE) == Cause.COMPUTE
        late &= ~waiting.left & (waiting.via != -1)
        return late

    def _network(self, rank: NDArray[np.int64], task: NDArray[np.int64], amount_ps: NDArray[np.int64]) -> None:
        if not rank.size:
            return
        line = self.record
        duration = line.end_ps[task] - line.start_ps[task]
        latency = np.minimum(line.column("latency_ps")[task], duration)
        alone = np.clip(line.column("alone_ps")[task], latency, duration)
        contention = np.minimum(amount_ps, duration - alone)
        rest = amount_ps - contention
        share = np.divide(latency, alone, out=np.ones(len(task)), where=alone > 0)
        waited_latency = np.minimum((rest * share).astype(np.int64), rest)
        group = self._group(task)
        for cause, part in (
            (Cause.LATENCY, waited_latency),
            (Cause.BANDWIDTH, rest - waited_latency),
            (Cause.CONTENTION, contention),
        ):
            self._book(rank, np.full(len(task), cause, np.int64), task, group, part)

    def _local_cause(self, task: NDArray[np.int64], otherwise: NDArray[np.int64] | Cause) -> NDArray[np.int64]:
        """Data or checkpoint depending on the task, else `otherwise`."""
        graph = self.record.graph
        label, kind = graph.label[task], graph.kind[task]
        checkpoint = self.vocabulary.checkpoint[label]
        data = self.vocabulary.data[label] | ((kind == Kind.READ) & ~checkpoint)
        written = checkpoint | ((kind == Kind.WRITE) & ~data)
        return np.where(data, Cause.DATA, np.where(written, Cause.CHECKPOINT, otherwise)).astype(np.int64)

    def _group(self, via: NDArray[np.int64], cause: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        known = via >= 0
        label = self.record.graph.label[np.where(known, via, 0)]
        group = np.where(known, self.vocabulary.group_of[label], 0)
        return group if cause is None else np.where(cause == Cause.BUBBLE, PIPELINE_INDEX, group)

    def _book(
        self,
        rank: NDArray[np.int64],
        cause: NDArray[np.int64],
        task: NDArray[np.int64],
        group: NDArray[np.int64] | int,
        amount_ps: NDArray[np.int64],
    ) -> None:
        phase = self.vocabulary.phase_of[self.record.graph.label[task]]
        self.ledger.book(rank, cause, np.broadcast_to(np.asarray(group, np.int64), rank.shape), phase, amount_ps)
