"""Racks in rows: servers in rows of equal length, switches in the middle of the servers they connect.

A row has as many server racks as form whole blocks (servers with the same leafs) or even parts of one, and reserves
space for the leaf racks in its middle. Switches that serve several rows are in the middle row or, if it has no space
left, in separate rows among those that they serve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster.hall.devices import Devices, Segment
    from railyard.cluster.hall.spec import HallSpec


MOST_BANKS = 16
"""Maximum number of banks to try."""

NEARLY = 1.05
"""Halls with at most this much more total cable than the shortest are equivalent: the smallest of them is built."""


@dataclass(frozen=True, eq=False)
class Floor:
    """Where the racks are.

    Attributes:
        row, column: int32[racks], row number (bank by bank, from the front) and position in it from the left.
        zone: int32[racks], rows that share power and cooling, from 0.
        x_m, y_m: float64[racks], middle of the rack.
    """

    row: NDArray[np.int32]
    column: NDArray[np.int32]
    zone: NDArray[np.int32]
    x_m: NDArray[np.float64]
    y_m: NDArray[np.float64]
    banks: int

    def area_m2(self) -> float:
        """Area of the rectangle around the centers of all racks."""
        return float(np.ptp(self.x_m) * np.ptp(self.y_m)) if len(self.x_m) else 0.0


def rows_together(filling: Filling, most: int) -> list[list[RackRow]]:
    """Rows that stay together: those below switches that do not serve all rows, otherwise as many as a zone has."""
    rows = [row for row in filling.rows if not row.central]
    held = sorted({row.servers for row in rows}, key=lambda one: (one[0], -one[1]))
    outer: list[tuple[int, int]] = []
    for one in held:
        if not outer or one[0] > outer[-1][1]:
            outer.append(one)
    parts: list[list[RackRow]] = []
    for first, last in outer:
        inside = [row for row in rows if first <= row.servers[0] <= last]
        single = [outer_row for outer_row in inside if outer_row.servers != (first, last)]
        if single or not parts or len(parts[-1]) >= most:
            parts.append(inside)
        else:
            parts[-1] += inside
    return parts


def floor_of(
    spec: HallSpec, rows: Sequence[RackRow], parts: Sequence[Sequence[RackRow]], banks: int, racks: int
) -> Floor:
    """Rows in a number of banks: part after part, up one bank and down the next, so that neighbors stay close."""
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


def _stacks(parts: Sequence[Sequence[RackRow]], central: int, banks: int) -> list[list[Sequence[RackRow]]]:
    """Parts by bank, filled evenly; the middle bank also has the rows that serve all."""
    total = sum(map(len, parts)) + central
    stacks: list[list[Sequence[RackRow]]] = []
    left = list(parts)
    done = 0.0
    for bank in range(banks):
        stack: list[Sequence[RackRow]] = []
        done += central if bank == (banks - 1) // 2 else 0
        goal = total * (bank + 1) / banks
        while left and (not stack or done + len(left[0]) / 2 <= goal or bank == banks - 1):
            done += len(left[0])
            stack.append(left.pop(0))
        if stack:
            stacks.append(stack)
    return stacks or [[]]


def _placed(spec: HallSpec, columns: Sequence[Sequence[RackRow]], racks: int) -> Floor:
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
    """Distance of a row's center from the front of the hall: the fronts of rows 0 and 1 face each other, and so on."""
    pairs, second = divmod(at, 2)
    pair = 2 * spec.rack_depth_m + spec.cold_aisle_m + spec.hot_aisle_m
    return pairs * pair + second * (spec.rack_depth_m + spec.cold_aisle_m) + spec.rack_depth_m / 2


def zones_of(spec: HallSpec, floor: Floor, power_w: NDArray[np.float64]) -> NDArray[np.int32]:
    """int32[racks]: consecutive rows until they reach a zone's power; a zone never spans two banks."""
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


@dataclass(eq=False)
class RackRow:
    """Racks in a row.

    Attributes:
        servers: First and last server of the row; for rows of switches, of the servers that they connect.
        central: Whether it serves an entire hall of several parts.
    """

    racks: list[int]
    servers: tuple[int, int]
    central: bool = False


@dataclass(eq=False)
class Filling:
    """Racks and rows so far.

    Attributes:
        panels: int64[devices], patch panel ports that each needs in its rack.
        panel_ports: Ports of a panel, which takes one rack unit.
        reserve: Extra units reserved for panels in each rack with patched devices.
        rack, unit: int32[devices].
        rows: In order; cables between neighbors are short.
    """

    spec: HallSpec
    devices: Devices
    limit_w: float
    panels: NDArray[np.int64]
    panel_ports: int
    reserve: int
    rack: NDArray[np.int32]
    unit: NDArray[np.int32]
    power_w: list[float] = field(default_factory=list)
    rows: list[RackRow] = field(default_factory=list)

    def pack(self, order: Sequence[int], units: int, *, hang: bool = False) -> list[int]:
        """Stacks devices, with a new rack when height or power is used up; panels take units, too.

        Args:
            order: Devices.
            units: Units per rack that they may use.
            hang: From the top down, as for switches, whose cables leave above the rack.
        """
        racks: list[int] = []
        used, ports = units + 1, 0
        for number in order:
            height, watts = int(self.devices.height_u[number]), float(self.devices.power_w[number])
            more = ports + int(self.panels[number])
            full = used + height + self.panels_for(more) > units
            if not racks or full or self.power_w[racks[-1]] + watts > self.limit_w:
                racks.append(len(self.power_w))
                self.power_w.append(0.0)
                used, more = 0, int(self.panels[number])
            self.rack[number] = racks[-1]
            self.unit[number] = self.spec.rack_units - used - height + 1 if hang else used + 1
            self.power_w[racks[-1]] += watts
            used, ports = used + height, more
        return racks

    def panels_for(self, ports: int) -> int:
        """Units for the panels of a number of ports."""
        return math.ceil(ports / self.panel_ports) + self.reserve if ports else 0

    def watts(self, row: RackRow) -> float:
        """Power of a row."""
        return sum(self.power_w[rack] for rack in row.racks)


def server_rows(filling: Filling, racks: Sequence[int], each: int, tiers: Sequence[Sequence[Segment]]) -> None:
    """Puts racks of servers into rows.

    Args:
        filling: The rows are added to it.
        racks: Server racks, in order.
        each: Servers per rack.
        tiers: Segments of the back-end's switches, tier by tier from the lowest.
    """
    wide, block, starts = _width(filling, len(racks), each, tiers)
    for begin, end in zip(starts, [*starts[1:], len(racks)], strict=True):
        blocks = math.ceil((end - begin) / block)
        rows = math.ceil(blocks / max(wide // block, 1))
        for part in np.array_split(np.arange(blocks), rows):
            first, last = begin + int(part[0]) * block, min(begin + (int(part[-1]) + 1) * block, end)
            filling.rows.append(RackRow(list(racks[first:last]), (first * each, last * each - 1)))


def _width(filling: Filling, racks: int, each: int, tiers: Sequence[Sequence[Segment]]) -> tuple[int, int, list[int]]:
    """Maximum server racks per row, racks that stay together, and racks that begin a row."""
    wide, block = _widest(filling, racks), 1
    for segments in tiers:
        most = max(math.ceil((one.last + 1) / each) - one.first // each for one in segments)
        if most > wide:
            return wide, block, sorted({0, *(one.first // each for one in segments)})
        block = max(block, most)
    return wide, block, [0]


def _widest(filling: Filling, racks: int) -> int:
    """The most server racks that leave space for the racks of their leafs in the row."""
    spec, devices = filling.spec, filling.devices
    leafs = np.flatnonzero(devices.level == 1)
    units = devices.height_u[leafs].sum() + filling.panels[leafs].sum() / filling.panel_ports
    watts = devices.power_w[leafs].sum()
    share = max(units / spec.network_units, watts / filling.limit_w) / max(racks, 1)
    highest = max(filling.power_w[:racks], default=0.0)
    for wide in range(spec.row_racks, 0, -1):
        more = math.ceil(wide * share - 1e-9)
        power = wide * highest + more * filling.limit_w * min(1.0, watts / filling.limit_w / max(racks * share, 1e-9))
        if wide + more <= spec.row_racks and power <= spec.row_w:
            return wide
    return 1


def network_rows(filling: Filling, segments: Sequence[Segment]) -> None:
    """Places switches of a tier: in the middle of the row or rows that they serve, or in separate rows."""
    all_rows = list(filling.rows)
    together: dict[tuple[int, int], list[int]] = {}
    for one in segments:
        covered = [at for at, row in enumerate(all_rows) if row.servers[0] <= one.last and row.servers[1] >= one.first]
        ends = (covered[0], covered[-1]) if covered else (0, len(all_rows) - 1)
        together.setdefault(ends, []).extend(one.switches.tolist())
    for (first, last), switches in together.items():
        racks = filling.pack(switches, filling.spec.network_units, hang=True)
        _place(filling, racks, all_rows[first : last + 1], whole=last - first + 1 == len(all_rows) > 1)


def _place(filling: Filling, racks: list[int], served: list[RackRow], *, whole: bool) -> None:
    spec, middle = filling.spec, served[(len(served) - 1) // 2]
    watts = filling.watts(middle) + sum(filling.power_w[rack] for rack in racks)
    if len(middle.racks) + len(racks) <= spec.row_racks and watts <= spec.row_w and not middle.central:
        at = (len(middle.racks) + 1) // 2
        middle.racks[at:at] = racks
        return
    highest = max(filling.power_w[rack] for rack in racks)
    most = min(spec.row_racks, max(1, int(spec.row_w // max(highest, 1.0))))
    count = math.ceil(len(racks) / most)
    at = filling.rows.index(middle) + 1
    servers = served[0].servers[0], served[-1].servers[1]
    for number, part in enumerate(np.array_split(racks, count)):
        filling.rows.insert(at + number, RackRow(part.tolist(), servers, whole))
