"""Expands slots to the task graph: a slot becomes one task per rank or communicator of its stage; copies are folded.

The tasks of a slot are consecutive, and slots follow the order of the program ("time-major"). Two things
follow. The index order of every rank and stream is its order of execution, even where a collective joins ranks of
several replicas, which no replica-major numbering can give. And no task stands before one that it waits for, so the
graph is acyclic by construction, an engine can evaluate it in one pass, and tasks that run together lie together in
memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import railyard._core as _core
from railyard.graph import Communicators, Kind, TaskGraph
from railyard.graph.symmetry import GraphCopies
from railyard.kit.errors import InputError
from railyard.kit.quantities import ranges
from railyard.work.training.slots import EMBEDDING, WORLD, Lattice, Space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.training.slots import Slots, StepProgram


_LARGEST = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Placed:
    """Slots in order, and the positions of their tasks.

    Attributes:
        slots: n slots, in order.
        widths: int64[n], tasks of each.
        first: int64[n+1], first task of each.
    """

    lattice: Lattice
    names: list[str]
    slots: Slots
    widths: NDArray[np.int64]
    first: NDArray[np.int64]


@dataclass(frozen=True)
class _Edges:
    """Which slot waits for which, sorted by both.

    Attributes:
        waiting, awaited: int64[m], slots.
        table: int64[m], which of `tables` relates their tasks.
        offset: int64[m], entries of earlier edges of the same task.
        tables: int32[groups, degree] each.
        per_task: int64[n], entries of one task of each slot.
    """

    waiting: NDArray[np.int64]
    awaited: NDArray[np.int64]
    table: NDArray[np.int64]
    offset: NDArray[np.int64]
    tables: list[NDArray[np.int32]]
    per_task: NDArray[np.int64]


def expand(program: StepProgram, lattice: Lattice | None = None) -> TaskGraph:
    """The task graph of a program.

    Args:
        program: The slots.
        lattice: Over whose spaces they are replicated; None: the program's.

    Raises:
        InputError: The step has more tasks or dependencies than 32-bit indices can number.
    """
    slots = program.slots()
    order = np.argsort(slots.order, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    lattice = lattice or program.lattice
    there = replicated(lattice, slots.take(order))
    slots, widths = there.slots, there.widths
    waiting, awaited = (place[side] for side in program.edges())
    dep_ptr, dep_idx = _dependencies(there, _related(there, waiting, awaited))
    communicators, base = groups_in_use(there)
    codes, label = np.unique(slots.label, return_inverse=True)
    rank, peer = _ranks(there, base)
    loss_index, loss = _loss_index(slots, widths, program.loss)
    return TaskGraph(
        ranks=lattice.width * lattice.stages,
        kind=np.repeat(slots.kind, widths),
        rank=rank,
        peer=peer,
        duration_ps=np.repeat(slots.duration_ps, widths),
        size_bytes=np.repeat(slots.size_bytes, widths),
        count=np.repeat(slots.count, widths),
        collective=np.repeat(slots.collective, widths),
        stream=np.repeat(slots.stream, widths),
        label=np.repeat(label.astype(np.int32), widths),
        dep_ptr=dep_ptr,
        dep_idx=dep_idx,
        labels=program.decode(codes),
        communicators=communicators,
        loss_index=loss_index,
        loss=loss,
    )


def _loss_index(
    slots: Slots, widths: NDArray[np.int64], loss: NDArray[np.float64] | None
) -> tuple[NDArray[np.int32] | None, NDArray[np.float64] | None]:
    """The columns of the slowdown of computations; none if no communication overlaps any."""
    if loss is None or not (slots.loss_index[slots.kind != Kind.COMPUTE] >= 0).any():
        return None, None
    return np.repeat(slots.loss_index, widths), loss


def replicated(lattice: Lattice, slots: Slots) -> Placed:
    """Slots in order, replicated over the spaces of a lattice.

    Raises:
        InputError: They are more tasks than 32-bit indices can number.
    """
    names = list(lattice.spaces)
    widths = np.array([lattice.spaces[name].groups for name in names], np.int64)[slots.space]
    first = np.zeros(len(slots) + 1, np.int64)
    np.cumsum(widths, out=first[1:])
    _check_size("tasks", int(first[-1]))
    return Placed(lattice, names, slots, widths, first)


def _check_size(what: str, found: int) -> None:
    if found > _LARGEST:
        raise InputError(
            f"the step has too many {what} for one graph",
            found=f"{found:,}",
            allowed=f"at most {_LARGEST:,}",
            hint="take fewer micro-batches or virtual stages, or larger buckets",
        )


def groups_in_use(placed: Placed) -> tuple[Communicators, NDArray[np.int64]]:
    """The communicators in use, and the number of the first one of every space (and of stage 0)."""
    lattice, names, slots = placed.lattice, placed.names, placed.slots
    base = np.zeros(len(names), np.int64)
    sizes: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
    ranks: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
    groups: list[str] = []
    for space in np.unique(slots.space[slots.kind == Kind.COLLECTIVE]).tolist():
        table = lattice.communicators(names[space])
        base[space] = len(groups)
        groups += [lattice.spaces[names[space]].label] * len(table)
        sizes.append(np.full(len(table), table.shape[1], np.int64))
        ranks.append(table.ravel())
    return Communicators(np.concatenate(sizes).cumsum(), np.concatenate(ranks), groups), base


def _ranks(placed: Placed, base: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Columns `rank` and `peer`: the rank of each task of a slot, and the receiver of its send."""
    slots, widths, width = placed.slots, placed.widths, placed.lattice.width
    collective = slots.kind == Kind.COLLECTIVE
    over_stages = np.isin(slots.space, [placed.names.index(WORLD), placed.names.index(EMBEDDING)])
    communicator = base[slots.space] + np.where(over_stages, 0, slots.stage * widths)
    start = np.where(collective, communicator, slots.stage.astype(np.int64) * width)
    # What a whole group reads, prepares or writes runs on its first rank.
    stride = np.where(collective, 1, _leader_strides(placed.lattice)[slots.space])
    instance = np.arange(placed.first[-1], dtype=np.int32)
    instance -= np.repeat(placed.first[:-1].astype(np.int32), widths)
    rank = _progression(start, stride, instance, widths)
    sends = slots.peer >= 0
    peer = _progression(np.where(sends, slots.peer.astype(np.int64) * width, -1), sends, instance, widths)
    if slots.shift.any():
        further = np.repeat(slots.shift, widths)
        peer = np.where(further > 0, (rank.astype(np.int64) + further) % (width * placed.lattice.stages), peer)
    return rank, peer.astype(np.int32, copy=False)


def _progression(
    start: NDArray[np.int64],
    step: NDArray[np.integer | np.bool_],
    instance: NDArray[np.int32],
    widths: NDArray[np.int64],
) -> NDArray[np.int32]:
    """int32[tasks], `start + step * instance` of every slot, in place: a fresh column is pages to clear."""
    steps = np.repeat(step.astype(np.int32), widths)
    steps *= instance
    steps += np.repeat(start.astype(np.int32), widths)
    return steps


def _leader_strides(lattice: Lattice) -> NDArray[np.int64]:
    """int64[spaces]: from the first place of a group to that of the next."""
    first = [space.members[:, 0] for space in lattice.spaces.values()]
    return np.array([int(places[1] - places[0]) if len(places) > 1 else 1 for places in first], np.int64)


def _related(placed: Placed, waiting: NDArray[np.int64], awaited: NDArray[np.int64]) -> _Edges:
    """The edges, each with the relation of its two spaces."""
    sort = np.lexsort((awaited, waiting))
    waiting, awaited = waiting[sort], awaited[sort]
    space, names = placed.slots.space.astype(np.int64), placed.names
    pairs, table = np.unique(space[waiting] * len(names) + space[awaited], return_inverse=True)
    tables = [placed.lattice.relation(names[p // len(names)], names[p % len(names)]) for p in pairs.tolist()]
    degree = np.array([relation.shape[1] for relation in tables], np.int64)[table]
    per_task = np.zeros(len(placed.slots), np.int64)
    np.add.at(per_task, waiting, degree)
    # Entries of earlier edges of the same slot: those of all earlier edges, less those before the slot's first edge.
    before = np.cumsum(degree) - degree
    heads = np.flatnonzero(np.diff(waiting, prepend=-1))
    of_slot = np.zeros(len(placed.slots), np.int64)
    of_slot[waiting[heads]] = before[heads]
    return _Edges(waiting, awaited, table, before - of_slot[waiting], tables, per_task)


def _dependencies(placed: Placed, edges: _Edges) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Columns `dep_ptr` and `dep_idx`: every edge between slots, replicated along the relation of their spaces."""
    total = int((edges.per_task * placed.widths).sum())
    _check_size("dependencies", total)
    dep_ptr = np.zeros(int(placed.first[-1]) + 1, np.int64)
    np.cumsum(np.repeat(edges.per_task.astype(np.int32), placed.widths), out=dep_ptr[1:])
    dep_idx = np.empty(total, np.int32)
    for number, relation in enumerate(edges.tables):
        chosen = edges.table == number
        waiting, offset = edges.waiting[chosen], edges.offset[chosen]
        where = np.arange(len(relation), dtype=np.int64)[None, :] * edges.per_task[waiting][:, None]
        where += (dep_ptr[placed.first[waiting]] + offset)[:, None]
        task = placed.first[edges.awaited[chosen]].astype(np.int32)[:, None]
        for column in range(relation.shape[1]):
            dep_idx[where] = task + relation[:, column][None, :]
            where += 1
    return dep_ptr, dep_idx


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
