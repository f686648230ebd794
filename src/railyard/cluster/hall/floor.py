"""Rows on the floor: banks side by side, rows back to back and front to front, what serves all in the middle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster.hall.rows import Filling, Row
    from railyard.cluster.hall.spec import HallSpec

MOST_BANKS = 16
"""That are tried."""

NEARLY = 1.05
"""Halls whose cables are that much longer in total than the shortest are as good: the smallest of them is built."""


@dataclass(frozen=True, eq=False)
class Floor:
    """Where racks stand.

    Attributes:
        row, column: int32[racks], number of the row (bank by bank, from the front) and place in it from the left.
        zone: int32[racks], rows that share power and cooling, from 0.
        x_m, y_m: float64[racks], middle of the rack.
        banks: How many.
    """

    row: NDArray[np.int32]
    column: NDArray[np.int32]
    zone: NDArray[np.int32]
    x_m: NDArray[np.float64]
    y_m: NDArray[np.float64]
    banks: int

    def area_m2(self) -> float:
        """Of the rectangle around the middles of all racks."""
        return float(np.ptp(self.x_m) * np.ptp(self.y_m)) if len(self.x_m) else 0.0


def parts_of(filling: Filling, most: int) -> list[list[Row]]:
    """Rows that stay together: those below the same switches where these do not serve all, else as many as a zone has.

    Args:
        filling: Rows in order, without those that serve all.
        most: Rows of a part that no switches hold together.
    """
    rows = [row for row in filling.rows if not row.central]
    held = sorted({row.servers for row in rows}, key=lambda one: (one[0], -one[1]))
    outer: list[tuple[int, int]] = []
    for one in held:
        if not outer or one[0] > outer[-1][1]:
            outer.append(one)
    parts: list[list[Row]] = []
    for first, last in outer:
        inside = [row for row in rows if first <= row.servers[0] <= last]
        single = [outer_row for outer_row in inside if outer_row.servers != (first, last)]
        if single or not parts or len(parts[-1]) >= most:
            parts.append(inside)
        else:
            parts[-1] += inside
    return parts


def floor_of(spec: HallSpec, rows: Sequence[Row], parts: Sequence[Sequence[Row]], banks: int, racks: int) -> Floor:
    """Rows in so many banks: part after part, up one bank and down the next, so that neighbours are near.

    Args:
        spec: Of the hall.
        rows: All of them.
        parts: Those that stay together, without those that serve all.
        banks: How many.
        racks: How many.
    """
    central = [row for row in rows if row.central]
    stacks = _stacks(parts, len(central), banks)
    middle = (len(stacks) - 1) // 2
    columns = [[row for part in stack for row in part] for stack in stacks]
    seams = np.cumsum([0, *(len(part) for part in stacks[middle])])
    at = int(seams[np.argmin(np.abs(seams - len(columns[middle]) / 2))])
    columns[middle][at:at] = central
    for number, column in enumerate(columns):
        if number % 2:
            column.reverse()
    return _placed(spec, columns, racks)


def _stacks(parts: Sequence[Sequence[Row]], central: int, banks: int) -> list[list[Sequence[Row]]]:
    """Parts by bank, each as full as the others; the middle one has the rows that serve all, too."""
    total = sum(map(len, parts)) + central
    stacks: list[list[Sequence[Row]]] = []
    left = list(parts)
    done = 0.0
    for bank in range(banks):
        stack: list[Sequence[Row]] = []
        done += central if bank == (banks - 1) // 2 else 0
        goal = total * (bank + 1) / banks
        while left and (not stack or done + len(left[0]) / 2 <= goal or bank == banks - 1):
            done += len(left[0])
            stack.append(left.pop(0))
        if stack:
            stacks.append(stack)
    return stacks or [[]]


def _placed(spec: HallSpec, columns: Sequence[Sequence[Row]], racks: int) -> Floor:
    row, column, zone = (np.zeros(racks, np.int32) for _ in range(3))
    x, y = np.zeros(racks), np.zeros(racks)
    widest = max((len(one.racks) for rows in columns for one in rows), default=1)
    deepest = max(map(len, columns))
    number = 0
    for bank, rows in enumerate(columns):
        left = bank * (widest * spec.rack_width_m + spec.cross_aisle_m)
        before = (deepest - len(rows)) // 2
        for at, one in enumerate(rows):
            members = np.array(one.racks, np.int64)
            row[members], column[members] = number, np.arange(len(members))
            aside = (widest - len(members)) / 2
            x[members] = left + (np.arange(len(members)) + aside + 0.5) * spec.rack_width_m
            y[members] = _depth(spec, before + at)
            number += 1
    return Floor(row, column, zone, x, y, len(columns))


def _depth(spec: HallSpec, at: int) -> float:
    """Of the middle of a row behind the front of the hall: fronts of rows 0 and 1 face each other, and so on."""
    pairs, second = divmod(at, 2)
    pair = 2 * spec.rack_depth_m + spec.cold_aisle_m + spec.hot_aisle_m
    return pairs * pair + second * (spec.rack_depth_m + spec.cold_aisle_m) + spec.rack_depth_m / 2


def zones_of(spec: HallSpec, floor: Floor, power_w: NDArray[np.float64]) -> NDArray[np.int32]:
    """int32[racks]: rows one behind another until their power is that of a zone; no zone has rows of two banks."""
    rows = int(floor.row.max(initial=-1)) + 1
    watts = np.bincount(floor.row, weights=power_w, minlength=rows)
    left = np.zeros(rows)
    left[floor.row] = floor.x_m
    depth = np.zeros(rows)
    depth[floor.row] = floor.y_m
    zone = np.zeros(rows, np.int32)
    total, behind = 0.0, math.inf
    for at in range(rows):
        new_bank = depth[at] <= behind and at > 0
        if at and (new_bank or total + watts[at] > spec.zone_w):
            zone[at:] += 1
            total = 0.0
        total, behind = total + float(watts[at]), float(depth[at])
    numbered: NDArray[np.int32] = zone[floor.row]
    return numbered
