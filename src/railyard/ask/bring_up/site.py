"""A plan as racks that are built one after another, and what each needs before it earns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.ask.deploy.plan.cabling import Plan


@dataclass(frozen=True, eq=False)
class Site:
    """Racks of a plan.

    Attributes:
        servers: int64[racks], servers that stand in each.
        accelerators: Of a server.
        cables: int64[racks], cables whose lower end is in each: who builds the rack pulls them.
        level: int64[racks], highest tier of what stands there: 0 of servers and storage.
        near: Of each rack the others whose switches its servers are cabled to: without them no burn-in.
        far: Of each rack those whose switches these lead to: without them no job beyond a leaf.
        place: int64[racks], order in the hall, row by row.
    """

    servers: NDArray[np.int64]
    accelerators: int
    cables: NDArray[np.int64]
    level: NDArray[np.int64]
    near: tuple[tuple[int, ...], ...]
    far: tuple[tuple[int, ...], ...]
    place: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.servers)


def site_of(plan: Plan) -> Site:
    """The racks of a plan."""
    racks, rows, level = plan.racks, plan.cables, plan.devices.level.astype(np.int64)
    count = len(racks)
    a, b = racks.rack[rows.a], racks.rack[rows.b]
    highest = np.zeros(count, np.int64)
    np.maximum.at(highest, racks.rack, level)
    own = level[rows.a] == 0
    near = _joined(count, a[own], b[own])
    above = _joined(count, a[~own], b[~own])
    place = np.empty(count, np.int64)
    place[np.lexsort((racks.floor.column, racks.floor.row))] = np.arange(count)
    return Site(
        servers=np.bincount(racks.rack[: plan.devices.servers], minlength=count),
        accelerators=plan.cluster.ranks_per_server,
        cables=np.bincount(a, minlength=count),
        level=highest,
        near=near,
        far=tuple(tuple({far for one in those for far in above[one]} - set(those)) for those in near),
        place=place,
    )


def _joined(count: int, a: NDArray[np.int32], b: NDArray[np.int32]) -> tuple[tuple[int, ...], ...]:
    """Of each rack the other racks that cables lead to from it."""
    found: list[list[int]] = [[] for _ in range(count)]
    pairs = np.unique(np.stack([a, b])[:, a != b], axis=1)
    for one, other in pairs.T.tolist():
        found[one].append(other)
    return tuple(map(tuple, found))


def order_of(site: Site, name: str) -> list[int]:
    """Racks in the order in which they are built.

    Args:
        site: The racks.
        name: `blocks`, `network-first`, `rows` or `servers-first`.
    """
    place, network = site.place.tolist(), (site.servers == 0).tolist()
    racks = range(len(site))
    if name == "rows":
        return sorted(racks, key=place.__getitem__)
    if name in ("network-first", "servers-first"):
        first = name == "network-first"
        return sorted(racks, key=lambda rack: (network[rack] != first, -site.level[rack], place[rack]))
    return _blocks(site, sorted((rack for rack in racks if not network[rack]), key=place.__getitem__))


def _blocks(site: Site, servers: Sequence[int]) -> list[int]:
    """Before each rack of servers what it needs and is not there yet; racks that nothing needs come last."""
    out: dict[int, None] = {}
    for rack in servers:
        needed = (*site.far[rack], *site.near[rack])
        out |= dict.fromkeys(sorted(needed, key=lambda one: (-site.level[one], site.place[one])))
        out[rack] = None
    out |= dict.fromkeys(sorted(range(len(site)), key=site.place.__getitem__))
    return list(out)
