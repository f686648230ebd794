"""Racks in a hall: what stands where, under limits of height and power, and how far it is from there to there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.deploy.plan.devices import Devices

UNITS = 42
"""Of a rack."""

AIR_W, LIQUID_W = 44_000.0, 140_000.0
"""What is cooled in a rack: with air (four HGX H100 servers of 10.2 kW, as in NVIDIA's DGX SuperPOD H100 reference),
with liquid where a scale-up domain spans servers (132 kW for a GB200 NVL72 rack, maker's figure): assumed of a hall."""

NETWORK_UNITS = 36
"""Units of a rack of switches that switches take; the rest is for fibre trays."""

ROW_RACKS, RACK_M, ROW_M = 20, 0.6, 2.4
"""Racks of a row, width of a rack, and depth of a rack with half of the aisles before and behind it."""

TRAY_M, UNIT_M, SLACK_M = 2.6, 0.04445, 0.5
"""Height of the trays over the floor, of a rack unit, and what is left over at each end of a cable."""

LENGTHS_M = np.array(
    [0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 25, 30, 35, 40, 50, 60, 75, 100, 125, 150, 200, 250, 300, 400, 500]
)
"""Lengths that cables are sold in."""


@dataclass(frozen=True, eq=False)
class Racks:
    """Where devices stand.

    Attributes:
        rack: int32[devices].
        unit: int32[devices], lowest rack unit, from 1.
        row, column: int32[racks], place in the hall.
        power_w: float64[racks], of what stands there.
        remarks: What does not keep to the limits, in words.
    """

    rack: NDArray[np.int32]
    unit: NDArray[np.int32]
    row: NDArray[np.int32]
    column: NDArray[np.int32]
    power_w: NDArray[np.float64]
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.row)

    def names(self) -> list[str]:
        """`A01`: the row in letters, the column in digits."""
        return [
            f"{_letters(row)}{column + 1:02d}"
            for row, column in zip(self.row.tolist(), self.column.tolist(), strict=True)
        ]

    def metres(self, a: NDArray[np.int32], b: NDArray[np.int32]) -> NDArray[np.float64]:
        """float64[], shortest way for cables between devices, over the trays where they leave the rack, with slack."""
        one, other = self.rack[a], self.rack[b]
        along = np.abs(self.column[one] - self.column[other]) * RACK_M
        across = np.abs(self.row[one] - self.row[other]) * ROW_M
        up = 2 * TRAY_M - (self.unit[a] + self.unit[b]) * UNIT_M
        inside = np.abs(self.unit[a] - self.unit[b]) * UNIT_M + 0.5
        way: NDArray[np.float64] = np.where(one == other, inside, along + across + up + 2 * SLACK_M)
        return way


def _letters(number: int) -> str:
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(65 + rest) + text
    return text


def bought(metres: NDArray[np.float64]) -> NDArray[np.float64]:
    """The next length that is sold; longer ones as they are, in whole metres."""
    at = np.searchsorted(LENGTHS_M, metres * (1 - 1e-9))
    return np.where(at < len(LENGTHS_M), LENGTHS_M[np.minimum(at, len(LENGTHS_M) - 1)], np.ceil(metres))


def racks_of(cluster: Cluster, devices: Devices, below: NDArray[np.float64]) -> Racks:
    """Servers rack by rack in rows; leafs at the end of the row that they serve, tiers above in the middle of the hall.

    Args:
        cluster: The cluster.
        devices: Its devices.
        below: float64[devices], of each switch the mean number of the servers below it; nan for others.
    """
    domain = max(cluster.scale_up_domain // max(cluster.ranks_per_server, 1), 1)
    limit = LIQUID_W if domain > 1 else AIR_W
    each, height = float(devices.power_w[0]), int(devices.height_u[0])
    fit = max(1, min(int(limit // each), UNITS // height))
    fit = fit // domain * domain or fit
    remarks = (
        [] if each <= limit else [f"a server of {each / 1e3:.1f} kW is more than the {limit / 1e3:g} kW of a rack"]
    )
    rack = np.full(len(devices), -1, np.int32)
    unit = np.ones(len(devices), np.int32)
    servers = np.arange(devices.servers)
    rack[: devices.servers], unit[: devices.servers] = servers // fit, 1 + servers % fit * height
    count = -(-devices.servers // fit)
    row, column = np.divmod(np.arange(count), ROW_RACKS)
    place = _Hall(rack, unit, row.tolist(), column.tolist())
    rows = int(row.max(initial=0)) + 1
    levels = devices.level.astype(int)
    server_row = np.nan_to_num(below) / fit // ROW_RACKS
    target = np.where(levels <= 1, server_row, rows // 2).astype(int)
    target[(devices.role == "storage") | (devices.role == "memory")] = rows
    rest = np.arange(devices.servers, len(devices))
    place.fill(devices, rest[np.lexsort((rest, below[rest], levels[rest], target[rest]))], target, limit)
    power = np.bincount(rack, weights=devices.power_w, minlength=len(place.row))
    return Racks(
        rack, unit, np.array(place.row, np.int32), np.array(place.column, np.int32), power.astype(float), tuple(remarks)
    )


class _Hall:
    """Racks so far, and the next free place of each row."""

    def __init__(self, rack: NDArray[np.int32], unit: NDArray[np.int32], row: list[int], column: list[int]) -> None:
        self.rack, self.unit, self.row, self.column = rack, unit, row, column
        self.next: dict[int, int] = {}
        for one, other in zip(row, column, strict=True):
            self.next[one] = max(self.next.get(one, 0), other + 1)

    def fill(self, devices: Devices, order: NDArray[np.int64], target: NDArray[np.int64], limit: float) -> None:
        """Puts devices one upon the other; a new rack where the row, the tier, the height or the power ends."""
        before: tuple[int, int] | None = None
        used, drawn = 0, 0.0
        for number in order.tolist():
            kind = (int(target[number]), int(devices.level[number]))
            height, watts = int(devices.height_u[number]), float(devices.power_w[number])
            if kind != before or used + height > NETWORK_UNITS or drawn + watts > limit:
                at = self.next.get(kind[0], 0)
                self.row.append(kind[0])
                self.column.append(at)
                self.next[kind[0]] = at + 1
                before, used, drawn = kind, 0, 0.0
            self.rack[number], self.unit[number] = len(self.row) - 1, used + 1
            used, drawn = used + height, drawn + watts
