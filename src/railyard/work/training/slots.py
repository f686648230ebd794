"""The program of a step: slots and what they wait for, a table row each.

A slot stands for one task of every rank (or of every communicator) of a pipeline stage. The step of 16,384 ranks is a
few thousand slots; `expand` replicates them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind, Kind, Label, Stream

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from railyard.work.training.spec import Layout


# Spaces whose groups reach over stages; every other is replicated a stage.
WORLD, EMBEDDING = "world", "embedding"


@dataclass(frozen=True)
class Space:
    """A partition of a stage's places into groups: what one slot of a program is replicated over.

    Attributes:
        label: Class of its communicators in the task graph ("" for single ranks).
        group_of: int32[width], the group of each place.
        members: int32[groups, size], the places of each group in ring order.
    """

    name: str
    label: str
    group_of: NDArray[np.int32]
    members: NDArray[np.int32]

    @property
    def groups(self) -> int:
        """Groups in one stage."""
        return len(self.members)

    @property
    def size(self) -> int:
        """Places in one group (of one stage)."""
        return int(self.members.shape[1])


class Lattice:
    """The spaces of a layout.

    Args:
        layout: Degrees of parallelism; every one divides what it folds over.
        workers: Groups of replicas that step by themselves; data-parallel groups stay inside one of them.
        domain: Ranks of a scale-up domain, for collectives that are cut at its border.

    Attributes:
        replicas: Ranks of a worker that hold the same parameters before any sharding.
        shard: Ranks over which zero spreads them.
    """

    def __init__(self, layout: Layout, workers: int = 1, domain: int = 1) -> None:
        self.layout = layout
        self.workers, self.domain = workers, domain
        self.replicas = layout.dp * layout.cp // workers
        self.shard = min(layout.shard_ranks, self.replicas)
        self.stages = layout.pp
        self.width = layout.tp * layout.cp * layout.dp
        self._relations: dict[tuple[str, str], NDArray[np.int32]] = {}

    @cached_property
    def spaces(self) -> dict[str, Space]:
        """All spaces by name."""
        layout, place = self.layout, np.arange(self.width, dtype=np.int32)
        tensor, sequence = place % layout.tp, place // layout.tp
        expert, shard, replicas = layout.ep * layout.expert_tp, self.shard, self.replicas
        worker, replica = place // (self.width // self.workers), place % (self.width // self.workers)
        first = sequence // replicas
        groups = {
            "rank": ("", place),
            "tp": ("tp", sequence),
            "cp": ("cp", sequence // layout.cp * layout.tp + tensor),
            "dp": ("dp", first * layout.tp + tensor),
            "shard": ("fsdp", sequence // shard * layout.tp + tensor),
            "replica": ("dp", (first * shard + sequence % shard) * layout.tp + tensor),
            "etp": ("etp", place // layout.expert_tp),
            "ep": ("ep", place // expert * layout.expert_tp + place % layout.expert_tp),
            "edp": ("edp", worker * expert + place % expert),
            "dp.outer": ("outer", replica),
            "edp.outer": ("outer", replica),
            WORLD: ("world", worker),
            EMBEDDING: ("pp", place),
        }
        near = self.local("shard")
        groups |= {
            "shard.inside": ("dp", sequence // near * layout.tp + tensor),
            "shard.across": ("dp", (sequence // shard * near + sequence % near) * layout.tp + tensor),
        }
        near = self.local("dp")
        groups |= {
            "dp.inside": ("dp", sequence // near * layout.tp + tensor),
            "dp.across": ("dp", (first * near + sequence % near) * layout.tp + tensor),
        }
        near, copy = self.local("edp"), place // expert
        groups |= {
            "edp.inside": ("edp", copy // near * expert + place % expert),
            "edp.across": ("edp", (worker * near + copy % near) * expert + place % expert),
        }
        return {name: _space(name, label, group) for name, (label, group) in groups.items()}

    def local(self, name: str) -> int:
        """Members of a group of `dp`, `shard` or `edp` inside one scale-up domain: as many as fit and divide it."""
        layout = self.layout
        experts = layout.ep * layout.expert_tp
        ranks, stride = {
            "dp": (self.replicas, layout.tp),
            "shard": (self.shard, layout.tp),
            "edp": (self.width // self.workers // experts, experts),
        }[name]
        fit = min(ranks, max(1, self.domain // stride))
        return next(n for n in range(fit, 0, -1) if ranks % n == 0)

    def within(self, name: str, over: str) -> str:
        """The space of a group's members inside a scale-up domain, of one of each domain, or of all."""
        return name if over == "all" else f"{name}.{over}"

    def communicator_size(self, name: str) -> int:
        """Ranks in one communicator of a space."""
        size = self.spaces[name].size
        return size * {WORLD: self.stages, EMBEDDING: min(self.stages, 2)}.get(name, 1)

    def communicators(self, name: str) -> NDArray[np.int32]:
        """int32[communicators, size]: global ranks of every communicator of a space, stage after stage."""
        members = self.spaces[name].members
        if name == WORLD:
            stage = np.arange(self.stages, dtype=np.int32) * np.int32(self.width)
            return (members[:, None, :] + stage[None, :, None]).reshape(len(members), -1)
        if name == EMBEDDING:
            return np.concatenate([members, members + (self.stages - 1) * self.width], axis=1).astype(np.int32)
        first = np.arange(self.stages, dtype=np.int32) * np.int32(self.width)
        return (first[:, None, None] + members[None]).reshape(-1, members.shape[1])

    def relation(self, successor: str, predecessor: str) -> NDArray[np.int32]:
        """int32[groups of `successor`, k]: the groups of `predecessor` that share a place with each.

        Rows shorter than the longest repeat their last entry; waiting twice for one task is waiting for it once.
        """
        key = (successor, predecessor)
        if key not in self._relations:
            met = np.sort(self.spaces[predecessor].group_of[self.spaces[successor].members], axis=1)
            self._relations[key] = _distinct(met)
        return self._relations[key]


def _space(name: str, label: str, group: NDArray[np.int32]) -> Space:
    groups = int(group.max()) + 1
    members = np.argsort(group, kind="stable").reshape(groups, -1).astype(np.int32)
    return Space(name, label, group.astype(np.int32), members)


def _distinct(rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Distinct entries of each sorted row, padded on the right with the row's last entry."""
    fresh = np.ones(rows.shape, bool)
    fresh[:, 1:] = rows[:, 1:] != rows[:, :-1]
    place = np.cumsum(fresh, axis=1) - 1
    longest = int(place.max()) + 1
    out = np.repeat(rows[:, -1:], longest, axis=1)
    line = np.broadcast_to(np.arange(len(rows))[:, None], rows.shape)
    out[line[fresh], place[fresh]] = rows[fresh]
    return np.ascontiguousarray(out)


# Stands for "no slot" wherever slots are listed.
NONE = -1


@dataclass(frozen=True)
class Slots:
    """Columns of n slots.

    Attributes:
        space: int8[n], index into the lattice's spaces.
        stage: int32[n], pipeline stage (0 for spaces that reach over all).
        order: int64[n]; slots of one stage and stream run by ascending order.
        kind, stream, collective: uint8[n], as in the task graph.
        peer: int32[n], stage that receives a transfer, else -1.
        shift: int32[n]; where above 0, the rank so many further on (round the job) receives a transfer instead.
        duration_ps, size_bytes: int64[n].
        count: int32[n].
        label: int64[n], coded label.
        loss_index: int32[n], as in the task graph.
    """

    space: NDArray[np.int8]
    stage: NDArray[np.int32]
    order: NDArray[np.int64]
    kind: NDArray[np.uint8]
    stream: NDArray[np.uint8]
    collective: NDArray[np.uint8]
    peer: NDArray[np.int32]
    shift: NDArray[np.int32]
    duration_ps: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    count: NDArray[np.int32]
    label: NDArray[np.int64]
    loss_index: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.space)

    def take(self, order: NDArray[np.int64]) -> Slots:
        """The slots in another order."""
        return Slots(*(getattr(self, field.name)[order] for field in fields(self)))


_GROUPS = {Kind.LOAD: "memory", Kind.STORE: "memory"}
"""Group names of memory pool waits, in addition to the classes of communicators."""
_DTYPES = {
    "space": np.int8,
    "stage": np.int32,
    "order": np.int64,
    "kind": np.uint8,
    "stream": np.uint8,
    "collective": np.uint8,
    "peer": np.int32,
    "shift": np.int32,
    "duration_ps": np.int64,
    "size_bytes": np.int64,
    "count": np.int32,
    "label": np.int64,
    "loss_index": np.int32,
}


class StepProgram:
    """Slots as they are added, family by family.

    Args:
        lattice: The spaces over which slots are replicated.
        virtual_stages: Number of virtual pipeline stages; labels refer to them.
        micro_batches: Number of micro-batches.

    Attributes:
        loss: Slowdown of computations by overlapping communications, as in the task graph; None: none.
    """

    def __init__(self, lattice: Lattice, virtual_stages: int, micro_batches: int) -> None:
        self.lattice = lattice
        self._layers, self._batches = virtual_stages + 1, micro_batches + 1
        self._space_index = {name: index for index, name in enumerate(lattice.spaces)}
        self._families: list[dict[str, NDArray[np.generic]]] = []
        self._labels: dict[tuple[str, str, str], int] = {}
        self._edges: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._size = 0
        self.loss: NDArray[np.float64] | None = None

    def add(
        self,
        space: str,
        kind: Kind,
        stream: Stream,
        *,
        stage: ArrayLike,
        order: ArrayLike,
        phase: str,
        op: str,
        virtual_stage: ArrayLike = -1,
        micro_batch: ArrayLike = -1,
        duration_ps: ArrayLike = 0,
        size_bytes: ArrayLike = 0,
        count: ArrayLike = 1,
        collective: CollectiveKind = CollectiveKind.ALL_REDUCE,
        peer: ArrayLike = -1,
        shift: ArrayLike = 0,
        loss_index: ArrayLike = -1,
    ) -> NDArray[np.int64]:
        """Adds one slot an entry of `order`; the other columns are broadcast to it.

        Returns:
            int64[n], the slots' numbers, for `wait`.
        """
        order = np.atleast_1d(np.asarray(order, np.int64))
        grouped = kind == Kind.COLLECTIVE
        group = self.lattice.spaces[space].label if grouped else _GROUPS.get(kind, "pp" if phase == "pipeline" else "")
        family = self._labels.setdefault((phase, op, group), len(self._labels))
        layers, batches = np.asarray(virtual_stage, np.int64), np.asarray(micro_batch, np.int64)
        columns: dict[str, ArrayLike] = {
            "space": self._space_index[space],
            "stage": stage,
            "order": order,
            "kind": kind,
            "stream": stream,
            "collective": collective if kind == Kind.COLLECTIVE else 0,
            "peer": peer,
            "shift": shift,
            "duration_ps": duration_ps,
            "size_bytes": size_bytes,
            "count": count,
            "loss_index": loss_index,
            "label": (family * self._layers + layers + 1) * self._batches + batches + 1,
        }
        self._families.append(
            {name: np.broadcast_to(np.asarray(columns[name], kind_), order.shape) for name, kind_ in _DTYPES.items()}
        )
        self._size += len(order)
        return np.arange(self._size - len(order), self._size, dtype=np.int64)

    def wait(self, slots: NDArray[np.int64], on: NDArray[np.int64]) -> None:
        """Lets every slot wait for its counterpart in `on`; pairs with `NONE` on either side are left out."""
        slots, on = np.broadcast_arrays(slots, on)
        real = (slots != NONE) & (on != NONE)
        if real.any():
            self._edges.append((slots[real], on[real]))

    def slots(self) -> Slots:
        """All slots so far, in the order in which they were added."""
        return Slots(*(np.concatenate([family[name] for family in self._families]) for name in _DTYPES))

    def edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Waiting slots and what each waits for."""
        if not self._edges:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate([edge[0] for edge in self._edges]), np.concatenate([edge[1] for edge in self._edges])

    def decode(self, codes: NDArray[np.int64]) -> list[Label]:
        """The labels of distinct codes."""
        families = list(self._labels)
        rest, batch = np.divmod(codes, self._batches)
        family, layer = np.divmod(rest, self._layers)
        labels = []
        for f, v, m in zip(family.tolist(), layer.tolist(), batch.tolist(), strict=True):
            phase, op, group = families[f]
            labels.append(Label(phase, op, group, v - 1, m - 1))
        return labels
