"""Ports as the points of a grid whose rows, in every dimension, share a switch: what BCube and ZCube have in common.

Port `p` has digit `p // stride[level] % size[level]` in each level, and one link a level, to the switch that it shares
with the ports that differ from it in that digit alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.routes import RouteBuilder


@dataclass(frozen=True)
class Grid:
    """The numbers of a grid of ports.

    Attributes:
        sizes: Ports of a switch of each level, the level of neighbouring port numbers first.
        used: Ports that are there; the last ones of the grid may be left free.
    """

    sizes: tuple[int, ...]
    used: int

    @property
    def levels(self) -> int:
        """Links of a port."""
        return len(self.sizes)

    @property
    def ports(self) -> int:
        """Port numbers, free ones included."""
        return math.prod(self.sizes)

    def stride(self, level: int) -> int:
        """Difference of the numbers of two ports that are neighbours on a switch of that level."""
        return math.prod(self.sizes[:level])

    def switches(self, level: int) -> int:
        """Switches of a level, those without any used port left out."""
        port = np.arange(self.used)
        return int(self.switch_of(port, level).max(initial=-1)) + 1

    def switch_of(self, port: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Which switch of a level each port is on, counted from 0."""
        stride = self.stride(level)
        found: NDArray[np.int64] = port // (stride * self.sizes[level]) * stride + port % stride
        return found

    def link_up(self, port: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """The link from a used port to its switch of a level; the next number is the way back; -1 from a free port."""
        return np.where(port < self.used, 2 * (level * self.used + port), -1)

    def access_ends(self, first_switch: list[int]) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
        """Ports and switches at the ends of the access cables, level by level."""
        port = np.arange(self.used)
        return [port] * self.levels, [first_switch[level] + self.switch_of(port, level) for level in range(self.levels)]

    def leave_ports(self, builder: RouteBuilder) -> None:
        """Adds the routes of all used ports: to another port by every level in which their digits differ.

        Each such level is the first of a shortest path, so that a port uses all its links towards most of the others.
        """
        links = np.stack([self.link_up(np.arange(self.used), level) for level in range(self.levels)], axis=1)
        masks = range(1, 1 << self.levels)
        members = [[level for level in range(self.levels) if mask >> level & 1] for mask in masks]
        first = builder.choices(links[:, np.concatenate(members)])
        width = np.array([0, *map(len, members)])
        offset = np.concatenate([[0, 0], np.cumsum(width[1:-1])])
        digits = [np.arange(self.ports) // self.stride(level) % self.sizes[level] for level in range(self.levels)]
        for port in range(self.used):
            mask = np.zeros(self.ports, np.int64)
            for level, digit in enumerate(digits):
                mask |= (digit != digit[port]).astype(np.int64) << level
            begin = np.flatnonzero(np.diff(mask, prepend=-1))
            end = np.append(begin[1:], self.ports)
            kind = mask[begin]
            away = kind > 0
            builder.records(
                port,
                begin[away],
                end[away],
                first[port] + offset[kind[away]],
                width=width[kind[away]],
                stride=self.ports,
            )
