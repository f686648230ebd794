"""A cluster in its hall: devices, links, racks, patch panels, and the lengths that are bought."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.hall.devices import Devices, Ends, devices_of, ends_of
from railyard.cluster.hall.racks import UNIT_M, Racks, bought, racks_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.hall.patching import Patching
    from railyard.cluster.machine import Cluster

CORD_SLACK_M = 0.5
"""Of a cord in its rack, besides the way between the two units: to the side and back."""


@dataclass(frozen=True, eq=False)
class Hall:
    """Where a cluster stands.

    Attributes:
        devices: Servers and switches.
        ends: Of all links.
        racks: Where devices stand, and panels.
    """

    devices: Devices
    ends: Ends
    racks: Racks


@lru_cache(1)
def hall_of(cluster: Cluster) -> Hall:
    """The hall of a cluster.

    Raises:
        InputError: Patch panels do not fit into the racks of what is patched.
    """
    devices = devices_of(cluster)
    ends = ends_of(cluster, devices)
    return Hall(devices, ends, racks_of(cluster, devices, ends))


def lengths(racks: Racks, ends: Ends) -> NDArray[np.float64]:
    """float64[links], as bought: of one cable, or of both cords and the trunk between."""
    metres = bought(racks.metres(ends.a, ends.b))
    one = racks.patching
    if one is None:
        return metres
    mine = np.flatnonzero(one.trunk >= 0)
    near = cords(racks, one, ends.a[mine], one.a_panel[mine])
    far = cords(racks, one, ends.b[mine], one.b_panel[mine])
    metres[mine] = near + trunks(racks, one)[one.trunk[mine]] + far
    return metres


def cords(racks: Racks, patching: Patching, device: NDArray[np.int32], panel: NDArray[np.int32]) -> NDArray[np.float64]:
    """float64[], as bought, of cords between devices and panels in their racks."""
    return bought(np.abs(racks.unit[device] - patching.panel_unit[panel]) * UNIT_M + CORD_SLACK_M)


def trunks(racks: Racks, patching: Patching) -> NDArray[np.float64]:
    """float64[trunks], as bought, over the trays from panel to panel."""
    a, b = patching.trunk_panels.T
    return bought(
        racks.between(
            (patching.panel_rack[a], patching.panel_unit[a]), (patching.panel_rack[b], patching.panel_unit[b])
        )
    )
