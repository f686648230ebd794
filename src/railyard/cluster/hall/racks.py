"""A cluster in its hall: racks, patch panels, standard cable lengths, and distances between devices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.hall.devices import Cables, Devices, cables_between, devices_of, reach_of, segments_of
from railyard.cluster.hall.patching import FIBRES, PANEL, Patching, patched, trunk_of, wanted
from railyard.cluster.hall.rows import (
    MOST_BANKS,
    NEARLY,
    Filling,
    Floor,
    RackRow,
    floor_of,
    network_rows,
    rows_together,
    server_rows,
    zones_of,
)
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.cluster.hall.devices import Reach, Segment
    from railyard.cluster.hall.patching import Patching
    from railyard.cluster.hall.spec import HallSpec
    from railyard.cluster.machine import Cluster
    from railyard.cluster.plan import NetworkPlan


UNIT_M = 0.04445
"""Height of a rack unit (EIA-310)."""

Place = tuple["NDArray[np.int32]", "NDArray[np.int32]"]
"""Racks and units."""

LENGTHS_M = np.array(
    [0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 25, 30, 35, 40, 50, 60, 75, 100, 125, 150, 200, 250, 300, 400, 500]
)
"""Standard cable lengths."""


@dataclass(frozen=True, eq=False)
class Racks:
    """Where devices are installed.

    Attributes:
        rack: int32[devices].
        unit: int32[devices], lowest rack unit, from 1.
        power_w: float64[racks], power of the devices in each rack.
        patching: Panels and trunks; None if nothing is patched.
        remarks: Violations of limits, in words.
    """

    rack: NDArray[np.int32]
    unit: NDArray[np.int32]
    power_w: NDArray[np.float64]
    floor: Floor
    spec: HallSpec
    patching: Patching | None = None
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.power_w)

    def names(self) -> list[str]:
        """`A01`: the row in letters, the column in digits."""
        places = zip(self.floor.row.tolist(), self.floor.column.tolist(), strict=True)
        return [f"{_letters(row)}{column + 1:02d}" for row, column in places]

    def metres(self, a: NDArray[np.int32], b: NDArray[np.int32]) -> NDArray[np.float64]:
        """float64[], shortest cable path between devices, over the trays if they are in different racks, with slack."""
        return self.between((self.rack[a], self.unit[a]), (self.rack[b], self.unit[b]))

    def between(self, a: Place, b: Place) -> NDArray[np.float64]:
        """float64[], the same between places given by rack and unit."""
        return _metres(self.spec, self.floor, a, b)


def _metres(spec: HallSpec, floor: Floor, a: Place, b: Place) -> NDArray[np.float64]:
    """Trays run along the rows and across them above the racks, so paths are right-angled."""
    (one, unit), (other, far) = a, b
    along = np.abs(floor.x_m[one] - floor.x_m[other])
    across = np.abs(floor.y_m[one] - floor.y_m[other])
    up = 2 * spec.tray_m - (unit + far) * UNIT_M
    inside = np.abs(unit - far) * UNIT_M + 0.5
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
    """The next standard length; longer cables in whole meters."""
    at = np.searchsorted(LENGTHS_M, metres * (1 - 1e-9))
    return np.where(at < len(LENGTHS_M), LENGTHS_M[np.minimum(at, len(LENGTHS_M) - 1)], np.ceil(metres))


def racks_of(cluster: Cluster, devices: Devices, ends: Cables) -> Racks:
    """Devices in racks, racks in rows, and rows in as many banks as minimize the cable lengths.

    Raises:
        InputError: A device is taller than a rack, or patch panels do not fit next to patched devices.
    """
    highest, tall = int(devices.height_u.max(initial=0)), cluster.spec.hall.rack_units
    if highest > tall:
        box = devices.box[int(np.argmax(devices.height_u))]
        raise InputError(
            f"{box} is higher than a rack", key="hall.rack_units", found=tall, allowed=f"{highest} or more"
        )
    links = wanted(purchased(cluster), ends)
    reserve = 0
    while True:
        racks = _laid_out(cluster, devices, ends, links, reserve)
        if racks.patching is None or not racks.patching.shortage:
            return racks
        reserve += racks.patching.shortage
        if reserve >= cluster.spec.hall.network_units:
            raise InputError(
                "the patch panels of a switch do not fit into its rack",
                key="back_end.patch_panels",
                found=f"{racks.patching.shortage} units too few in a rack of {cluster.spec.hall.rack_units}",
                allowed="higher racks, or `none`",
            )


def _laid_out(cluster: Cluster, devices: Devices, ends: Cables, links: NDArray[np.bool_], reserve: int) -> Racks:
    """One layout that reserves extra units of each rack for panels, in addition to those of its own ports."""
    spec = cluster.spec.hall
    domain = max(cluster.scale_up_domain // max(cluster.ranks_per_server, 1), 1)
    limit = spec.liquid_w if domain > 1 else spec.air_w
    panel = cluster.catalog.cable(PANEL).ports
    count = len(devices)
    ports = np.bincount(ends.a[links], minlength=count) + np.bincount(ends.b[links], minlength=count)
    place = np.full(count, -1, np.int32), np.ones(count, np.int32)
    filling = Filling(spec, devices, limit, ports, panel, reserve, *place)
    each = _fit(filling, domain)
    starts = range(0, devices.servers, each)
    servers = [filling.pack(range(at, min(at + each, devices.servers)), spec.rack_units)[0] for at in starts]
    tiers = _tiers(devices, reach_of(devices, ends.a, ends.b))
    server_rows(filling, servers, each, [next(iter(networks.values())) for networks in tiers if networks])
    for networks in tiers:
        network_rows(filling, [one for segments in networks.values() for one in segments])
    others = np.flatnonzero((devices.level == 0) & (np.arange(count) >= devices.servers))
    apart = filling.pack(others.tolist(), spec.rack_units)
    for at in range(0, len(apart), spec.row_racks):
        filling.rows.append(RackRow(apart[at : at + spec.row_racks], (devices.servers, devices.servers)))
    floor = _shortest(filling, ends.a, ends.b)
    power = np.array(filling.power_w)
    floor = replace(floor, zone=zones_of(spec, floor, power))
    patching = None
    if links.any():
        legs = cluster.catalog.cable(trunk_of(FIBRES[0])).ports
        patching = patched(links, ends, filling.rack, _free(filling), (legs, panel))
    return Racks(filling.rack, filling.unit, power, floor, spec, patching, tuple(_remarks(filling, floor)))


def _free(filling: Filling) -> list[list[int]]:
    tall = filling.spec.rack_units
    taken: list[set[int]] = [set() for _ in filling.power_w]
    columns = filling.rack.tolist(), filling.unit.tolist(), filling.devices.height_u.tolist()
    for rack, unit, height in zip(*columns, strict=True):
        taken[rack].update(range(unit, unit + height))
    return [[unit for unit in range(tall, 0, -1) if unit not in one] for one in taken]


def _fit(filling: Filling, domain: int) -> int:
    """Servers per rack: whole scale-up domains if one fits."""
    watts, height = filling.devices.server_w, int(filling.devices.height_u[0])
    fit = max(1, min(int(filling.limit_w // watts), (filling.spec.rack_units - filling.reserve) // height))
    while fit > 1 and fit * height + filling.panels_for(fit * int(filling.panels[0])) > filling.spec.rack_units:
        fit -= 1
    return fit // domain * domain or fit


def _tiers(devices: Devices, reach: Reach) -> list[dict[str, list[Segment]]]:
    """Segments of switches by tier, and by network within each, starting with the back-end."""
    networks = list(dict.fromkeys(devices.network[devices.level > 0].tolist()))
    return [
        {network: found for network in networks if (found := segments_of(devices, reach, level, network))}
        for level in range(1, int(devices.level.max(initial=0)) + 1)
    ]


def _shortest(filling: Filling, a: NDArray[np.int32], b: NDArray[np.int32]) -> Floor:
    """The requested number of banks; otherwise the one with the shortest cables, or nearly so in a smaller hall."""
    spec, racks = filling.spec, len(filling.power_w)
    highest = max((filling.watts(row) for row in filling.rows), default=1.0)
    parts = rows_together(filling, max(1, int(spec.zone_w // max(highest, 1.0))))
    choices = range(1, min(MOST_BANKS, len(parts)) + 1) if spec.banks is None else [spec.banks]
    floors = [floor_of(spec, filling.rows, parts, banks, racks) for banks in choices]
    near, far = (filling.rack[a], filling.unit[a]), (filling.rack[b], filling.unit[b])
    total = [float(_metres(spec, one, near, far).sum()) for one in floors]
    good = [one for one, metres in zip(floors, total, strict=True) if metres <= NEARLY * min(total)]
    return min(good, key=Floor.area_m2)


def _remarks(filling: Filling, floor: Floor) -> Iterator[str]:
    spec, power = filling.spec, np.array(filling.power_w)
    each = filling.devices.server_w
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


CORD_SLACK_M = 0.5
"""Slack of a cord within its rack, in addition to the distance between the two units: to the side and back."""


@dataclass(frozen=True, eq=False)
class Hall:
    """The hall of a cluster."""

    devices: Devices
    cables: Cables
    racks: Racks


@lru_cache(1)
def purchased(cluster: Cluster) -> dict[str, NetworkPlan]:
    """The networks of a cluster with the cables that are bought: each tier's reaches the longest of its routes.

    Routes are those of direct cables. `NetworkPlan.reaching` says what a scenario's own lengths mean.
    """
    plans = cluster.plans
    devices = devices_of(cluster, plans)
    cables = cables_between(cluster, devices)
    racks = _laid_out(cluster, devices, cables, np.zeros(len(cables), np.bool_), 0)
    longest = np.zeros(sum(len(plan.runs) for plan in plans.values()))
    np.maximum.at(longest, cables.tier, bought(racks.metres(cables.a, cables.b)))
    found, first = {}, 0
    for key, plan in plans.items():
        found[key] = plan.reaching(cluster.catalog, longest[first : first + len(plan.runs)].tolist())
        first += len(plan.runs)
    return found


@lru_cache(1)
def hall_of(cluster: Cluster) -> Hall:
    """Lays out the hall of a cluster.

    Raises:
        InputError: Patch panels do not fit into the racks of patched devices.
    """
    devices = devices_of(cluster, purchased(cluster))
    cables = cables_between(cluster, devices)
    return Hall(devices, cables, racks_of(cluster, devices, cables))


def lengths(racks: Racks, ends: Cables) -> NDArray[np.float64]:
    """float64[links], purchased lengths: of one cable, or of both cords and the trunk."""
    metres = bought(racks.metres(ends.a, ends.b))
    one = racks.patching
    if one is None:
        return metres
    mine = np.flatnonzero(one.trunk >= 0)
    metres[mine] = cords(racks, one, ends.ends[mine], one.panel[mine]).sum(axis=1) + trunks(racks, one)[one.trunk[mine]]
    return metres


def cords(racks: Racks, patching: Patching, device: NDArray[np.int32], panel: NDArray[np.int32]) -> NDArray[np.float64]:
    """float64[], purchased lengths of cords between devices and panels in their racks."""
    return bought(np.abs(racks.unit[device] - patching.panel_unit[panel]) * UNIT_M + CORD_SLACK_M)


def trunks(racks: Racks, patching: Patching) -> NDArray[np.float64]:
    """float64[trunks], purchased lengths over the trays from panel to panel."""
    a, b = patching.trunk_panels.T
    return bought(
        racks.between(
            (patching.panel_rack[a], patching.panel_unit[a]), (patching.panel_rack[b], patching.panel_unit[b])
        )
    )
