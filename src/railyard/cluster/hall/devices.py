"""Servers and switches of a cluster with their names, and the cables between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from railyard.cluster.modules import plugged_w
from railyard.cluster.names import ends_of, numbered, sockets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from railyard.catalog import Switch
    from railyard.cluster.machine import Cluster
    from railyard.cluster.plan import NetworkPlan


@dataclass(frozen=True, eq=False)
class Reach:
    """Servers below each device.

    Attributes:
        first, last: int64[devices], lowest and highest server below; `first > last` if there is none.
        mean: float64[devices], mean of the servers below, tier by tier; NaN if there is none.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    mean: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Segment:
    """Switches of a tier whose servers overlap.

    Attributes:
        switches: int64[], in the order of the middle of the servers below them.
    """

    first: int
    last: int
    switches: NDArray[np.int64]


def reach_of(devices: Devices, a: NDArray[np.int32], b: NDArray[np.int32]) -> Reach:
    """Servers below each device.

    Args:
        devices: Servers and switches.
        a: int32[cables], lower end of each.
        b: int32[cables], upper end of each.
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
    """Segments of a tier of a network by their servers; switches without servers count as reaching all."""
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


NETWORKS = {"back-end": "be", "front-end": "fe", "storage": "st"}
"""Prefixes of switch names, by network."""

HEIGHT_U = {1: 1, 2: 2, 4: 4, 8: 8}
"""Rack units of a server by its accelerators: HGX H100 8 U (vendor guide), a GB200 tray 1 U; others by analogy."""

CAGES_PER_U = 36
"""Maximum number of modules on the front of a rack unit: 32 to 36 OSFP or QSFP-DD on a 1 U switch, 64 on 2 U."""


STORAGE_U = 2
"""Rack units of a storage node or a host that lends memory, as for most NVMe appliances."""


@dataclass(frozen=True, eq=False)
class Devices:
    """One row per device; servers first, then storage, then switches network by network.

    Attributes:
        name: Unique names of letters, digits and hyphens.
        role: `server`, `storage`, `memory`, `leaf`, `spine`, `core`, `border`, `router`.
        network: Network of a switch; otherwise empty.
        level: 0 for servers, 1 next to them, ascending.
        height_u: int32[devices], rack units.
        power_w: float64[devices], maximum power with modules and active cables in its ports, for which racks and their
            cooling are designed.
        first: Row of the first switch of each network, by key of the cluster's plans.
    """

    name: list[str]
    role: NDArray[np.object_]
    network: NDArray[np.object_]
    box: NDArray[np.object_]
    level: NDArray[np.int8]
    height_u: NDArray[np.int32]
    power_w: NDArray[np.float64]
    first: dict[str, int]
    servers: int

    def __len__(self) -> int:
        return len(self.name)

    @property
    def server_w(self) -> float:
        """Most power of a server."""
        return float(self.power_w[: self.servers].max())


_Row: TypeAlias = tuple[list[str], str, str, str, int, int, float]
"""Names, role, network, box, level, height and power of devices of one kind."""


def devices_of(cluster: Cluster, plans: Mapping[str, NetworkPlan]) -> Devices:
    """All cabled devices, each with what is plugged into its ports.

    Args:
        cluster: The cluster.
        plans: The networks by name, with the cables to buy.
    """
    names = numbered("node", cluster.servers)
    rows: list[_Row] = [(names, "server", "", cluster.server.name, 0, server_units(cluster), _server_w(cluster))]
    rows += _stores(cluster)
    first: dict[str, int] = {}
    for key, plan in plans.items():
        first[key] = sum(len(row[0]) for row in rows)
        rows += _switches(plan)
    counts = [len(row[0]) for row in rows]
    kinds = (np.object_, np.object_, np.object_, np.int8, np.int32, np.float64)
    columns: Any = zip([*zip(*rows, strict=True)][1:], kinds, strict=True)
    role, network, box, level, height, power = (np.repeat(np.array(one, kind), counts) for one, kind in columns)
    every = [name for row in rows for name in row[0]]
    found = Devices(every, role, network, box, level, height, power, first, cluster.servers)
    for key, plan in plans.items():
        device, _ = _nodes(plan, found, key)
        used = device >= 0
        np.add.at(power, device[used], plugged_w(plan)[used])
    return found


def _server_w(cluster: Cluster) -> float:
    """Maximum power of a server with its accelerators, NICs and drives."""
    nics = sum(plan.nic.power_w.high * plan.nics for plan in cluster.plans.values())
    each, stored = cluster.accelerator.power_w.high * cluster.ranks_per_server, cluster.storage_servers
    drives = stored.entry.power_w.high * stored.count / cluster.servers if stored is not None and stored.local else 0.0
    return each + cluster.server.host_power_w.high + nics + drives


def _stores(cluster: Cluster) -> Iterator[_Row]:
    stored, pool = cluster.storage_servers, cluster.memory_pool
    if stored is not None and not stored.local:
        names = numbered("store", stored.count)
        yield names, "storage", "", stored.entry.name, 0, STORAGE_U, stored.entry.power_w.high
    if pool is not None and pool.entry is not None and cluster.pool_network is not None:
        yield numbered("memory", pool.units), "memory", "", pool.entry.name, 0, STORAGE_U, pool.entry.power_w.high


def _switches(plan: NetworkPlan) -> Iterator[_Row]:
    for group in plan.wiring.groups:
        part, box = group.part.replace(" ", "").lower(), plan.switches[group.box]
        stem = "-".join(word for word in (NETWORKS[plan.name], part, group.role) if word)
        names = numbered(stem, group.count)
        yield names, group.role, plan.name, group.box, group.tier, switch_units(box), box.power_w.high


def server_units(cluster: Cluster) -> int:
    """Rack units of a server."""
    return next((units for most, units in HEIGHT_U.items() if cluster.server.accelerators <= most), 10)


def switch_units(box: Switch) -> int:
    """Rack units of a switch: from the catalog, otherwise from its ports."""
    return box.height_u or max(1, math.ceil(max(box.ports, 1) / CAGES_PER_U))


def rack_limit_w(cluster: Cluster) -> float:
    """Cooling limit of a rack in its hall."""
    spec = cluster.spec.hall
    return spec.liquid_w if cluster.scale_up_domain // max(cluster.ranks_per_server, 1) > 1 else spec.air_w


def servers_per_rack(cluster: Cluster, watts: float) -> int:
    """Servers of a rack by height and power, each of `watts`: whole scale-up domains if one fits."""
    domain = max(cluster.scale_up_domain // max(cluster.ranks_per_server, 1), 1)
    by_power = int(rack_limit_w(cluster) // watts)
    fit = max(1, min(by_power, cluster.spec.hall.rack_units // server_units(cluster)))
    return fit // domain * domain or fit


@dataclass(frozen=True, eq=False)
class Cables:
    """One row per link in both directions, in the order of the networks; links of a cell fabric share a cable.

    Attributes:
        network: int8[links], in the order of the cluster's plans.
        ends: int32[links, 2], devices, the lower one first.
        port: int32[links, 2], from 1: of a server the NIC on that network, of a switch counted consecutively.
        cage, lane, lanes: int32[links, 2], see `Sockets`; a NIC is a whole cage.
        rate_bps: float64[links].
        tier: int16[links], counted over all networks.
        number: int32[links], physical cable within its tier, from 0.
        link: int64[links], first of its two links in the cluster's table.
    """

    network: NDArray[np.int8]
    ends: NDArray[np.int32]
    port: NDArray[np.int32]
    cage: NDArray[np.int32]
    lane: NDArray[np.int32]
    lanes: NDArray[np.int32]
    rate_bps: NDArray[np.float64]
    tier: NDArray[np.int16]
    number: NDArray[np.int32]
    link: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def a(self) -> NDArray[np.int32]:
        """int32[links], lower devices."""
        return self.ends[:, 0]

    @property
    def b(self) -> NDArray[np.int32]:
        """int32[links], upper devices."""
        return self.ends[:, 1]


def cables_between(cluster: Cluster, devices: Devices) -> Cables:
    """All cables between devices."""
    parts: list[tuple[NDArray[Any], ...]] = []
    tiers = 0
    for index, (key, plan) in enumerate(cluster.plans.items()):
        tier, node, found = plan.wiring.tier[0::2], ends_of(plan), sockets(plan)
        device, nic = _nodes(plan, devices, key)
        number = np.zeros(len(tier), np.int32)
        for own, run in enumerate(plan.runs):
            mine = tier == own
            number[mine] = np.arange(np.count_nonzero(mine)) // run.lanes
        host = node < plan.wiring.ports
        ends = (
            device[node],
            np.where(host, nic[node], found.number),
            np.where(host, nic[node], found.cage),
            np.where(host, 0, found.lane),
            np.where(host, 1, found.lanes),
        )
        first = next(network.link_offset for network in cluster.networks if network.name == plan.name)
        parts.append(
            (
                np.full(len(tier), index, np.int8),
                *(column.reshape(2, -1).T.astype(np.int32) for column in ends),
                plan.wiring.line_bps[0::2],
                (tier + tiers).astype(np.int16),
                number,
                first + 2 * np.arange(len(tier), dtype=np.int64),
            )
        )
        tiers += len(plan.runs)
    return Cables(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _nodes(plan: NetworkPlan, devices: Devices, key: str) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Device of each node of a network (-1: none), and the number of each port on its server, from 1."""
    wiring = plan.wiring
    device, nic = np.full(wiring.nodes, -1, np.int32), np.zeros(wiring.nodes, np.int32)
    for role, ports in (("server", wiring.port_of), ("storage", plan.storage_ports), ("memory", plan.pool_ports)):
        if ports.size:
            first = int(np.flatnonzero(devices.role == role)[0])
            device[ports] = first + np.arange(len(ports))[:, None]
            nic[ports] = np.arange(1, ports.shape[1] + 1)
    at = devices.first[key]
    for group in wiring.groups:
        device[group.first : group.first + group.count] = at + np.arange(group.count)
        at += group.count
    return device, nic
