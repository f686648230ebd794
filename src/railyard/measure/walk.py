"""Follows the chain of blockers back through a wait: every picosecond is charged to what the chain was doing then.

A task starts when its blocker ends, the blocker started when its own blocker ended, and so on. Read backwards from the
task that ends a wait, these tasks tile the wait without gap or overlap; so the charges of a wait add up to it by
construction. All waits are followed at once, one link of their chains a round. Waits for a member that came late are
handed to `lateness.py` at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Kind
from railyard.kit.errors import RailyardError
from railyard.measure.charge import Charger, Lateness, Membership, Waiting, explain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import TaskGraph


@dataclass
class Chains:
    """The waits still being followed.

    Attributes:
        wait: int64[m]; number of the wait.
        rank: int64[m]; waiting rank.
        low_ps: int64[m]; start of the wait.
        high_ps: int64[m]; everything from here on is charged already.
        task: int64[m]; the task whose start at `high_ps` is to be explained.
        via: int64[m]; see `Waiting`.
        left: bool[m]; whether the chain has left the waiting rank's stage.
    """

    wait: NDArray[np.int64]
    rank: NDArray[np.int64]
    low_ps: NDArray[np.int64]
    high_ps: NDArray[np.int64]
    task: NDArray[np.int64]
    via: NDArray[np.int64]
    left: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.rank)

    def only(self, chosen: NDArray[np.bool_]) -> Chains:
        """The chosen chains."""
        if chosen.all():
            return self
        return Chains(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def waiting(self) -> Waiting:
        """The waits, as a charge needs them."""
        return Waiting(self.rank, self.via, self.left)


def waits_before(
    graph: TaskGraph,
    rank: NDArray[np.int64],
    low_ps: NDArray[np.int64],
    high_ps: NDArray[np.int64],
    task: NDArray[np.int64],
) -> Chains:
    """Waits of `rank` that end at `high_ps` with the start of `task` on its own compute stream."""
    via = np.where(graph.kind[task] == Kind.COLLECTIVE, task, -1)
    return Chains(np.arange(len(rank)), rank, low_ps, high_ps, task, via, np.zeros(len(rank), np.bool_))


def waits_until(
    rank: NDArray[np.int64], low_ps: NDArray[np.int64], high_ps: NDArray[np.int64], task: NDArray[np.int64], *, via: int
) -> Chains:
    """Waits that end at `high_ps` with the end of `task`.

    `via` is -1 where the task is the rank's own, `AT_STEP_END` where it is the last one of the cluster.
    """
    count = len(rank)
    came = np.full(count, via, np.int64)
    return Chains(np.arange(count), rank, low_ps, high_ps, task, came, np.zeros(count, np.bool_))


@dataclass(frozen=True)
class LatenessWalker:
    """Follows chains of blockers.

    Attributes:
        stage: int64[ranks], from `stages`.
    """

    charger: Charger
    stage: NDArray[np.int64]
    membership: Membership

    def before(self, chains: Chains) -> None:
        """Charges waits that end with the start of `chains.task`.

        Raises:
            RailyardError: The record's blockers form a cycle.
        """
        self._settle(self._follow(chains))

    def until(self, chains: Chains) -> None:
        """Charges waits that end with the end of `chains.task`.

        Raises:
            RailyardError: The record's blockers form a cycle.
        """
        late = self._step_into(chains)
        self._settle(late + self._follow(chains))

    def _settle(self, late: list[Lateness]) -> None:
        if late:
            explain(self.charger, self.stage, self.membership, Lateness.joined(late))

    def _follow(self, chains: Chains) -> list[Lateness]:
        record = self.charger.record
        late: list[Lateness] = []
        for _ in range(len(record.graph) + 1):
            chains = chains.only(chains.high_ps > chains.low_ps)
            if not len(chains):
                return late
            blocker = record.column("blocker")[chains.task].astype(np.int64)
            released = np.where(blocker >= 0, record.end_ps[blocker], 0)
            _charge_delayed(self.charger, chains, np.clip(released, chains.low_ps, chains.high_ps))
            chains.task = blocker
            chains = chains.only((blocker >= 0) & (chains.high_ps > chains.low_ps))
            if len(chains):
                late += self._step_into(chains)
        raise RailyardError("the record's blockers form a cycle")

    def _step_into(self, chains: Chains) -> list[Lateness]:
        """Charges `chains.task` from its start (or the start of the wait) to `high_ps`, and moves `high_ps` there."""
        graph, task = self.charger.record.graph, chains.task
        crossing = self.charger.is_communication(task)
        placed = graph.kind[task] != Kind.COLLECTIVE
        elsewhere = placed & (self.stage[np.where(placed, graph.rank[task], 0)] != self.stage[chains.rank])
        chains.left = chains.left | elsewhere
        start = np.clip(self.charger.record.start_ps[task], chains.low_ps, chains.high_ps)
        amount = chains.high_ps - start
        unbooked = self.charger.waited(chains.waiting(), task, amount)
        late = []
        if unbooked.any():
            columns = (chains.wait, chains.rank, chains.low_ps, amount, task, chains.via)
            late = [Lateness(*(column[unbooked] for column in columns))]
        chains.high_ps = start
        chains.via = np.where(crossing & (chains.via == -1), task, chains.via)
        return late


def _charge_delayed(charger: Charger, chains: Chains, released_ps: NDArray[np.int64]) -> None:
    """Charges the time between the end of the blocker and the start that it released, if an engine left any."""
    delayed = chains.high_ps > released_ps
    if delayed.any():
        amount = chains.high_ps[delayed] - released_ps[delayed]
        charger.delayed(chains.waiting().only(delayed), chains.task[delayed], amount)
        chains.high_ps = released_ps
