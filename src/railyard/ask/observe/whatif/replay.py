"""Replay of measured operations along their dependencies, all steps and data-parallel ranks at once.

An operation starts when all that it waits for have ended. A computation ends its duration later. Communications of one
group begin to move data when the last of them has started, and each ends its transfer time after that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Times = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """Operations that wait for one another.

    Attributes:
        members: Numbers of operations; one alone for a computation.
        moves: Whether it is a communication, which begins when the last member has started.
        across: Whether it also waits for the same operations of all data-parallel ranks.
    """

    members: tuple[int, ...]
    moves: bool
    across: bool


@dataclass(frozen=True)
class Dependencies:
    """What waits for what, the same in every step and for every data-parallel rank.

    Attributes:
        waits: Of each operation, the operations that must have ended.
        groups: Every operation is in one of them.
    """

    waits: Sequence[Sequence[int]]
    groups: Sequence[Group]

    def ordered(self) -> list[Group]:
        """The groups in an order in which none comes before what its members wait for.

        Raises:
            InputError: They wait for each other in a circle.
        """
        group_of = {member: number for number, group in enumerate(self.groups) for member in group.members}
        before = [{group_of[op] for member in group.members for op in self.waits[member]} for group in self.groups]
        after: list[list[int]] = [[] for _ in self.groups]
        for number, earlier in enumerate(before):
            for one in earlier:
                after[one].append(number)
        open_ = [len(earlier) for earlier in before]
        ready = [number for number, count in enumerate(open_) if count == 0]
        for number in ready:  # grows as it is read
            for later in after[number]:
                open_[later] -= 1
                if open_[later] == 0:
                    ready.append(later)
        if len(ready) < len(self.groups):
            raise InputError("operations of the trace wait for each other in a circle")
        return [self.groups[number] for number in ready]


@dataclass(frozen=True)
class Replayed:
    """When operations ran; float64[operations, steps, data-parallel ranks], seconds from the start of the step.

    Attributes:
        start: Of each.
        end: Of each.
    """

    start: Times
    end: Times

    @property
    def step_s(self) -> Times:
        """float64[steps], how long each step takes."""
        return np.asarray(self.end.max(axis=(0, 2)) - self.start.min(axis=(0, 2)))


def replay(order: Sequence[Group], waits: Sequence[Sequence[int]], duration: Times) -> Replayed:
    """Runs the operations.

    Args:
        order: See `Dependencies.ordered`.
        waits: See `Dependencies.waits`.
        duration: float64[operations, steps, data-parallel ranks], s; of a communication, its transfer time.
    """
    start, end = np.zeros_like(duration), np.zeros_like(duration)
    for group in order:
        members = list(group.members)
        for member in members:
            if waits[member]:
                start[member] = end[list(waits[member])].max(axis=0)
        begins = start[members]
        if group.moves:
            begins = begins.max(axis=0)
            if group.across:
                begins = begins.max(axis=1, keepdims=True)
        end[members] = begins + duration[members]
    return Replayed(start, end)
