"""Racks of a cluster's devices in its hall, and how far it is from there to there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.hall.floor import MOST_BANKS, NEARLY, Floor, floor_of, parts_of, zones_of
from railyard.cluster.hall.rows import Filling, Row, network_rows, server_rows
from railyard.cluster.hall.segments import reach_of, segments_of
from railyard.cluster.hall.spec import HallSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.cluster.hall.devices import Devices
    from railyard.cluster.hall.segments import Reach, Segment
    from railyard.cluster.machine import Cluster

UNIT_M = 0.04445
"""Height of a rack unit (EIA-310)."""

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
        power_w: float64[racks], of what stands there.
        floor: Places of the racks.
        spec: The hall.
        remarks: What does not keep to the limits, in words.
    """

    rack: NDArray[np.int32]
    unit: NDArray[np.int32]
    power_w: NDArray[np.float64]
    floor: Floor
    spec: HallSpec = field(default_factory=HallSpec)
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.power_w)

    def names(self) -> list[str]:
        """`A01`: the row in letters, the column in digits."""
        places = zip(self.floor.row.tolist(), self.floor.column.tolist(), strict=True)
        return [f"{_letters(row)}{column + 1:02d}" for row, column in places]

    def metres(self, a: NDArray[np.int32], b: NDArray[np.int32]) -> NDArray[np.float64]:
        """float64[], shortest way for cables between devices, over the trays where they leave the rack, with slack."""
        return _metres(self.spec, self.floor, (self.rack, self.unit), a, b)


def _metres(
    spec: HallSpec,
    floor: Floor,
    place: tuple[NDArray[np.int32], NDArray[np.int32]],
    a: NDArray[np.int32],
    b: NDArray[np.int32],
) -> NDArray[np.float64]:
    """Trays run along the rows and across them over the racks, so that ways are right-angled."""
    rack, unit = place
    one, other = rack[a], rack[b]
    along = np.abs(floor.x_m[one] - floor.x_m[other])
    across = np.abs(floor.y_m[one] - floor.y_m[other])
    up = 2 * spec.tray_m - (unit[a] + unit[b]) * UNIT_M
    inside = np.abs(unit[a] - unit[b]) * UNIT_M + 0.5
    way: NDArray[np.float64] = np.where(one == other, inside, along + across + up + 2 * spec.slack_m)
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


def racks_of(cluster: Cluster, devices: Devices, a: NDArray[np.int32], b: NDArray[np.int32]) -> Racks:
    """Devices in racks, racks in rows, rows in as many banks as make the cables shortest.

    Args:
        cluster: The cluster; its `spec.hall` has the limits.
        devices: Its devices.
        a: int32[cables], lower device of each.
        b: int32[cables], upper device.
    """
    spec = cluster.spec.hall
    domain = max(cluster.scale_up_domain // max(cluster.ranks_per_server, 1), 1)
    limit = spec.liquid_w if domain > 1 else spec.air_w
    filling = Filling(
        spec, devices, limit, np.zeros(len(devices), np.int64), 1,
        np.full(len(devices), -1, np.int32), np.ones(len(devices), np.int32),
    )  # fmt: skip
    each = _fit(filling, domain)
    starts = range(0, devices.servers, each)
    servers = [filling.pack(range(at, min(at + each, devices.servers)), spec.rack_units)[0] for at in starts]
    reach = reach_of(devices, a, b)
    tiers = _tiers(devices, reach)
    server_rows(filling, servers, each, [next(iter(networks.values())) for networks in tiers])
    for networks in tiers:
        network_rows(filling, [one for segments in networks.values() for one in segments])
    others = np.flatnonzero((devices.level == 0) & (np.arange(len(devices)) >= devices.servers))
    apart = filling.pack(others.tolist(), spec.rack_units)
    for at in range(0, len(apart), spec.row_racks):
        filling.rows.append(Row(apart[at : at + spec.row_racks], (devices.servers, devices.servers)))
    floor = _shortest(filling, a, b)
    power = np.array(filling.power_w)
    zones = zones_of(spec, floor, power)
    floor = Floor(floor.row, floor.column, zones, floor.x_m, floor.y_m, floor.banks)
    return Racks(filling.rack, filling.unit, power, floor, spec, tuple(_remarks(filling, floor)))


def _fit(filling: Filling, domain: int) -> int:
    """Servers of a rack: whole scale-up domains where one fits."""
    watts, height = float(filling.devices.power_w[0]), int(filling.devices.height_u[0])
    fit = max(1, min(int(filling.limit_w // watts), filling.spec.rack_units // height))
    return fit // domain * domain or fit


def _tiers(devices: Devices, reach: Reach) -> list[dict[str, list[Segment]]]:
    """Segments of switches, tier by tier, in each by network, that of the back-end first."""
    networks = list(dict.fromkeys(devices.network[devices.level > 0].tolist()))
    return [
        {network: found for network in networks if (found := segments_of(devices, reach, level, network))}
        for level in range(1, int(devices.level.max(initial=0)) + 1)
    ]


def _shortest(filling: Filling, a: NDArray[np.int32], b: NDArray[np.int32]) -> Floor:
    """Of as many banks as asked for, or as make the sum of all cables least, or nearly so and the hall small."""
    spec, racks = filling.spec, len(filling.power_w)
    highest = max((filling.watts(row) for row in filling.rows), default=1.0)
    parts = parts_of(filling, max(1, int(spec.zone_w // max(highest, 1.0))))
    choices = range(1, min(MOST_BANKS, len(parts)) + 1) if spec.banks is None else [spec.banks]
    floors = [floor_of(spec, filling.rows, parts, banks, racks) for banks in choices]
    place = filling.rack, filling.unit
    total = [float(_metres(spec, one, place, a, b).sum()) for one in floors]
    good = [one for one, metres in zip(floors, total, strict=True) if metres <= NEARLY * min(total)]
    return min(good, key=Floor.area_m2)


def _remarks(filling: Filling, floor: Floor) -> Iterator[str]:
    spec, power = filling.spec, np.array(filling.power_w)
    each = float(filling.devices.power_w[0])
    if each > filling.limit_w:
        yield f"a server of {each / 1e3:.1f} kW is more than the {filling.limit_w / 1e3:g} kW of a rack"
    rows = np.bincount(floor.row, weights=power)
    for limit, key, words in ((spec.row_w, "row_power", "busways carry"), (spec.zone_w, "zone_power", "a zone has")):
        late = int(np.count_nonzero(rows > limit * (1 + 1e-9)))
        if late:
            yield (
                f"{late:,} of {len(rows):,} rows draw more than {words} ({rows.max() / 1e6:.2f} MW, `hall.{key}`"
                f" {limit / 1e6:g} MW)"
            )
