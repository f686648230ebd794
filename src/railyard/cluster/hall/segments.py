"""Which servers each switch serves, tier by tier, and which switches serve the same stretch of servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.hall.devices import Devices


@dataclass(frozen=True, eq=False)
class Reach:
    """Servers below each device.

    Attributes:
        first, last: int64[devices], lowest and highest server below; `first > last` where there is none.
        mean: float64[devices], of the servers below, tier by tier; nan where there is none.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    mean: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Segment:
    """Switches of a tier whose servers overlap.

    Attributes:
        first, last: Servers that they reach.
        switches: int64[], in the order of the middle of what each serves.
    """

    first: int
    last: int
    switches: NDArray[np.int64]


def reach_of(devices: Devices, a: NDArray[np.int32], b: NDArray[np.int32]) -> Reach:
    """What is below each device.

    Args:
        devices: Servers and switches.
        a: int32[cables], lower end of each.
        b: int32[cables], upper end.
    """
    count = len(devices)
    mean = np.full(count, np.nan)
    first, last = np.full(count, count, np.int64), np.full(count, -1, np.int64)
    servers = np.arange(devices.servers)
    mean[servers], first[servers], last[servers] = servers, servers, servers
    for level in range(1, int(devices.level.max(initial=0)) + 1):
        mine = (devices.level[b] == level) & ~np.isnan(mean[a])
        np.minimum.at(first, b[mine], first[a[mine]])
        np.maximum.at(last, b[mine], last[a[mine]])
        cables = np.bincount(b[mine], minlength=count)
        total = np.bincount(b[mine], weights=mean[a[mine]], minlength=count)
        known = (cables > 0) & (devices.level == level)
        mean[known] = total[known] / cables[known]
    return Reach(first, last, mean)


def segments_of(devices: Devices, reach: Reach, level: int, network: str) -> list[Segment]:
    """Of a tier of a network, by their servers; switches that reach none are as if they reached all."""
    tier = (devices.level == level) & (devices.network == network)
    mine, rest = np.flatnonzero(tier & (reach.first <= reach.last)), np.flatnonzero(tier & (reach.first > reach.last))
    mine = mine[np.lexsort((mine, reach.mean[mine], reach.first[mine]))]
    furthest = np.maximum.accumulate(reach.last[mine])
    starts = [at for at in range(len(mine)) if at == 0 or reach.first[mine[at]] > furthest[at - 1]]
    out = []
    for begin, end in zip(starts, [*starts[1:], len(mine)], strict=False):
        part = mine[begin:end]
        ordered = part[np.lexsort((part, reach.mean[part]))]
        out.append(Segment(int(reach.first[part[0]]), int(furthest[end - 1]), ordered))
    if len(rest):
        out.append(Segment(0, devices.servers - 1, rest))
    return out
