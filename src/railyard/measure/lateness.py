"""Why a member was late: looks back along its own chain for what took longer there than it should have.

While others wait in a collective, the late member usually just computes, as they did before it; that says nothing about
why it is late. So its chain is followed on into the past, beyond the start of the wait, until the time owed is
explained by

    compute     that ran longer than its nominal duration: a straggler, whoever it is;
    contention  of a communication that ended before the wait began: the network made it late;
    a delay     before a task that nothing blocked: a straggler;

or until a collective in which the waiting rank took part too: both left it together. What stays unexplained is `bubble`
when the late member had waited in its pipeline, else `straggler` (its work was larger).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Kind
from railyard.kit.errors import RailyardError
from railyard.measure.causes import Cause

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Communicators
    from railyard.measure.charge import Charger


@dataclass
class Lateness:
    """Waits for members that were computing when they should have been there.

    Attributes:
        wait: int64[m]; number of the wait, equal for parts of one wait.
        rank: int64[m]; who waited.
        low_ps: int64[m]; since when.
        owed_ps: int64[m]; how long, still to be explained.
        task: int64[m]; the computation that was waited for.
        via: int64[m]; the collective in which it was waited for, or `AT_STEP_END`.
    """

    wait: NDArray[np.int64]
    rank: NDArray[np.int64]
    low_ps: NDArray[np.int64]
    owed_ps: NDArray[np.int64]
    task: NDArray[np.int64]
    via: NDArray[np.int64]

    @staticmethod
    def joined(parts: list[Lateness]) -> Lateness:
        """One entry a wait: the first part's task, the sum of what is owed."""
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
    """Answers which ranks belong to which communicators."""

    def __init__(self, communicators: Communicators, ranks: int) -> None:
        owner = np.repeat(np.arange(len(communicators), dtype=np.int64), np.diff(communicators.ptr))
        self._ranks = ranks
        self._keys = np.sort(owner * ranks + communicators.ranks)

    def holds(self, communicator: NDArray[np.int64], rank: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each communicator holds the rank beside it."""
        if not self._keys.size:
            return np.zeros(len(rank), np.bool_)
        keys = communicator * self._ranks + rank
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        known: NDArray[np.bool_] = self._keys[place] == keys
        return known


def explain(charger: Charger, stage: NDArray[np.int64], membership: Membership, late: Lateness) -> None:
    """Books all that is owed.

    Args:
        charger: Books what is found.
        stage: int64[ranks], from `stages`.
        membership: Of the graph's communicators.
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
    """Takes what the current task explains, then moves on to its blocker."""
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
