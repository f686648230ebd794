"""Puts scale-up, networks, storage devices and bundles into one link table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.bundle import fold
from railyard.cluster.links import LinkTable
from railyard.cluster.machine import Cluster, StorageServers
from railyard.cluster.network import Network
from railyard.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from railyard.catalog import Catalog, Storage
    from railyard.cluster.bundle import Bundles
    from railyard.cluster.hardware import Hardware
    from railyard.cluster.plan import NetworkPlan
    from railyard.cluster.spec import Background, ClusterSpec


@dataclass
class _Rows:
    """Links collected block by block."""

    blocks: list[
        tuple[
            NDArray[np.float64],
            NDArray[np.float64],
            NDArray[np.int64],
            NDArray[np.int16],
            NDArray[np.int64],
            NDArray[np.int64],
        ]
    ] = field(default_factory=list)
    tiers: list[str] = field(default_factory=list)
    count: int = 0

    def add(
        self,
        rate_bps: NDArray[np.float64],
        line_bps: NDArray[np.float64],
        latency_ps: ArrayLike,
        tier: ArrayLike,
        source: NDArray[np.int64],
        target: NDArray[np.int64],
    ) -> int:
        """Adds a block; returns the id of its first link."""
        first, size = self.count, len(rate_bps)
        latency = np.broadcast_to(np.asarray(latency_ps, np.int64), (size,))
        self.blocks.append(
            (rate_bps, line_bps, latency, np.broadcast_to(np.asarray(tier, np.int16), (size,)), source, target)
        )
        self.count += size
        return first

    def table(self, bundle_of: NDArray[np.int32]) -> LinkTable:
        rate, line, latency, tier, source, target = (
            np.concatenate([block[part] for block in self.blocks]) for part in range(6)
        )
        return LinkTable(
            rate, line, latency, tier, source.astype(np.int32), target.astype(np.int32), tuple(self.tiers), bundle_of
        )


@dataclass(frozen=True)
class _Placed:
    """A plan with its place in the tables."""

    plan: NetworkPlan
    bundles: Bundles | None
    node_offset: int
    link_offset: int
    first_tier: int


def assemble(
    spec: ClusterSpec, catalog: Catalog, hardware: Hardware, plans: dict[str, NetworkPlan], storage: Storage | None
) -> Cluster:
    """The cluster from its plans."""
    rows = _Rows()
    scale_up = hardware.scale_up
    rates = scale_up.rates_bps()
    rows.tiers.append("scale-up")
    source, target = scale_up.ends(hardware.ranks)
    rows.add(
        rates,
        rates,
        scale_up.latency_ps // 2 if scale_up.kind == "switched" else scale_up.latency_ps,
        0,
        source,
        target,
    )
    nodes = hardware.ranks + scale_up.switches
    placed: dict[str, _Placed] = {}
    taken = _background(spec, plans)
    for key, plan in plans.items():
        placed[key] = _place(rows, plan, nodes, taken)
        nodes += plan.wiring.nodes
    servers = _storage_rows(rows, spec, storage, placed, nodes, hardware)
    bundle_of, first_bundle = _bundle_rows(rows, placed)
    links = rows.table(bundle_of)
    links.with_bundles(links.rate_bps)
    links.with_bundles(links.line_bps)
    networks = {key: _network(item, links, first_bundle[key]) for key, item in placed.items()}
    return Cluster(
        spec=spec,
        ranks=hardware.ranks,
        servers=hardware.servers,
        ranks_per_server=hardware.per_server,
        scale_up_domain=scale_up.domain,
        accelerator=hardware.accelerator,
        server=hardware.server,
        nic=hardware.nic,
        links=links,
        back_end=networks["back_end"],
        front_end=networks.get("front_end"),
        storage=_storage_network(networks, placed),
        storage_servers=servers,
        scale_up=scale_up,
        hardware=hardware,
        plans=plans,
        catalog=catalog,
        nodes=nodes + (servers.count if servers is not None else 0),
    )


def _background(spec: ClusterSpec, plans: dict[str, NetworkPlan]) -> dict[tuple[str, str], float]:
    """Share of capacity left, by network and tier."""
    left: dict[tuple[str, str], float] = {}
    for index, item in enumerate(spec.background):
        key = f"background[{index}]"
        plan = plans.get(item.network)
        if plan is None:
            raise InputError("there is no such network", key=f"{key}.network", found=item.network, allowed=list(plans))
        if not 0 <= item.load < 1:
            raise InputError("a load is at least 0 and less than 1", key=f"{key}.load", found=item.load)
        for name in _tiers_of(item, plan, key):
            left[plan.name, name] = left.get((plan.name, name), 1.0) * (1.0 - item.load)
    return left


def _tiers_of(item: Background, plan: NetworkPlan, key: str) -> list[str]:
    names = [tier.name for tier in plan.wiring.tiers]
    if item.tier is None:
        return [tier.name for tier in plan.wiring.tiers if tier.kind != "access"] or names
    if item.tier not in names:
        raise InputError("there is no such tier", key=f"{key}.tier", found=item.tier, allowed=names)
    return [item.tier]


def _place(rows: _Rows, plan: NetworkPlan, nodes: int, left: dict[tuple[str, str], float]) -> _Placed:
    wiring, fabric = plan.wiring, plan.fabric
    first_tier = len(rows.tiers)
    prefix = "" if plan.name == "back-end" else f"{plan.name} "
    rows.tiers += [prefix + tier.name for tier in wiring.tiers]
    share = np.array(
        [
            left.get((plan.name, tier.name), 1.0) * (1.0 if tier.kind == "access" else fabric.fabric_efficiency)
            for tier in wiring.tiers
        ]
    )
    rate = wiring.line_bps * share[wiring.tier] * _usable(plan)
    delay = np.array([run.delay_ps for run in plan.runs], np.int64)[wiring.tier]
    switched = (wiring.target >= wiring.ports) | (wiring.source < wiring.ports)
    latency = delay + np.where(switched, fabric.hop_latency_ps, 0)
    link_offset = rows.add(
        rate,
        wiring.line_bps,
        latency,
        first_tier + wiring.tier,
        wiring.source.astype(np.int64) + nodes,
        wiring.target.astype(np.int64) + nodes,
    )
    return _Placed(plan, fold(wiring) if fabric.bundled else None, nodes, link_offset, first_tier)


def _usable(plan: NetworkPlan) -> NDArray[np.float64]:
    """float64[links], what the NIC at an end can use of a link; 1 between switches and at storage servers."""
    wiring = plan.wiring
    factor = np.ones(wiring.nodes)
    factor[wiring.port_of.ravel()] = plan.usable
    return np.minimum(factor[wiring.source], factor[wiring.target])


def _storage_rows(
    rows: _Rows,
    spec: ClusterSpec,
    storage: Storage | None,
    placed: dict[str, _Placed],
    first_node: int,
    hardware: Hardware,
) -> StorageServers | None:
    """One link out of every storage device for reads and one into it for writes."""
    if storage is None or spec.storage is None:
        return None
    home = next((item for item in placed.values() if item.plan.storage_ports.size), None)
    local = home is None
    count = hardware.servers if local else spec.storage.servers
    device = first_node + np.arange(count)
    if home is None:
        ports, gate = np.empty((count, 0), np.int32), np.arange(count) * hardware.per_server
    else:
        ports = home.plan.storage_ports
        gate = ports[:, 0].astype(np.int64) + home.node_offset
    rows.tiers += ["storage read", "storage write"]
    tier = len(rows.tiers) - 2
    read, write = np.full(count, storage.read_bps), np.full(count, storage.write_bps)
    first_read = rows.add(read, read, 0, tier, device, gate)
    first_write = rows.add(write, write, 0, tier + 1, gate, device)
    number = np.arange(count, dtype=np.int32)
    return StorageServers(storage, count, local, ports, number + first_read, number + first_write)


def _bundle_rows(rows: _Rows, placed: dict[str, _Placed]) -> tuple[NDArray[np.int32], dict[str, int]]:
    """Adds the bundles of all networks; their rates follow when the table stands."""
    physical = rows.count
    bundle_of = np.full(physical, -1, np.int32)
    first: dict[str, int] = {}
    for key, item in placed.items():
        first[key] = rows.count
        if item.bundles is None:
            continue
        member = item.bundles.bundle_of
        span = bundle_of[item.link_offset : item.link_offset + len(member)]
        span[:] = np.where(member >= 0, member + rows.count, -1)
        sample = item.bundles.sample
        wiring = item.plan.wiring
        block = next(block for start, block in _starts(rows) if start == item.link_offset)
        zero = np.zeros(len(sample))
        rows.add(
            zero,
            zero.copy(),
            block[2][sample],
            item.first_tier + wiring.tier[sample],
            block[4][sample],
            block[5][sample],
        )
    return bundle_of, first


def _starts(rows: _Rows):  # type: ignore[no-untyped-def]
    start = 0
    for block in rows.blocks:
        yield start, block
        start += len(block[0])


def _network(item: _Placed, links: LinkTable, first_bundle: int) -> Network:
    plan = item.plan
    return Network(
        name=plan.name,
        topology=plan.spec.topology.kind,
        wiring=plan.wiring,
        fabric=plan.fabric,
        port_of_rank=plan.port_of_rank,
        extra_ports=plan.wiring.extra,
        node_offset=item.node_offset,
        link_offset=item.link_offset,
        bundle_offset=first_bundle,
        bundles=item.bundles,
        link_latency_ps=links.latency_ps,
        seed=plan.spec.seed,
    )


def _storage_network(networks: dict[str, Network], placed: dict[str, _Placed]) -> Network | None:
    home = next((key for key, item in placed.items() if item.plan.storage_ports.size), None)
    return None if home is None else networks[home]
