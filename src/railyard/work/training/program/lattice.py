"""The ranks of one pipeline stage and the groups that parallelism makes of them.

Ranks are numbered tp fastest, then cp, then dp, then pp: `rank = stage * width + j` with
`j = (d * cp + c) * tp + t` the place within a stage of `width = dp * cp * tp` ranks. All stages look alike, so a group
is described once, by places. Experts fold over the same places: the ranks of one expert are next to one another, then
come the `ep` ranks that hold different experts, then the replicas of those.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.training.spec import Layout

# Spaces whose groups reach over stages; every other is replicated a stage.
WORLD, EMBEDDING = "world", "embedding"


@dataclass(frozen=True)
class Space:
    """A partition of a stage's places into groups: what one slot of a program is replicated over.

    Attributes:
        name: Key of the space.
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
