"""Placement requests of jobs, and the free part of the cluster: accelerators by node, idle nodes by group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.work.operate.tree import NodeTree


@dataclass(frozen=True, kw_only=True)
class PlacementAsk:
    """Placement constraints of a job.

    Attributes:
        within: Level at which one group must contain all nodes (Kueue: required; Slurm: `--switches=1`); empty: any.
        prefers: Level that the policy tries first and may widen (Kueue: preferred); empty: the narrowest that fits.
        segment: Nodes of a slice that stay together (Slurm: `--segment`; Kueue: pod set slices); 0: no slices.
        segment_within: Level at which a slice stays together; empty: the policy's own (Slurm: the base block).
        switches: Maximum number of leafs; 0: no limit.
    """

    within: str = ""
    prefers: str = ""
    segment: int = 0
    segment_within: str = ""
    switches: int = 0

    def check(self, tree: NodeTree) -> None:
        """Rejects unknown levels and negative counts.

        Raises:
            InputError: Names the key.
        """
        for key in ("within", "prefers", "segment_within"):
            if getattr(self, key):
                try:
                    tree.level(getattr(self, key))
                except InputError as error:
                    raise error.located(key=key) from None
        for key in ("segment", "switches"):
            if getattr(self, key) < 0:
                raise InputError("a number from 0 on", key=key, found=getattr(self, key))


@dataclass(frozen=True)
class PlacementRequest(PlacementAsk):
    """A placement request as the scheduler sees it.

    Attributes:
        each: Accelerators per node; if fewer than a node has, other jobs may use the rest.
        groups: Sizes in nodes of the job's communication groups from the innermost, such as (pipeline, data).
    """

    nodes: int
    each: int
    groups: tuple[int, ...] = ()
    job: int = 0
    seed: int = 0

    @property
    def constrained(self) -> bool:
        """Whether some sets of enough free nodes are not acceptable."""
        return bool(self.within or self.segment or self.switches)


ANYWHERE = PlacementAsk()
"""For jobs without placement constraints."""


class Event(IntEnum):
    """Kinds of events, in the order in which simultaneous ones are handled: what becomes free is available at once."""

    END = 0
    REPAIR = 1
    CLOSE = 2
    DETECT = 3
    FAULT = 4
    OPEN = 5
    CHUNK = 6
    RENEW = 7
    REPLICA = 8


_STALE = 4
"""A heap is rebuilt when it has this many times as many entries as there are nodes."""


class FreeNodes:
    """Free accelerators of a cluster's nodes.

    Policies see only the present, never the history: the same state gives the same answers, so a run can resume from
    a file.

    Attributes:
        room: int32[nodes], free accelerators; 0 on nodes out of service. Read only.
        idle_in: One int32[groups] per level: fully idle nodes of each group. Read only.
        traffic_bps: One float64[groups] per level: mean traffic that running jobs send out of each group; zeros if
            contention is not modeled.
        judge: From a request and nodes in rank order to the demand above the uplink capacity of leafs; None if
            contention is not modeled.
    """

    _owner: NDArray[np.int32]  # only in parts, as is `_number`
    _number: int

    def __init__(self, tree: NodeTree) -> None:
        self.tree = tree
        self.up = np.ones(tree.nodes, np.bool_)
        self.room = tree.accelerators.copy()
        self.idle_in = tuple(size.copy() for size in tree.size)
        self.idle = tree.nodes
        self.accelerators = tree.total
        self.traffic_bps = tuple(np.zeros(len(size)) for size in tree.size)
        self.judge: Callable[[PlacementRequest, NDArray[np.int32]], float] | None = None
        self._parts: list[FreeNodes] = []
        self._left = tree.accelerators.copy()  # not allocated, including nodes out of service
        self._by_room: list[list[int]] = [[] for _ in range(int(tree.accelerators.max()) + 1)]
        self._refill()

    def part(self, owner: NDArray[np.int32], number: int) -> FreeNodes:
        """The free part of one owner's nodes, kept up to date; all other nodes count as out of service.

        Args:
            owner: int32[nodes], the owner of each; may change if `moved` is called for the changed nodes.
            number: The owner's number.
        """
        found = self.copy()
        found.traffic_bps = self.traffic_bps  # of all jobs, of any owner
        found._owner, found._number = owner, number
        found.out(np.flatnonzero(owner != number).astype(np.int32))
        self._parts.append(found)
        return found

    def judged_by(self, judge: Callable[[PlacementRequest, NDArray[np.int32]], float]) -> None:
        """Sets the function that judges placements, here and in parts."""
        for one in (self, *self._parts):
            one.judge = judge

    def moved(self, nodes: NDArray[np.int32]) -> None:
        """Tells the parts that nodes have another owner."""
        for part in self._parts:
            part._follow(self, nodes)

    def _follow(self, whole: FreeNodes, nodes: NDArray[np.int32]) -> None:
        mine = self._owner[nodes] == self._number
        touched = mine | self.up[nodes]
        here, nodes = mine[touched], nodes[touched]
        if len(nodes):
            self.up[nodes] = whole.up[nodes] & here
            self._left[nodes] = whole._left[nodes]
            self._renew(nodes)

    def copy(self) -> FreeNodes:
        """A copy of the state for trials; it has no parts."""
        twin = FreeNodes.__new__(FreeNodes)
        twin.tree, twin._parts = self.tree, []
        for name in ("up", "room", "_left"):
            setattr(twin, name, getattr(self, name).copy())
        twin.idle_in = tuple(count.copy() for count in self.idle_in)
        twin.traffic_bps = tuple(load.copy() for load in self.traffic_bps)
        twin.idle, twin.accelerators, twin.judge = self.idle, self.accelerators, self.judge
        twin._by_room = [list(heap) for heap in self._by_room]
        return twin

    def take(self, nodes: NDArray[np.int32], each: int | NDArray[np.int32]) -> None:
        """Allocates accelerators of nodes (each listed once) to a job."""
        self._left[nodes] -= each
        self._renew(nodes)
        self.moved(nodes)

    def give(self, nodes: NDArray[np.int32], each: int | NDArray[np.int32]) -> None:
        """Frees them again."""
        self._left[nodes] += each
        self._renew(nodes)
        self.moved(nodes)

    def out(self, nodes: NDArray[np.int32]) -> None:
        """Takes nodes out of service; jobs keep their accelerators until they free them."""
        self.up[nodes] = False
        self._renew(nodes)
        self.moved(nodes)

    def back(self, nodes: NDArray[np.int32]) -> None:
        """Returns nodes to service."""
        self.up[nodes] = True
        self._renew(nodes)
        self.moved(nodes)

    def _renew(self, nodes: NDArray[np.int32]) -> None:
        full = self.tree.accelerators[nodes]
        before, after = self.room[nodes], np.where(self.up[nodes], self._left[nodes], 0).astype(np.int32)
        self.room[nodes] = after
        self.accelerators += int(after.sum() - before.sum())
        change = (after == full).astype(np.int32) - (before == full)
        moved = np.flatnonzero(change)
        if len(moved):
            self.idle += int(change.sum())
            for count, group in zip(self.idle_in, self.tree.group, strict=True):
                np.add.at(count, group[nodes[moved]], change[moved])
        for node, room in zip(nodes.tolist(), after.tolist(), strict=True):
            if room:  # no job looks for a node without room
                heappush(self._by_room[room], node)
        if sum(map(len, self._by_room)) > _STALE * self.tree.nodes:
            self._refill()

    def _refill(self) -> None:
        for room, heap in enumerate(self._by_room[1:], start=1):
            heap[:] = np.flatnonzero(self.room == room).tolist()
            heapify(heap)

    def tightest(self, each: int) -> int:
        """The node with the least room that still has `each` accelerators free, the first of equals; -1: none."""
        for room in range(each, len(self._by_room)):
            heap = self._by_room[room]
            while heap:
                if self.room[heap[0]] == room:
                    return heap[0]
                heappop(heap)
        return -1

    def with_room(self, each: int) -> NDArray[np.bool_]:
        """bool[nodes], whether a node has room for `each` accelerators."""
        return np.asarray(self.room >= each)

    def count(self, each: int) -> int:
        """Number of nodes with room for `each` accelerators."""
        return int(np.count_nonzero(self.room >= each))

    def counts(self, level: int, each: int) -> NDArray[np.int32]:
        """int32[groups], nodes of each group of a level with room for `each` accelerators."""
        groups = len(self.tree.size[level])
        return np.bincount(self.tree.group[level][self.room >= each], minlength=groups).astype(np.int32)
