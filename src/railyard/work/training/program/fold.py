"""Folds a program: replicas that do the same are copies of the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import railyard._core as _core
from railyard.graph import Kind, TaskGraph
from railyard.graph.symmetry import GraphCopies
from railyard.kit.quantities import ranges
from railyard.work.training.program.expand import expand, groups_in_use, replicated
from railyard.work.training.program.slots import EMBEDDING, WORLD, Lattice, Space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.training.program.slots import StepProgram

LEAST = 4
"""GraphCopies from which on folding is worth it."""


class FoldedLattice(Lattice):
    """The spaces of the first of several equal blocks of a stage's places.

    Attributes:
        shared: Names of spaces whose groups have as many places in every block.
    """

    def __init__(self, whole: Lattice, blocks: int, used: set[str]) -> None:
        super().__init__(whole.layout, whole.workers, whole.domain)
        self.width = whole.width // blocks
        self.shared: set[str] = set()
        self._cut: dict[str, Space] = {}
        for name, space in whole.spaces.items():
            first = space.group_of[: self.width]
            if name in used and (space.group_of.reshape(blocks, -1) == first).all():
                self.shared.add(name)
            groups = first if name in used else np.arange(self.width, dtype=np.int32)
            members = np.argsort(groups, kind="stable").reshape(int(groups.max()) + 1, -1).astype(np.int32)
            self._cut[name] = Space(name, space.label, groups, members)

    @property
    def spaces(self) -> dict[str, Space]:
        """All spaces by name; those that the program does not use have one place a group."""
        return self._cut


def copies_in(program: StepProgram) -> GraphCopies | None:
    """What the replicas of a program do alike; None where they do not, or are few."""
    slots, whole = program.slots(), program.lattice
    names = list(whole.spaces)
    used = {names[space] for space in np.unique(slots.space).tolist()}
    alone = {names[space] for space in np.unique(slots.space[slots.kind != Kind.COLLECTIVE]).tolist()}
    if slots.shift.any():
        return None
    for blocks in range(whole.width, LEAST - 1, -1):
        if whole.width % blocks == 0 and all(_fits(whole.spaces[name], blocks, name not in alone) for name in used):
            return _symmetry(program, FoldedLattice(whole, blocks, used), blocks)
    return None


def _fits(space: Space, blocks: int, may_share: bool) -> bool:
    """Whether each block of places has groups of its own, all alike, or a like part of every group."""
    table = space.group_of.reshape(blocks, -1)
    groups = int(table[0].max()) + 1
    if len(np.unique(table[0])) == groups and (table == table[0] + groups * np.arange(blocks)[:, None]).all():
        return True
    return may_share and bool((table == table[0]).all())


def _symmetry(program: StepProgram, folded: FoldedLattice, blocks: int) -> GraphCopies:
    graph = expand(program, folded)
    order = np.argsort(program.slots().order, kind="stable")
    slots = program.slots().take(order)
    here, all_of = replicated(folded, slots), replicated(program.lattice, slots)
    shared = np.isin(slots.space, [here.names.index(name) for name in folded.shared])
    found = _core.unique_requests(
        kind=graph.kind,
        rank=graph.rank,
        peer=graph.peer,
        size_bytes=graph.size_bytes,
        count=graph.count,
        collective=graph.collective,
    )
    first = found.first
    slot = np.searchsorted(here.first, first, side="right") - 1
    sizes = np.where(shared[slot], 1, blocks)
    task, copy = np.repeat(first, sizes), ranges(0, sizes)
    communicators, base = groups_in_use(all_of)
    in_space = graph.rank[first] - groups_in_use(here)[1][slots.space[slot]]
    grouped = np.repeat(_groups(here.names, folded, program.lattice, slots.space[slot], in_space), sizes, axis=1)
    rank = np.where(
        graph.kind[task] == Kind.COLLECTIVE,
        np.repeat(base[slots.space[slot]], sizes) + grouped[0] + copy * grouped[1],
        _moved(graph.rank[task], copy, folded.width, blocks),
    )
    peer = np.where(graph.peer[task] >= 0, _moved(graph.peer[task], copy, folded.width, blocks), -1)
    columns = ("kind", "size_bytes", "count", "collective", "stream", "label", "duration_ps")
    requests = TaskGraph(
        ranks=program.lattice.width * program.lattice.stages,
        rank=rank.astype(np.int32),
        peer=peer.astype(np.int32),
        dep_ptr=np.zeros(len(task) + 1, np.int64),
        labels=graph.labels,
        communicators=communicators,
        **{name: getattr(graph, name)[task] for name in columns},
    )
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    return GraphCopies(blocks, folded.width, graph, all_of.widths, here.widths, shared, requests, ptr, found.request)


def _moved(rank: NDArray[np.int32], copy: NDArray[np.int64], width: int, blocks: int) -> NDArray[np.int64]:
    """The ranks of other copies in the whole job."""
    stage, place = np.divmod(rank.astype(np.int64), width)
    moved: NDArray[np.int64] = (stage * blocks + copy) * width + place
    return moved


def _groups(
    names: list[str], folded: FoldedLattice, whole: Lattice, space: NDArray[np.int8], number: NDArray[np.int32]
) -> NDArray[np.int64]:
    """int64[2, k]: the communicator of the first copy, from its space's first one on, and what the next copy adds."""
    own = np.array([folded.spaces[name].groups for name in names], np.int64)[space]
    every = np.array([whole.spaces[name].groups for name in names], np.int64)[space]
    over_stages = np.isin(space, [names.index(WORLD), names.index(EMBEDDING)])
    stage, group = np.divmod(number.astype(np.int64), np.where(over_stages, np.iinfo(np.int64).max, own))
    shared = np.isin(space, [names.index(name) for name in folded.shared])
    return np.stack([stage * every + group, np.where(shared, 0, own)])
