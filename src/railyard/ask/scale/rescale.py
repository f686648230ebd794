"""A measured step as the task graph of another number of ranks.

Every rank runs the tasks of the traced rank at its place; along the axis that grows, traced ranks repeat. Messages keep
their size: the full tensor of an all-reduce, an all-gather or a reduce-scatter does not depend on the number of data
parallel ranks, and an exchange of tokens not on that of replicas. Columns are tiled with NumPy, so that 1,024 ranks
with a thousand tasks each take seconds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.scale.layout import NO_GROUP, NO_SIZE, ODD, PIPELINE
from railyard.graph import HOST, CollectiveKind, Communicators, Kind, Label, Stream, TaskGraph
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.ask.scale.layout import Grid, GroupKind
    from railyard.ask.scale.steps import CommCall, TracedStep

    Ints = NDArray[np.int64]

PS_PER_NS = 1000
PHASE = "trace"
_KINDS = {kind.name.lower(): kind for kind in CollectiveKind}
_FREE_OF_DATA = ("barrier",)
NO_KIND = "its kind is not one that can be run on a network"
_MOST_TASKS = 50_000_000


@dataclass(frozen=True)
class Unscaled:
    """Communications that keep their measured time.

    Attributes:
        why: Why they are not run on the network.
        times: Number of them in a step of one rank.
        seconds: Their measured time in a step, mean over traced ranks.
    """

    kind: str
    group: str
    why: str
    times: int
    seconds: float


@dataclass(frozen=True)
class Rescaled:
    """A step on so many ranks.

    Attributes:
        stands_for: Traced rank whose tasks each rank runs, int64[ranks].
    """

    graph: TaskGraph
    unscaled: tuple[Unscaled, ...]
    stands_for: Ints


@dataclass(frozen=True)
class _Class:
    """All groups of one kind on the target.

    Attributes:
        of: int64[ranks], the group of each rank; -1 of ranks in none.
        members: Ranks by group, `size` each.
        roles: Name of the group.
    """

    of: Ints
    members: Ints
    size: int
    name: str
    transfer: bool

    @property
    def groups(self) -> int:
        return len(self.members) // self.size


def rescaled(steps: Mapping[int, TracedStep], traced: Grid, target: Grid) -> Rescaled:
    """The step on the target's ranks.

    Args:
        steps: The same step of the traced ranks.
        traced: The grid of the trace.
        target: The same grid with another number of ranks.

    Raises:
        InputError: A pipeline stage has no trace, or the graph is too large.
    """
    stands_for = _stands_for(np.array(sorted(steps), np.int64), traced, target)
    counts = Counter(stands_for.tolist())
    tasks = sum(len(steps[rank].duration_ns) * count for rank, count in counts.items())
    if tasks > _MOST_TASKS:
        raise InputError("the step has too many tasks on so many ranks", found=f"{tasks:,}", allowed=f"{_MOST_TASKS:,}")
    return _Build(steps, traced, target, stands_for).build()


def why_kept(grid: Grid, rank: int, call: CommCall | None) -> str:
    """Why a communication cannot be run on the network; empty if it can, and of computations and barriers."""
    if call is None:
        return ""
    group = grid.groups.get((rank, call.group))
    if group is None:
        return grid.unknown.get(call.group, NO_GROUP)
    if not group.axes or call.kind in _FREE_OF_DATA:
        return ""
    if not call.size_bytes:
        return NO_SIZE
    return "" if group.step or call.kind in _KINDS else NO_KIND


def _stands_for(known: Ints, traced: Grid, target: Grid) -> Ints:
    """int64[ranks], the traced rank that each rank of the target repeats.

    It is the one at the same places, or else one of the same pipeline stage.

    Raises:
        InputError: No rank of a stage has a trace.
    """
    places = target.places(np.arange(target.ranks, dtype=np.int64))
    sizes = np.array([axis.size for axis in traced.axes], np.int64)
    strides = np.array([axis.stride for axis in traced.axes], np.int64)
    wanted = ((places % sizes[:, None]) * strides[:, None]).sum(axis=0)
    stage_axes = [at for at, axis in enumerate(traced.axes) if axis.role == PIPELINE]

    def stage(ranks: Ints) -> Ints:
        return sum((traced.places(ranks)[at] * strides[at] for at in stage_axes), np.zeros(len(ranks), np.int64))

    stages = stage(known)
    table = np.empty(traced.ranks, np.int64)
    for rank, own in enumerate(stage(np.arange(traced.ranks, dtype=np.int64)).tolist()):
        fits = known[stages == own]
        if not len(fits):
            raise InputError(
                "a pipeline stage has no trace",
                found=f"rank {rank} and others of its stage",
                allowed="a trace of one rank of every stage",
            )
        table[rank] = rank if rank in fits else fits[rank % len(fits)]
    return np.asarray(table[wanted], np.int64)


class _Build:
    """The graph while it is put together; calls of a group are numbered in the order of each rank."""

    def __init__(self, steps: Mapping[int, TracedStep], traced: Grid, target: Grid, stands_for: Ints) -> None:
        self.steps, self.traced, self.target, self.stands_for = steps, traced, target, stands_for
        self.ranks_of = {rank: np.flatnonzero(stands_for == rank) for rank in np.unique(stands_for).tolist()}
        self.unscaled: Counter[tuple[str, str, str]] = Counter()
        self.unscaled_ns: Counter[tuple[str, str, str]] = Counter()
        self.classes: dict[GroupKind, _Class] = {}
        self.places = target.places(np.arange(target.ranks, dtype=np.int64))
        self.calls = {rank: self._placed(steps[rank]) for rank in self.ranks_of}

    def _placed(self, step: TracedStep) -> list[tuple[GroupKind, int] | None]:
        """Group of each task and the number of its call in it; None where a task keeps its measured time."""
        found: list[tuple[GroupKind, int] | None] = []
        numbers: Counter[GroupKind] = Counter()
        for call in step.calls:
            group = self.traced.groups.get((step.rank, call.group)) if call is not None else None
            why = why_kept(self.traced, step.rank, call)
            if call is None or group is None or why or not group.axes:
                if call is not None and why:
                    self._keep(call, why)
                found.append(None)
                continue
            if group not in self.classes:
                self.classes[group] = self._class(group)
            found.append((group, numbers[group]))
            numbers[group] += 1
        return found

    def _keep(self, call: CommCall, why: str) -> None:
        self.unscaled[call.kind or "unknown", call.group, why] += 1
        self.unscaled_ns[call.kind or "unknown", call.group, why] += call.measured_ns

    def _class(self, group: GroupKind) -> _Class:
        axes = self.target.axes
        ranks = np.arange(self.target.ranks, dtype=np.int64)
        along = np.zeros(len(axes), bool)
        along[list(group.axes)] = True
        other = np.zeros(len(ranks), np.int64)
        for at in np.flatnonzero(~along).tolist():
            other = other * axes[at].size + self.places[at]
        name = self.target.name(group)
        if not group.step:
            order = np.argsort(other, kind="stable")
            return _Class(other, order, prod(axes[at].size for at in group.axes), name, transfer=False)
        half = len(group.step) // 2
        rows = self.places[list(group.axes)]
        ends = [np.flatnonzero((rows == np.array(part)[:, None]).all(axis=0)) for part in
                (group.step[:half], group.step[half:])]  # fmt: skip
        of = np.full(len(ranks), -1, np.int64)
        of[ends[0]] = of[ends[1]] = np.arange(len(ends[0]))
        return _Class(of, np.stack(ends, axis=1).ravel(), 2, name, transfer=True)

    def build(self) -> Rescaled:
        """Everything."""
        computes = {rank: np.flatnonzero([one is None for one in self.calls[rank]]) for rank in self.ranks_of}
        each = np.zeros(self.target.ranks, np.int64)
        for rank, those in self.ranks_of.items():
            each[those] = len(computes[rank])
        base = np.concatenate([[0], np.cumsum(each)])
        first, shared = self._shared(int(base[-1]))
        columns = {name: [np.zeros(int(base[-1]), np.int64), column] for name, column in shared.items()}
        columns["kind"][0][:] = Kind.COMPUTE
        columns["stream"][0][:] = Stream.COMPUTE
        pairs = []
        for rank, those in self.ranks_of.items():
            step, calls = self.steps[rank], self.calls[rank]
            table = np.empty((len(those), len(calls)), np.int64)
            table[:, computes[rank]] = base[those][:, None] + np.arange(len(computes[rank]))
            for at, placed in enumerate(calls):
                if placed is not None:
                    group, number = placed
                    table[:, at] = first[group][self.classes[group].of[those]] + number
            own = table[:, computes[rank]]
            columns["rank"][0][own] = those[:, None]
            columns["duration_ps"][0][own] = self._durations(step, computes[rank])
            columns["label"][0][own] = np.array([step.calls[at] is not None for at in computes[rank]])
            columns["stream"][0][own] = np.where(np.array(step.main)[computes[rank]], Stream.COMPUTE, Stream.FREE)
            table = self._matched(table, step, calls, those)
            for later, earlier in step.waits:
                pairs.append(np.stack([table[:, later], table[:, earlier]], axis=1))
        return self._graph(columns, np.concatenate([np.empty((0, 2), np.int64), *pairs]))

    def _durations(self, step: TracedStep, computes: Ints) -> Ints:
        """ps; communications that are not run on the network keep their measured time."""
        found = np.array(step.duration_ns, np.int64)
        for at in computes.tolist():
            call = step.calls[at]
            if call is not None and why_kept(self.traced, step.rank, call):
                found[at] = call.measured_ns
        return found[computes] * PS_PER_NS

    def _shared(self, begins: int) -> tuple[dict[GroupKind, Ints], dict[str, Ints]]:
        """First task of every group by kind of group, and the columns of all communications."""
        first: dict[GroupKind, Ints] = {}
        rows: dict[str, list[Ints]] = {
            name: [] for name in ("kind", "rank", "peer", "duration_ps", "size_bytes", "collective", "stream", "label")
        }
        self.labels = [Label(PHASE, "compute"), Label(HOST, "communication that is not scaled")]
        self.communicators: list[tuple[str, Ints, int]] = []
        self.counts: dict[GroupKind, Ints] = {}
        numbers, made = begins, 0
        for group, one in self.classes.items():
            counts = self._counts(group, one)
            self.counts[group] = counts
            start = np.concatenate([[0], np.cumsum(counts)])
            first[group] = numbers + start[:-1]
            size, kind = self._sizes(group, one, start)
            total = int(start[-1])
            owner = np.repeat(np.arange(one.groups), counts)
            ends = one.members.reshape(-1, one.size)[owner]
            rows["kind"].append(np.full(total, Kind.TRANSFER if one.transfer else Kind.COLLECTIVE))
            rows["rank"].append(ends[:, 0] if one.transfer else made + owner)
            rows["peer"].append(ends[:, 1] if one.transfer else np.full(total, -1))
            rows["duration_ps"].append(np.zeros(total, np.int64))
            rows["size_bytes"].append(size)
            rows["collective"].append(np.zeros(total, np.int64) if one.transfer else kind)
            rows["stream"].append(np.full(total, Stream.FREE))
            rows["label"].append(np.full(total, len(self.labels)))
            self.labels.append(Label(PHASE, "transfer" if one.transfer else "collective", one.name))
            numbers += total
            if not one.transfer:
                self.communicators.append((one.name, one.members, one.size))
                made += one.groups
        empty = np.empty(0, np.int64)
        return first, {name: np.concatenate([empty, *those]).astype(np.int64) for name, those in rows.items()}

    def _counts(self, group: GroupKind, one: _Class) -> Ints:
        """int64[groups], how many calls all members of a group have."""
        counts = np.full(one.groups, np.iinfo(np.int64).max)
        for rank, those in self.ranks_of.items():
            mine = sum(placed is not None and placed[0] == group for placed in self.calls[rank])
            of = one.of[those]
            np.minimum.at(counts, of[of >= 0], mine)
        return counts

    def _sizes(self, group: GroupKind, one: _Class, start: Ints) -> tuple[Ints, Ints]:
        """Size and kind of every call of every group: the largest that a member says.

        Raises:
            InputError: Members disagree on the kind.
        """
        size, kind = np.zeros(int(start[-1]), np.int64), np.full(int(start[-1]), -1, np.int64)
        for rank, those in self.ranks_of.items():
            of = one.of[those]
            of = of[of >= 0]
            for at, placed in enumerate(self.calls[rank]):
                call = self.steps[rank].calls[at]
                if placed is None or placed[0] != group or call is None:
                    continue
                mine = of[placed[1] < np.diff(start)[of]]
                tasks = start[:-1][mine] + placed[1]
                np.maximum.at(size, tasks, call.size_bytes)
                code = int(_KINDS.get(call.kind, CollectiveKind.ALL_REDUCE))
                if (kind[tasks] >= 0).any() and (kind[tasks][kind[tasks] >= 0] != code).any():
                    raise InputError(
                        "ranks of a group disagree on a collective",
                        found=f"call {placed[1]} of group `{call.group}` is {call.kind} on rank {rank}",
                    )
                kind[tasks] = code
        return np.maximum(size, 1), np.maximum(kind, 0)  # a barrier is an all-reduce of nothing

    def _matched(self, table: Ints, step: TracedStep, calls: list[tuple[GroupKind, int] | None], those: Ints) -> Ints:
        """The table with calls that other members lack replaced by the task before: they take no time."""
        for at, placed in enumerate(calls):
            if placed is None:
                continue
            group, number = placed
            lacks = number >= self.counts[group][self.classes[group].of[those]]
            if lacks.any():
                call, before = step.calls[at], max((one for task, one in step.waits if task == at), default=0)
                assert call is not None
                self._keep(call, ODD)
                table[lacks, at] = table[lacks, before]
        return table

    def _graph(self, columns: dict[str, list[Ints]], pairs: Ints) -> Rescaled:
        whole = {name: np.concatenate(parts) for name, parts in columns.items()}
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        keys = np.unique(pairs[:, 0] << 32 | pairs[:, 1])
        later, earlier = keys >> 32, keys & ((1 << 32) - 1)
        n = len(whole["kind"])
        sizes = [np.full(len(members) // size, size) for _, members, size in self.communicators]
        ptr = np.concatenate([[0], np.cumsum(np.concatenate([np.empty(0, np.int64), *sizes]))]).astype(np.int64)
        members = np.concatenate([np.empty(0, np.int64), *(one for _, one, _ in self.communicators)])
        names = [name for name, those, size in self.communicators for _ in range(len(those) // size)]
        computes = whole["kind"] == Kind.COMPUTE
        graph = TaskGraph(
            ranks=self.target.ranks,
            kind=whole["kind"].astype(np.uint8),
            rank=whole["rank"].astype(np.int32),
            peer=np.where(computes, -1, whole["peer"]).astype(np.int32),
            duration_ps=whole["duration_ps"],
            size_bytes=whole["size_bytes"],
            count=np.ones(n, np.int32),
            collective=whole["collective"].astype(np.uint8),
            stream=whole["stream"].astype(np.uint8),
            label=whole["label"].astype(np.int32),
            dep_ptr=np.searchsorted(later, np.arange(n + 1)).astype(np.int64),
            dep_idx=earlier.astype(np.int32),
            labels=self.labels,
            communicators=Communicators(ptr, members.astype(np.int32), names),
        ).validate()
        ranks = len(self.ranks_of)
        left = tuple(
            Unscaled(*key, -(-times // ranks), self.unscaled_ns[key] * 1e-9 / ranks)
            for key, times in self.unscaled.items()
        )
        return Rescaled(graph, left, self.stands_for)
