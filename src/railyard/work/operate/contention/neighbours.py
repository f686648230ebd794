"""Job speeds next to their neighbors: which jobs share leafs, and the flow engine's answer for each pattern.

Two jobs are neighbors if both span more than one leaf and they share one, because jobs contend on leaf uplinks. A job
is simulated with the `MOST` neighbors that send most over the shared leafs, and with the `FAR` of their own neighbors
that send most over what those share. Everything further away is left out. docs/validation/contention.md compares this
with runs of all jobs together.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from railyard.work.operate.contention.intensity import excess
from railyard.work.operate.contention.pattern import PatternJob, canonical, out_bytes
from railyard.work.operate.contention.speeds import Manner, Speeds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.work.operate.contention.pattern import WorkClass
    from railyard.work.operate.free import PlacementRequest
    from railyard.work.operate.state import State
    from railyard.work.operate.tree import NodeTree

MOST = 6
FAR = 6


class Neighbours:
    """Tracks which jobs share leafs, and the traffic that leaves each group.

    Args:
        cluster: The machine.
        tree: Its nodes; jobs contend at its leafs.
        classes: Classes of work.
        work: int[jobs], the class of each job; -1: it sends nothing.
        tolerance: Neighbors that send less than this share of a leaf's uplink capacity are ignored.
        manner: How traffic of different jobs is scheduled on shared links.
    """

    def __init__(
        self,
        cluster: Cluster,
        tree: NodeTree,
        classes: Sequence[WorkClass],
        work: Sequence[int],
        *,
        tolerance: float = 0.0,
        manner: Manner = Manner(),  # noqa: B008 - frozen
    ) -> None:
        self.tree, self.work, self.tolerance, self.manner = tree, list(work), tolerance, manner
        self.classes = tuple(classes)
        level = tree.levels.index("leaf") if "leaf" in tree.levels else -1
        self._leaf = tree.group[level] if tree.levels else None
        self.speeds = Speeds(cluster, tree.members[level] if tree.levels else (), classes, manner)
        self._on_leaf: dict[int, set[int]] = {}
        self._where: dict[int, PatternJob] = {}
        self._sent: dict[int, list[dict[int, float]]] = {}

    def fresh(self) -> Neighbours:
        """The same model without placed jobs, for another run; it keeps the speeds of known patterns."""
        twin = copy(self)
        twin._on_leaf, twin._where, twin._sent = {}, {}, {}
        return twin

    def watch(self, state: State) -> None:
        """Gives a run's placement policies the traffic out of groups and the contention of a candidate placement."""
        state.free.judged_by(self.judge)

    def moved(self, state: State, job: int) -> None:
        """Updates the traffic out of groups after a job got nodes, moved or left."""
        traffic = state.free.traffic_bps
        for level, sent in enumerate(self._sent.pop(job, ())):
            for group, bps in sent.items():
                traffic[level][group] -= bps
        if job not in state.placed or self.work[job] < 0:
            return
        self._sent[job] = self._sends_out(job, state.placed[job], state.each[job])
        for level, sent in enumerate(self._sent[job]):
            for group, bps in sent.items():
                traffic[level][group] += bps

    def _sends_out(self, job: int, nodes: NDArray[np.int32], each: int) -> list[dict[int, float]]:
        """Bit/s out of groups by level. Whole numbers, so that adding and removing a job leaves no residue."""
        work, found = self.classes[self.work[job]], []
        for group in self.tree.group:
            sent = out_bytes(group[nodes], len(nodes) * each, work.message_bytes)
            found.append({one: float(round(8 * size / max(work.compute_s, 1e-9))) for one, size in sent.items()})
        return found

    def judge(self, request: PlacementRequest, nodes: NDArray[np.int32]) -> float:
        """Demand above uplink capacity of a job on these nodes and its would-be neighbors, summed over leafs."""
        work = self.work[request.job] if request.job < len(self.work) else -1
        me = self.member(work, request.each, nodes)
        if me is None:
            return 0.0
        chosen = self._loudest(me, self._on(set(me.leafs), request.job))
        return (
            excess(
                [self.speeds.beat(one) for one in (me, *(self._where[one] for one in chosen))],
                shifted=self.manner.shifted,
            )
            if chosen
            else 0.0
        )

    def changed(self, state: State, started: Iterable[int], ended: Iterable[int]) -> dict[int, int]:
        """New speeds of the jobs that started, and of all jobs affected by a start or an end."""
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
        """Registers the running jobs."""
        self.watch(state)
        for job in state.placed:
            self.moved(state, job)
            self._enter(state, job)

    def member(self, work: int, each: int, nodes: NDArray[np.int32]) -> PatternJob | None:
        """A job as its neighbors see it; None: it has no traffic on uplinks."""
        if self._leaf is None or work < 0:
            return None
        leafs = tuple(self._leaf[nodes].tolist())
        return PatternJob(work, each, leafs) if len(set(leafs)) > 1 else None

    def _enter(self, state: State, job: int) -> set[int]:
        """Records where a job runs; returns the job and all jobs whose neighborhood changes."""
        member = self.member(self.work[job], state.each[job], state.placed[job])
        if member is None:
            return set()
        self._where[job] = member
        for leaf in set(member.leafs):
            self._on_leaf.setdefault(leaf, set()).add(job)
        return {job, *self._near(job)}

    def _leave(self, job: int) -> set[int]:
        """Removes a job; returns its former neighbors."""
        if job not in self._where:
            return set()
        met = self._near(job)
        for leaf in set(self._where.pop(job).leafs):
            self._on_leaf[leaf].discard(job)
        return met

    def _near(self, job: int) -> set[int]:
        met = self._meets(job)
        return met.union(*(self._meets(one) for one in met)) - {job}

    def _meets(self, job: int) -> set[int]:
        return self._on(set(self._where[job].leafs), job)

    def _on(self, leafs: set[int], job: int) -> set[int]:
        return {one for leaf in leafs for one in self._on_leaf.get(leaf, ())} - {job}

    def speed(self, job: int) -> tuple[int, int]:
        """Speed of a running job in millionths of its speed alone, and the neighbor that sends most; -1: none."""
        me = self._where[job]
        near = self._loudest(me, self._meets(job))
        chosen = [*near, *self._beyond(job, near)]
        pattern = canonical([me, *(self._where[one] for one in chosen)])
        return self.speeds.of(pattern), near[0] if near else -1

    def _loudest(self, me: PatternJob, others: set[int]) -> list[int]:
        """The neighbors that send most over the leafs they share with a job."""
        shared = sorted((-self._sends(me, self._where[one]), one) for one in others)
        least = self.tolerance * sum(-sent for sent, _ in shared)
        return [one for sent, one in shared[:MOST] if -sent > least]

    def _beyond(self, job: int, near: list[int]) -> list[int]:
        """The neighbors of neighbors that send most over the leafs they share with those."""
        sent: dict[int, float] = {}
        for one in near:
            for other in self._meets(one) - {job, *near}:
                sent[other] = sent.get(other, 0.0) + self._sends(self._where[one], self._where[other])
        order = sorted((-size, other) for other, size in sent.items())
        least = self.tolerance * sum(sent.values())
        return [other for size, other in order[:FAR] if -size > least]

    def _sends(self, me: PatternJob, other: PatternJob) -> float:
        """Approximate bytes per second of a neighbor over shared leafs; each of its nodes there sends its share."""
        here = set(me.leafs)
        there = sum(1 for leaf in other.leafs if leaf in here)
        work = self.classes[other.work]
        return there * work.message_bytes / max(work.compute_s, 1e-9)
