"""Speeds of running jobs beside their neighbours: the flow engine's, pattern by pattern, each pattern once.

A job's neighbours are the jobs that reach over more than one leaf, as it does, and share one with it: uplinks of leafs
are
where jobs meet. The job and its neighbours run together on the flow engine, all from different phases of their steps,
until
the job has done `STEPS` of them; its speed is its step alone on as few leafs as it could have had over its mean step
here,
so that what a scattered placement costs by itself is in it. Of neighbours the `MOST` that send
most over
what is shared are taken; what those are slowed by their own other neighbours is left out. How far that is from a run
of all
jobs together stands in docs/explanation/operate.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from railyard import engine
from railyard.graph import Job
from railyard.operate.contention.pattern import Member, Pattern, canonical, placed
from railyard.operate.rules import PPM

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from railyard.cluster import Cluster
    from railyard.graph import Record
    from railyard.operate.contention.work import WorkClass
    from railyard.operate.state import State
    from railyard.operate.tree import NodeTree

STEPS = 12
SKIPPED = 4
"""Steps of the job in a run, and how many of them pass before its steps are counted."""
MOST = 6
PHASE = 0.6180339887498949
"""Jobs begin at multiples of the golden section of their steps: no two in phase, and the same in every run."""


class Neighbours:
    """Keeps who meets whom, and asks the engine.

    Args:
        cluster: The machine.
        tree: Its nodes; jobs meet at its leafs.
        classes: Classes of work.
        work: For each job the number of its class; -1: it sends nothing.
        tolerance: Neighbours that send less than this share of what a leaf's uplinks carry are left out.

    Attributes:
        runs: Patterns that the engine was asked for.
    """

    def __init__(
        self,
        cluster: Cluster,
        tree: NodeTree,
        classes: Sequence[WorkClass],
        work: Sequence[int],
        tolerance: float = 0.0,
    ) -> None:
        self.cluster, self.tree, self.classes, self.work = cluster, tree, tuple(classes), list(work)
        self.tolerance = tolerance
        self.runs = 0
        level = tree.levels.index("leaf") if "leaf" in tree.levels else -1
        self._leaf = tree.group[level] if tree.levels else None
        self._members = tree.members[level] if tree.levels else ()
        self._engine = engine.get("flow")
        self._speeds: dict[Pattern, int] = {}
        self._alone: dict[Pattern, float] = {}
        self._on_leaf: dict[int, set[int]] = {}
        self._where: dict[int, Member] = {}

    def changed(self, state: State, started: Iterable[int], ended: Iterable[int]) -> dict[int, int]:
        """Speeds of all jobs that share a leaf with one that came or went, and of those that came."""
        touched: set[int] = set()
        for job in sorted({*started, *ended}):
            touched |= self._leave(job)
        for job in sorted(started):
            if job in state.placed:
                touched |= self._enter(state, job)
        found = {}
        for job in sorted(touched & self._where.keys()):
            speed, culprit = self.speed(job)
            if speed != state.contention_ppm[job]:
                found[job] = speed
                state.slowed.append((state.now_us, job, speed, culprit))
        return found

    def restore(self, state: State) -> None:
        """Takes up the jobs that run."""
        for job in state.placed:
            self._enter(state, job)

    def _enter(self, state: State, job: int) -> set[int]:
        """Notes where a job is; gives those that it meets, and itself."""
        if self._leaf is None or self.work[job] < 0:
            return set()
        leafs = tuple(self._leaf[state.placed[job]].tolist())
        if len(set(leafs)) < 2:
            return set()
        self._where[job] = Member(self.work[job], state.each[job], leafs)
        for leaf in set(leafs):
            self._on_leaf.setdefault(leaf, set()).add(job)
        return {job, *self._meets(job)}

    def _leave(self, job: int) -> set[int]:
        """Forgets a job; gives those that it met."""
        if job not in self._where:
            return set()
        met = self._meets(job)
        for leaf in set(self._where.pop(job).leafs):
            self._on_leaf[leaf].discard(job)
        return met

    def _meets(self, job: int) -> set[int]:
        return {one for leaf in set(self._where[job].leafs) for one in self._on_leaf[leaf]} - {job}

    def speed(self, job: int) -> tuple[int, int]:
        """Speed of a running job in millionths of that alone, and the neighbour that takes most; -1: none does."""
        me = self._where[job]
        shared = sorted((-self._sends(me, self._where[one]), one) for one in self._meets(job))
        least = self.tolerance * sum(-sent for sent, _ in shared)
        chosen = [one for sent, one in shared[:MOST] if -sent > least]
        pattern = canonical([me, *(self._where[one] for one in chosen)])
        if pattern not in self._speeds:
            self._speeds[pattern] = self._simulated(pattern)
        return self._speeds[pattern], chosen[0] if chosen else -1

    def _sends(self, me: Member, other: Member) -> float:
        """Bytes a second of a neighbour over the leafs that it shares, about: each node there sends its share."""
        here = set(me.leafs)
        there = sum(1 for leaf in other.leafs if leaf in here)
        work = self.classes[other.work]
        return there * work.message_bytes / max(work.compute_s, 1e-9)

    def _simulated(self, pattern: Pattern) -> int:
        where = placed(pattern, self._members, self.cluster.ranks_per_server)
        if where is None:
            return PPM
        alone = [self._step_alone(one) for one in pattern]
        last = STEPS * alone[0] * 1.5 + max(alone)
        counts = [STEPS, *(math.ceil(last * 1.3 / step_s) for step_s in alone[1:])]
        jobs = [
            Job(
                self.classes[one.work].steps(len(ranks), count),
                ranks,
                start_ps=round(number * PHASE % 1.0 * step_s * 1e12),
                name=str(number),
            )
            for number, (one, ranks, count, step_s) in enumerate(zip(pattern, where, counts, alone, strict=True))
        ]
        self.runs += 1
        record = self._engine.simulate(jobs, self.cluster)
        mean = mean_step_s(record.of(0), STEPS)
        return min(PPM, round(PPM * self._step_alone(self._packed(pattern[0])) / mean))

    def _packed(self, one: Member) -> Member:
        """The same job on as few leafs as it could have had."""
        sizes = sorted(map(len, self._members), reverse=True)
        leafs = [leaf for leaf, size in enumerate(sizes) for _ in range(size)]
        return Member(one.work, one.each, tuple(leafs[: len(one.leafs)]))

    def _step_alone(self, one: Member) -> float:
        """A step of a job with the network to itself, in seconds."""
        pattern = canonical([one])
        if pattern not in self._alone:
            where = placed(pattern, self._members, self.cluster.ranks_per_server)
            if where is None:
                return self.classes[one.work].compute_s
            job = Job(self.classes[one.work].steps(len(where[0]), STEPS), where[0], start_ps=0, name="alone")
            self._alone[pattern] = mean_step_s(self._engine.simulate([job], self.cluster), STEPS)
        return self._alone[pattern]


def mean_step_s(record: Record, steps: int) -> float:
    """Mean of the steps after the first few, in seconds."""
    each = len(record) // steps
    ends = record.end_ps.reshape(steps, each).max(axis=1)
    return float(ends[-1] - ends[SKIPPED - 1]) / (steps - SKIPPED) * 1e-12
