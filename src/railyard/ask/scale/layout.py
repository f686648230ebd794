"""Process groups of a trace as axes of a grid of ranks: which are tensor, pipeline, expert and data parallel.

Frameworks number ranks in mixed radix: tensor parallel ranks next to one another, then context, expert and data
parallel ones, the pipeline outermost (Megatron-LM), or in the order of a device mesh (PyTorch). So the strides of the
groups give the axes. On more accelerators one data axis grows and every other keeps its size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import gcd, prod
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.ask.scale.steps import TracedStep

TENSOR, CONTEXT, PIPELINE, EXPERT, DATA, SHARDED = "tp", "cp", "pp", "ep", "dp", "fsdp"
GRADIENTS = "gradients"
"""Process group that `--gradients` adds."""
GROWS = (DATA, SHARDED)
_PURPOSES = (
    (PIPELINE, r"pipe|\bpp\b"),
    (SHARDED, r"fsdp|\bshard"),
    (DATA, r"data|\bdp|replica|\bedp\b"),
    (EXPERT, r"expert|\bep\b|moe"),
    (TENSOR, r"tensor|\btp\b"),
    (CONTEXT, r"context|sequence|ulysses|\bcp\b"),
)
"""Words of Megatron-LM's and PyTorch's names of groups; "expert data parallel" is data parallel."""

EXPERTS_ONCE = "replicas beyond the expert group"
NO_GROUP, NO_SIZE, NO_PEER, ODD = (
    "the trace does not say which ranks take part",
    "the trace does not say how large it is",
    "the ranks of its group are not a grid",
    "ranks of its group call it a different number of times",
)


@dataclass(frozen=True)
class Axis:
    """A direction of the grid of ranks.

    Attributes:
        stride: Distance of neighbours in ranks.
        role: `tp`, `pp`, `dp` and so on; empty if no process group says.
        how: How the role is known, in words.
    """

    size: int
    stride: int
    role: str = ""
    how: str = ""


@dataclass(frozen=True)
class GroupKind:
    """A kind of process group: all those along the same axes.

    Attributes:
        axes: Places of its axes in the grid.
        order: Number of the group among those along the same axes.
        step: Of messages between two ranks, the places along the axes of the sender and of the receiver; else empty.
    """

    axes: tuple[int, ...]
    order: int = 0
    step: tuple[int, ...] = ()


@dataclass(frozen=True)
class Grid:
    """Ranks as a grid, the innermost axis first.

    Attributes:
        axes: Their sizes multiply to the number of ranks.
        groups: The kind of every process group by the trace's name and rank; unknown groups are missing.
        unknown: Why a process group is missing, by name.
    """

    axes: tuple[Axis, ...]
    groups: dict[tuple[int, str], GroupKind] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        """How many."""
        return prod(axis.size for axis in self.axes)

    def places(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64[axes, n], the place of ranks along each axis."""
        rows = [ranks // axis.stride % axis.size for axis in self.axes]
        return np.array(rows, np.int64).reshape(len(self.axes), len(ranks))

    def name(self, group: GroupKind) -> str:
        """Roles of a group's axes, such as `dp` or `tp+dp`."""
        return "+".join(dict.fromkeys(self.axes[at].role or "?" for at in group.axes)) or "self"

    def roles(self) -> dict[str, int]:
        """Size by role."""
        found: dict[str, int] = {}
        for axis in self.axes:
            if axis.size > 1:
                found[axis.role or "?"] = found.get(axis.role or "?", 1) * axis.size
        return found

    def grown(self, accelerators: int) -> Grid:
        """The grid with so many ranks: its outermost data axis is longer or shorter.

        Raises:
            InputError: No axis is data parallel, or the number is not a multiple of the others.
        """
        if accelerators == self.ranks:
            return self
        places = [at for at, axis in enumerate(self.axes) if axis.role in GROWS]
        if not places:
            raise InputError(
                "the trace has no data-parallel group that could grow",
                key="--accelerators",
                found=accelerators,
                allowed=self.ranks,
                hint="--gradients 4GB adds an all-reduce of so many bytes a rank; or trace two replicas",
            )
        kept = self.ranks // self.axes[places[-1]].size
        if accelerators % kept:
            raise InputError(
                "the accelerators do not divide into replicas",
                key="--accelerators",
                found=accelerators,
                allowed=f"a multiple of {kept}",
            )
        sizes = [axis.size if at != places[-1] else accelerators // kept for at, axis in enumerate(self.axes)]
        axes = [
            replace(axis, size=size, stride=prod(sizes[:at]))
            for at, (axis, size) in enumerate(zip(self.axes, sizes, strict=True))
        ]
        return replace(self, axes=tuple(axes))

    def with_replicas(self, traced: Iterable[int]) -> Grid:
        """The grid with a data axis of one replica outside all others, and its group `GRADIENTS` on traced ranks."""
        added = {(rank, GRADIENTS): GroupKind((len(self.axes),)) for rank in traced}
        axis = Axis(1, self.ranks, DATA, "added by --gradients")
        return replace(self, axes=(*self.axes, axis), groups=self.groups | added)


def grid_of(
    world: int, members: Mapping[str, Sequence[int]], purposes: Mapping[str, str], steps: Iterable[TracedStep]
) -> Grid:
    """The grid of a job.

    Args:
        world: Number of ranks.
        members: Ranks of process groups by name; empty where a trace does not list them.
        purposes: What a framework says that a group is for, by name.
        steps: A step of every traced rank.
    """
    steps = list(steps)
    kinds: dict[str, set[str]] = {}
    for step in steps:
        for call in filter(None, step.calls):
            kinds.setdefault(call.group, set()).add(call.kind)
    known = {name: _members(name, world, members, purposes) for name in kinds}
    shapes = {name: _shape(ranks) for name, ranks in known.items()}
    bounds = {1, world}
    for name, shape in shapes.items():
        if not _is_pair(kinds[name]):
            bounds |= {end for stride, size in shape or () for end in (stride, stride * size)}
    apart = gcd(*(max(known[name]) - min(known[name]) for name in kinds if known[name] and _is_pair(kinds[name])))
    bounds |= {apart} - {0}
    marks = sorted(bounds)
    divide = all(high % low == 0 for low, high in pairwise(marks))
    axes = [Axis(high // low, low) for low, high in pairwise(marks)] if divide else [Axis(world, 1)]
    grid = Grid(tuple(axes))
    listed = [name for name in kinds if known[name]]
    several = len({tuple(sorted(shapes[name] or ())) for name in listed if not _is_pair(kinds[name])}) > 1
    roles = {
        name: _role(purposes.get(name, ""), kinds[name], shapes[name] or (), several=several, world=world)
        for name in listed
    }
    # Of groups with the same ranks the one that keeps its size names the axis.
    for name in sorted(listed, key=lambda one: (len(known[one]), roles[one][0] in GROWS, one)):
        varies = _differ(grid, known[name]) if _is_pair(kinds[name]) else _varies(grid, known[name])
        axes = [
            replace(axis, role=roles[name][0], how=roles[name][1])
            if at in varies and not axis.role and axis.size > 1
            else axis
            for at, axis in enumerate(grid.axes)
        ]
        grid = replace(grid, axes=tuple(axes))
    wide = {name for name, (role, _) in roles.items() if role in GROWS}
    named = {axis.role for axis in grid.axes}
    if wide and EXPERT in named and not named & set(GROWS):
        # Experts take up all replicas of the trace: more accelerators hold each expert several times.
        grid = replace(grid, axes=(*grid.axes, Axis(1, world, DATA, EXPERTS_ONCE)))
    else:
        wide = set()
    groups, unknown = _groups(grid, steps, known, kinds)
    added = {key: replace(one, axes=(*one.axes, len(grid.axes) - 1)) for key, one in groups.items() if key[1] in wide}
    groups |= added
    return replace(grid, groups=groups, unknown=unknown)


def _members(
    name: str, world: int, members: Mapping[str, Sequence[int]], purposes: Mapping[str, str]
) -> tuple[int, ...]:
    listed = tuple(members.get(name, ()))
    if not listed and purposes.get(name) in ("default_pg", "default"):
        return tuple(range(world))
    return listed


def _is_pair(kinds: set[str]) -> bool:
    return kinds <= {"send_recv", "send", "recv"}


def _shape(ranks: Sequence[int]) -> tuple[tuple[int, int], ...] | None:
    """Strides and sizes whose combinations are the ranks, the smallest first; None if there are none."""
    offsets = np.sort(np.array(ranks, np.int64)) - min(ranks, default=0)
    found: list[tuple[int, int]] = []
    covered = np.zeros(1, np.int64)
    while len(covered) < len(offsets):
        stride, inside = int(offsets[len(covered)]), len(covered)
        size = 1
        while (
            inside * (size + 1) <= len(offsets)
            and (offsets[inside * size : inside * (size + 1)] == covered + stride * size).all()
        ):
            size += 1
        if size == 1 or stride <= 0:
            return None
        found.append((stride, size))
        covered = np.concatenate([covered + stride * at for at in range(size)])
        if inside * size < len(offsets) and int(offsets[inside * size]) <= covered.max():
            return None
    return tuple(found)


def _varies(grid: Grid, ranks: Sequence[int]) -> tuple[int, ...]:
    """Axes along which ranks differ, if they are all of their combinations; else none."""
    found = _differ(grid, ranks)
    return found if prod(grid.axes[at].size for at in found) == len(ranks) else ()


def _differ(grid: Grid, ranks: Sequence[int]) -> tuple[int, ...]:
    places = grid.places(np.array(ranks, np.int64))
    return tuple(at for at, row in enumerate(places) if len(np.unique(row)) > 1)


def _role(
    purpose: str, kinds: set[str], shape: Sequence[tuple[int, int]], *, several: bool, world: int
) -> tuple[str, str]:
    """Role of a group and how it is known."""
    words = purpose.lower().replace("_", " ")
    named = next((role for role, pattern in _PURPOSES if re.search(pattern, words)), "")
    gathers = "all_gather" in kinds and "reduce_scatter" in kinds
    if named:
        return (SHARDED if named == DATA and gathers else named), f"its group is called `{purpose}`"
    if _is_pair(kinds):
        return PIPELINE, "messages between two ranks"
    if several and "all_to_all" in kinds and prod(size for _, size in shape) < world:
        return EXPERT, "all-to-all within a part of the ranks"
    if several and shape and shape[0][0] == 1 and len(shape) == 1 and shape[0][1] < world:
        return TENSOR, "neighbouring ranks, and other groups across them; not named by the framework"
    return (SHARDED if gathers else DATA), "the only group of its ranks" if not several else "groups across others"


def _groups(
    grid: Grid, steps: Iterable[TracedStep], known: Mapping[str, Sequence[int]], kinds: Mapping[str, set[str]]
) -> tuple[dict[tuple[int, str], GroupKind], dict[str, str]]:
    groups: dict[tuple[int, str], GroupKind] = {}
    unknown: dict[str, str] = {}
    for step in steps:
        used: dict[tuple[int, ...], int] = {}
        for name in dict.fromkeys(call.group for call in step.calls if call is not None):
            ranks = known[name]
            if not ranks:
                unknown[name] = NO_GROUP
            elif _is_pair(kinds[name]) and len(ranks) == 2:
                places, varies = grid.places(np.array(ranks, np.int64)), _differ(grid, ranks)
                groups[step.rank, name] = GroupKind(varies, 0, tuple(places[list(varies)].T.ravel().tolist()))
            elif len(ranks) > 1 and not _varies(grid, ranks):
                unknown[name] = NO_PEER
            else:
                axes = _varies(grid, ranks)
                groups[step.rank, name] = GroupKind(axes, used.setdefault(axes, 0))
                used[axes] += 1
    return groups, unknown
