"""Structured cabling: trunks between the patch panels of two racks, and cords from panels to devices.

A link goes from its device by a cord to a panel in the same rack, by one leg of a trunk to a panel in the other rack,
and by a cord to the other device. A trunk belongs to one tier of one network; a panel can have trunks of any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.cluster.hall.devices import Cables
    from railyard.cluster.plan import NetworkPlan

PANEL = "panel-48"
"""The catalog's panel."""

FIBRES = ("fibre-mpo-12", "fibre-mpo-12-mm", "fibre-mpo-16", "fibre-duplex")
"""Fibers with trunks in the catalog, all with the same number of legs."""

CONNECTIONS = 2
"""Panel connections of a link: one at each end of its trunk. Those at the modules are not part of a channel (IEEE
802.3).
"""

MULTI_DB_PER_KM, SINGLE_DB_PER_KM = 3.5, 0.5
"""Loss in fiber: IEEE 802.3, tables 95-5 (OM4 at 850 nm) and 124-12 (cabled single-mode at 1,310 nm)."""


@dataclass(frozen=True, eq=False)
class Patching:
    """Panels and trunks of a hall.

    Attributes:
        trunk: int32[links], number of its trunk; -1 if a link goes directly from device to device.
        leg: int32[links], leg of the trunk, from 0.
        panel: int32[links, 2], panel in the rack of each end; -1: none.
        port: int32[links, 2], port on that panel, from 1; 0: none.
        trunk_tier: int32[trunks], tier, counted over all networks.
        trunk_panels: int32[trunks, 2], panels at its ends.
        trunk_first: int32[trunks, 2], port of its first leg at each end, from 1.
        panel_rack: int32[panels].
        panel_unit: int32[panels], rack unit, from 1.
        panel_number: int32[panels], in its rack, from 1.
        legs, ports: Legs per trunk and ports per panel.
    """

    trunk: NDArray[np.int32]
    leg: NDArray[np.int32]
    panel: NDArray[np.int32]
    port: NDArray[np.int32]
    trunk_tier: NDArray[np.int32]
    trunk_panels: NDArray[np.int32]
    trunk_first: NDArray[np.int32]
    panel_rack: NDArray[np.int32]
    panel_unit: NDArray[np.int32]
    panel_number: NDArray[np.int32]
    legs: int
    ports: int
    shortage: int


def trunk_of(fibre: str) -> str:
    """Catalog name of the trunk of a fiber."""
    return fibre.replace("fibre-", "trunk-", 1)


def lost_db_per_m(fibre: str) -> float:
    """Loss in a fiber of the catalog, dB/m; names of multi-mode fibers end in `-mm`."""
    return (MULTI_DB_PER_KM if fibre.endswith("-mm") else SINGLE_DB_PER_KM) / 1000


def wanted(plans: Mapping[str, NetworkPlan], ends: Cables) -> NDArray[np.bool_]:
    """bool[links], whether a link should go through panels, wherever its ends are.

    Raises:
        InputError: Several links share one cable that leads to several devices.
    """
    tiers = []
    for key, plan in plans.items():
        for tier, run in zip(plan.wiring.tiers, plan.runs, strict=True):
            which = plan.spec.patch_panels
            asked = which == "all" or (which == "switches" and tier.kind != "access")
            if asked and run.lanes > 1:
                raise InputError(
                    f"cables of {tier.name} are broken out to {run.lanes} links each, which no panel does",
                    key=f"{key}.patch_panels",
                    found=which,
                    allowed="none",
                )
            tiers.append(asked and tier.kind != "long" and run.fibre is not None and run.fibre.name in FIBRES)
    chosen: NDArray[np.bool_] = np.array(tiers, np.bool_)[ends.tier]
    return chosen


def patched(
    links: NDArray[np.bool_], ends: Cables, rack: NDArray[np.int32], free: list[list[int]], sizes: tuple[int, int]
) -> Patching:
    """Trunks between all pairs of racks with links, and panels for them.

    Args:
        links: bool[links], links to patch; those within a rack still go directly from device to device.
        ends: Ends of all links.
        rack: int32[devices].
        free: Free units of each rack, highest first.
        sizes: Legs per trunk, ports per panel.
    """
    legs, ports = sizes
    racks = rack[ends.ends]
    mine = np.flatnonzero(links & (racks[:, 0] != racks[:, 1]))
    key = np.stack([*np.sort(racks[mine], axis=1).T, ends.tier[mine], ends.number[mine]])
    cables, cable = np.unique(key, axis=1, return_inverse=True)
    cable = cable.ravel()
    place, trunk_of_cable = _bundled(cables, legs)
    leg_of_cable = place % legs
    trunks = int(trunk_of_cable.max(initial=-1)) + 1
    first = np.searchsorted(trunk_of_cable, np.arange(trunks))
    sides = cables[:2, first].T.astype(np.int32).reshape(-1, 2)
    panels = _panels(sides, (legs, ports), free)
    trunk, leg = trunk_of_cable[cable], leg_of_cable[cable]
    side = (racks[mine] != sides[trunk, :1]).astype(int)
    out = {
        "trunk": trunk,
        "leg": leg,
        "panel": panels.of_trunk[trunk[:, None], side],
        "port": panels.first[trunk[:, None], side] + leg[:, None],
    }
    tier = cables[2, first].astype(np.int32)
    return Patching(
        **{name: _spread(values, mine, len(ends), 0 if name == "port" else -1) for name, values in out.items()},
        trunk_tier=tier, trunk_panels=panels.of_trunk, trunk_first=panels.first, panel_rack=panels.rack,
        panel_unit=panels.unit, panel_number=panels.number, legs=legs, ports=ports, shortage=panels.shortage,
    )  # fmt: skip


def _spread(values: NDArray[np.int64], rows: NDArray[np.int64], count: int, absent: int) -> NDArray[np.int32]:
    out = np.full((count, *values.shape[1:]), absent, np.int32)
    out[rows] = values
    return out


def _bundled(cables: NDArray[np.int64], legs: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index of each cable among those of its rack pair and tier, and its trunk; cables are in order."""
    count = cables.shape[1]
    new = np.ones(count, np.bool_)
    new[1:] = (cables[:3, 1:] != cables[:3, :-1]).any(axis=0)
    start = np.maximum.accumulate(np.where(new, np.arange(count), 0))
    place = np.arange(count) - start
    return place, np.cumsum(place % legs == 0) - 1


@dataclass(frozen=True, eq=False)
class _Panels:
    of_trunk: NDArray[np.int32]
    first: NDArray[np.int32]
    rack: NDArray[np.int32]
    unit: NDArray[np.int32]
    number: NDArray[np.int32]
    shortage: int


def _panels(sides: NDArray[np.int32], sizes: tuple[int, int], free: list[list[int]]) -> _Panels:
    """Panels of each rack in the order of its trunks; `sides` int32[trunks, 2] are the racks of their ends."""
    trunks, legs, trunks_each = len(sides), sizes[0], max(sizes[1] // sizes[0], 1)
    rack = sides.T.ravel()
    order = np.lexsort((np.arange(2 * trunks), rack))
    sorted_rack = rack[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = sorted_rack[1:] != sorted_rack[:-1]
    start = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    inside = np.arange(len(order)) - start
    panel = np.cumsum(inside % trunks_each == 0) - 1
    of_trunk, first = np.empty(2 * trunks, np.int32), np.empty(2 * trunks, np.int32)
    of_trunk[order] = panel
    first[order] = inside % trunks_each * legs + 1
    begin = np.searchsorted(panel, np.arange(int(panel.max(initial=-1)) + 1))
    panel_rack, number = sorted_rack[begin], inside[begin] // trunks_each + 1
    unit, lacking = np.ones(len(begin), np.int32), 0
    for at, (one, ordinal) in enumerate(zip(panel_rack.tolist(), number.tolist(), strict=True)):
        if ordinal <= len(free[one]):
            unit[at] = free[one][ordinal - 1]
        else:
            lacking = max(lacking, ordinal - len(free[one]))
    both = of_trunk.reshape(2, trunks).T, first.reshape(2, trunks).T
    return _Panels(both[0], both[1], panel_rack, unit, number.astype(np.int32), lacking)
