"""Steps beyond the budget: communications that repeat themselves are simulated a few times, and these stand for all.

An *occasion* is one communication on each of its communicators, as a layer's gathering by all groups. Occasions of one
kind have algorithm, size, place and name in common, and the kinds that are on the network at the same time, as the flow
engine has it. Of each kind the first few are simulated, with all that is on the network meanwhile. The later ones only
take time: what the same group took on one of the simulated, drawn at random from the latter half of these. Senders and
groups that meet need some occasions until they go on alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from railyard.engine.packet.lowering import Lowering
    from railyard.engine.packet.plan import TaskFlows
    from railyard.graph import Record

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

LEAST = 6
"""Occasions of a kind that are simulated at least. Layers on shared uplinks became alike after three or four."""

DRAWS = 10
"""Steps from pools drawn again, which the interval of the step is taken from."""


@dataclass(frozen=True, eq=False)
class SampledStep:
    """What is simulated of a step.

    Attributes:
        simulated: bool[occasions].
        skipped: bool[tasks], communications that only take time.
    """

    occasions: Occasions
    simulated: Flags
    skipped: Flags

    def note(self, half: float, apart: float) -> str:
        """What is left out, for people."""
        stand, every = int((~self.simulated).sum()), len(self.simulated)
        return (
            f"{stand} of {every} repeats of communications: others of their kind stand for them, which differ by "
            f"{apart:.1%} in the mean; two of three draws of them move the step by less than {half:.2%}"
        )


@dataclass(frozen=True, eq=False)
class Occasions:
    """The communications of a step by kind.

    Attributes:
        tasks: int64[communications], by occasion, on each in the same order of groups.
        ptr: int64[occasions + 1], those of each.
        kind: int64[occasions].
        took_ps: int64[tasks of the graph], by the flow engine; elsewhere 0.
        first_ps: int64[occasions], first start by the flow engine.
        last_ps: int64[occasions], last end.
    """

    tasks: Ints
    ptr: Ints
    kind: Ints
    took_ps: Ints
    first_ps: Ints
    last_ps: Ints

    @classmethod
    def of(cls, lowering: Lowering, job: NDArray[np.int32], timeline: Record, *, packets: bool) -> Occasions:
        """Those of a graph that are sent as packets.

        Args:
            lowering: The graph.
            job: int32[tasks], whose they are.
            timeline: The step on the flow engine.
            packets: Whether scale-up is made of packets.
        """
        graph = lowering.graph
        sent = [one for one in lowering.classes if packets or one.shape.domains > 1]
        tasks = np.concatenate([np.empty(0, np.int64), *(one.tasks for one in sent)])
        number = np.repeat(np.arange(len(sent)), [len(one.tasks) for one in sent])
        _, name = np.unique([label.name for label in graph.labels], return_inverse=True)
        peer = np.where(graph.kind == Kind.COLLECTIVE, 0, graph.peer)[tasks]
        of_all = np.stack([number, name.ravel()[graph.label[tasks]], job[tasks]]).astype(np.int64)
        _, group = np.unique(np.stack([*of_all, graph.rank[tasks], peer]), axis=1, return_inverse=True)
        turn = _turns(group.ravel(), timeline.start_ps[tasks])
        found, occasion = np.unique(np.stack([*of_all, turn]), axis=1, return_inverse=True)
        occasion = occasion.ravel()
        many = np.bincount(occasion, minlength=found.shape[1])
        _, kind = np.unique(np.stack([*found[:-1], many]), axis=1, return_inverse=True)
        order = np.lexsort((peer, graph.rank[tasks], occasion))
        ptr = np.concatenate([[0], np.cumsum(many)])
        took = np.zeros(len(graph), np.int64)
        took[tasks] = (timeline.end_ps - timeline.start_ps)[tasks]
        ends = _hull(tasks[order], ptr, timeline)
        return cls(tasks[order], ptr, _with_others(kind.ravel(), *ends), took, *ends)

    def __len__(self) -> int:
        return len(self.kind)

    def simulated(self, most: int) -> Flags:
        """bool[occasions]: the first of each kind, and what is on the network at the same time."""
        first = self._turn() < most
        return first | _meeting(self.first_ps, self.last_ps, self.first_ps[first], self.last_ps[first])

    def _turn(self) -> Ints:
        """int64[occasions], how many of its kind came before each."""
        return _turns(self.kind, self.first_ps)

    def chosen(self, most: int) -> SampledStep:
        """The step with at most `most` samples of each kind."""
        simulated = self.simulated(most)
        skipped = np.zeros(len(self.took_ps), np.bool_)
        skipped[self.tasks] = np.repeat(~simulated, np.diff(self.ptr))
        return SampledStep(self, simulated, skipped)

    def drawn(
        self, simulated: Flags, took_ps: Ints, timed: Callable[[Ints], Record], seed: int
    ) -> tuple[Ints, float, float]:
        """Durations with those of simulated repeats in place of what was skipped.

        The pool of a kind are the later ones of its repeats that met nothing skipped while they ran.

        Args:
            simulated: bool[occasions].
            took_ps: int64[tasks], how long each took.
            timed: The step in which every task takes so long.
            seed: Seed of the random choices.

        Returns:
            int64[tasks]; the standard deviation of the step over pools drawn again (bootstrap, with K / (K - 1) for the
            smallest pool of K), as a share of it; and the mean difference between one and the next of a pool.
        """
        first, last = _hull(self.tasks, self.ptr, timed(took_ps))
        quiet = simulated & ~_meeting(first, last, first[~simulated], last[~simulated])
        draw = np.random.default_rng(seed)
        pools = []
        turn = self._turn()
        for kind in range(int(self.kind.max(initial=-1)) + 1):
            mine = np.flatnonzero((self.kind == kind) & simulated)
            known = mine[quiet[mine]] if quiet[mine].any() else mine
            known = known[np.argsort(turn[known])]
            pools.append(known[len(known) // 2 :])
        took = self._filled(pools, quiet, took_ps, draw)
        steps = []
        for _ in range(DRAWS):
            some = [draw.choice(pool, len(pool)) for pool in pools]
            steps.append(timed(self._filled(some, quiet, took_ps, draw)).makespan_ps)
        few = min(len(pools[kind]) for kind in np.unique(self.kind[~quiet]).tolist())
        half = float(np.std(steps)) * (few / max(few - 1, 0.5)) ** 0.5
        return took, half / float(np.mean(steps)), self._apart(pools, took_ps)

    def _filled(self, pools: Sequence[Ints], known: Flags, took_ps: Ints, draw: np.random.Generator) -> Ints:
        """int64[tasks], every occasion that is not known as one of its kind's pool."""
        origin = np.arange(len(self))
        for kind, pool in enumerate(pools):
            mine = np.flatnonzero((self.kind == kind) & ~known)
            origin[mine] = draw.choice(pool, len(mine))
        many = np.diff(self.ptr)
        at = np.arange(len(self.tasks)) - np.repeat(self.ptr[:-1], many)
        out = took_ps.copy()
        out[self.tasks] = took_ps[self.tasks[np.repeat(self.ptr[origin], many) + at]]
        return out

    def _apart(self, pools: Sequence[Ints], took_ps: Ints) -> float:
        """Mean difference between one and another of a kind, as a share."""
        found = []
        for pool in pools:
            mean = [took_ps[self.tasks[self.ptr[at] : self.ptr[at + 1]]].mean() for at in pool]
            if len(mean) > 1:
                found.append(np.abs(np.diff(mean)).mean() / np.mean(mean))
        return float(np.mean(found)) if found else 0.0


def without(blocks: Sequence[TaskFlows], skipped: Flags) -> list[TaskFlows]:
    """The flows of the communications that are simulated."""
    kept = [(block, np.flatnonzero(~skipped[block.tasks])) for block in blocks]
    return [block if len(some) == len(block.tasks) else some_tasks(block, some) for block, some in kept if len(some)]


def some_tasks(block: TaskFlows, some: Ints) -> TaskFlows:
    """The flows of some tasks of a block, by their numbers in it."""
    rows = (some[:, None] * block.rows + np.arange(block.rows)).ravel()
    names = ("source", "target", "size_bytes", "delay_ps", "path_key", "connection")
    return replace(block, tasks=block.tasks[some], **{name: getattr(block, name)[rows] for name in names})


def _turns(group: Ints, start_ps: Ints) -> Ints:
    """int64[n], how many of its group started before each."""
    order = np.lexsort((start_ps, group))
    place = np.arange(len(group))
    begins = np.diff(group[order], prepend=-1) != 0
    turn = np.empty(len(group), np.int64)
    turn[order] = place - np.maximum.accumulate(np.where(begins, place, 0))
    return turn


def _hull(tasks: Ints, ptr: Ints, timeline: Record) -> tuple[Ints, Ints]:
    """int64[occasions], first start and last end."""
    if not len(tasks):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return (
        np.minimum.reduceat(timeline.start_ps[tasks], ptr[:-1]),
        np.maximum.reduceat(timeline.end_ps[tasks], ptr[:-1]),
    )


def _with_others(kind: Ints, first: Ints, last: Ints) -> Ints:
    """int64[occasions], kinds divided by the kinds that they meet."""
    meeting = [_meeting(first, last, first[kind == one], last[kind == one]) for one in range(kind.max(initial=-1) + 1)]
    return np.unique(np.stack([kind, *meeting]), axis=1, return_inverse=True)[1].ravel()


def _meeting(first: Ints, last: Ints, begin: Ints, end: Ints) -> Flags:
    """bool[n], which of the spans `first` to `last` share time with one of `begin` to `end`."""
    begun = np.searchsorted(np.sort(begin), last, "left")
    return np.asarray(begun > np.searchsorted(np.sort(end), first, "right"))
