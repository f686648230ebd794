"""Records what happened in a run: allocations, samples of the cluster, faults. Columns, for files and figures."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.work.operate.failures.fault import NodeFault
    from railyard.work.operate.state import State


class LeaveReason(IntEnum):
    """Why a job left its nodes."""

    DONE = 0
    PREEMPTED = 1
    FAILED = 2
    LIMIT = 3
    MOVED = 4
    VAIN = 5
    RUNS = 6


class Away(IntEnum):
    """Why a node is out of service."""

    BROKEN = 0
    SPARE = 1
    WINDOW = 2


ALLOCATIONS = ("job", "start_us", "end_us", "outcome", "first", "count")
SERIES = ("time_us", "waiting", "running", "busy", "free", "idle_nodes", "out_nodes", "broken_free", "broken_idle")
FAULTS = ("time_us", "mode", "effect", "node", "nodes", "jobs", "accelerators")
OUTAGES = ("node", "start_us", "end_us", "why")


class RunLedger:
    """Accounts of a run.

    Attributes:
        busy_us: Accelerator-microseconds in use so far.
        up_us: Accelerator-microseconds in service so far.
        useless_us: Accelerator-microseconds free while a job waited, so far.
        allocations: Rows of `ALLOCATIONS`: nodes are `nodes[first : first + count]`.
        series: Rows of `SERIES`: `broken_free` counts free accelerators of partly used nodes, `broken_idle` idle nodes
            of the narrowest groups that are partly in use.
        faults: Rows of `FAULTS`: accelerators of the affected jobs.
        outages: Finished rows of `OUTAGES`: a node, the start and end of its outage, and the reason (`Away`).
        out: Nodes out of service, with start and reason.
    """

    def __init__(self, state: State, every_us: int) -> None:
        self.state, self.every_us = state, every_us
        self.ended = 0
        self.busy_us = self.up_us = self.useless_us = 0
        self.time_us = self.next_us = 0
        self.allocations: list[tuple[int, ...]] = []
        self.nodes: list[int] = []
        self.series: list[tuple[int, ...]] = []
        self.faults: list[tuple[int, ...]] = []
        self.outages: list[tuple[int, ...]] = []
        self.out: dict[int, tuple[int, int]] = {}

    def advance(self, time_us: int) -> None:
        """Accounts for the time up to the next event, during which nothing changes."""
        while self.next_us <= time_us:
            self.series.append(self._sample(self.next_us))
            self.next_us += self.every_us
        state, span = self.state, time_us - self.time_us
        self.busy_us += state.busy * span
        self.up_us += (state.busy + state.free.accelerators) * span
        self.useless_us += state.free.accelerators * span if state.waiting else 0
        self.time_us = time_us

    @property
    def totals(self) -> tuple[int, int, int]:
        """Accelerator-microseconds in use, in service, and free while jobs wait."""
        return self.busy_us, self.up_us, self.useless_us

    def _sample(self, time_us: int) -> tuple[int, ...]:
        state, free = self.state, self.state.free
        partly = (free.room > 0) & (free.room < state.tree.accelerators)
        return (
            time_us,
            state.waiting,
            len(state.placed),
            state.busy,
            free.accelerators,
            free.idle,
            int(np.count_nonzero(state.broken)),
            int(free.room[partly].sum()),
            self._broken_idle(),
        )

    def _broken_idle(self) -> int:
        free = self.state.free
        if not free.idle_in:
            return 0
        narrow, size = free.idle_in[-1], self.state.tree.size[-1]
        return int(narrow[narrow < size].sum())

    def left(self, job: int, outcome: LeaveReason) -> None:
        """Records that a job leaves its nodes now."""
        state = self.state
        placed = state.placed[job].tolist()
        row = (job, state.begun_us[job], state.now_us, int(outcome), len(self.nodes), len(placed))
        self.allocations.append(row)
        self.nodes += placed

    def faulted(self, fault: NodeFault, nodes: Sequence[int], jobs: Sequence[int]) -> None:
        """Records a fault of nodes in service."""
        hit = sum(self.state.held(job) for job in jobs)
        self.faults.append((self.state.now_us, fault.mode, int(fault.effect), nodes[0], len(nodes), len(jobs), hit))

    def shut(self, nodes: Sequence[int], why: Away) -> None:
        """Records that nodes are out of service from now on."""
        for node in nodes:
            if self.out.get(node, (0, -1))[1] != why:
                self.back([node])
                self.out[node] = (self.state.now_us, int(why))

    def back(self, nodes: Sequence[int]) -> None:
        """Records that nodes are back in service."""
        for node in nodes:
            since, why = self.out.pop(node, (self.state.now_us, 0))
            if since < self.state.now_us:
                self.outages.append((node, since, self.state.now_us, why))

    def columns(self, which: str) -> dict[str, NDArray[np.int64]]:
        """One of the tables: int64[rows] by column name."""
        names = {"allocations": ALLOCATIONS, "series": SERIES, "faults": FAULTS, "outages": OUTAGES}[which]
        rows = np.array(getattr(self, which), np.int64).reshape(-1, len(names))
        return {name: rows[:, number] for number, name in enumerate(names)}
