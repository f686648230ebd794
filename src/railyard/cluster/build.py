"""Builds a cluster from its spec."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.boxes import fold
from railyard.cluster.credits import credit_bps
from railyard.cluster.hardware import Hardware
from railyard.cluster.links import LinkTable
from railyard.cluster.machine import Cluster, StorageServers
from railyard.cluster.management import check as check_management
from railyard.cluster.memory_pool import TIERS, PooledMemory, host_rates, plan_pool
from railyard.cluster.network import Network
from railyard.cluster.ocs import cubes_of
from railyard.cluster.placement import place
from railyard.cluster.plan import plan_networks
from railyard.cluster.spec import PACKED
from railyard.cluster.topology.wiring import ACCESS_CROSSBAR
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from railyard.catalog import Catalog, Storage
    from railyard.cluster.boxes import Bundles
    from railyard.cluster.hardware import ScaleUp
    from railyard.cluster.links import Integers
    from railyard.cluster.memory_pool import PoolPlan
    from railyard.cluster.plan import NetworkPlan
    from railyard.cluster.spec import Background, ClusterSpec, Placement


@dataclass(frozen=True, kw_only=True)
class _Block:
    """Links with a common origin; columns as in `LinkTable`, with scalars broadcast."""

    rate_bps: NDArray[np.float64]
    line_bps: NDArray[np.float64]
    latency_ps: ArrayLike
    tier: ArrayLike
    source: Integers
    target: Integers
    reach_bps: ArrayLike = np.inf

    def column(self, name: str) -> NDArray[Any]:
        return np.broadcast_to(np.asarray(getattr(self, name)), self.rate_bps.shape)


@dataclass
class _Rows:
    blocks: list[_Block] = field(default_factory=list)
    tiers: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, block: _Block) -> int:
        """Adds a block; returns the id of its first link."""
        first = self.count
        self.blocks.append(block)
        self.count += len(block.rate_bps)
        return first

    def table(
        self, bundle_of: NDArray[np.int32], moved: NDArray[np.float64], remaining_efficiency: NDArray[np.float64]
    ) -> LinkTable:

        def column(name: str, kind: type[np.generic]) -> NDArray[Any]:
            return np.concatenate([block.column(name) for block in self.blocks]).astype(kind)

        return LinkTable(
            rate_bps=np.minimum(column("rate_bps", np.float64), column("reach_bps", np.float64)),
            line_bps=column("line_bps", np.float64),
            free_bps=column("rate_bps", np.float64),
            reach_bps=column("reach_bps", np.float64),
            latency_ps=column("latency_ps", np.int64),
            tier=column("tier", np.int16),
            source=column("source", np.int32),
            target=column("target", np.int32),
            tiers=tuple(self.tiers),
            bundle_of=bundle_of,
            moved=moved,
            remaining_efficiency=remaining_efficiency,
        )


@dataclass(frozen=True)
class _PlacedNetwork:
    """A plan with its offsets in the tables; `crossbar` is the first link of its crossbar, or None."""

    plan: NetworkPlan
    bundles: Bundles | None
    node_offset: int
    link_offset: int
    block: _Block
    crossbar: int | None


def assemble(
    spec: ClusterSpec,
    catalog: Catalog,
    hardware: Hardware,
    plans: dict[str, NetworkPlan],
    stores: tuple[Storage | None, PoolPlan | None],
) -> Cluster:
    """Assembles the cluster from its network plans."""
    storage, pool = stores
    rows = _Rows()
    scale_up = hardware.scale_up
    rows.tiers.append("scale-up")
    rows.add(_scale_up_block(scale_up, hardware.ranks))
    nodes = hardware.ranks + scale_up.switches
    placed: dict[str, _PlacedNetwork] = {}
    left = _background(spec, plans)
    for key, plan in plans.items():
        placed[key] = _place(rows, plan, nodes, left)
        nodes += plan.wiring.nodes + plan.crossbar
    home = next((item for item in placed.values() if item.plan.storage_ports.size), None)
    servers = None if storage is None else _storage_rows(rows, storage, home, hardware, nodes)
    nodes += 0 if servers is None else servers.count
    memory = None if pool is None else _pool_rows(rows, pool, placed.get(pool.network), hardware, nodes)
    bundle_of, first_bundle = _bundle_rows(rows, placed)
    links = rows.table(bundle_of, _moved(placed), _remaining_efficiency(placed))
    links.with_bundles(links.rate_bps)
    for column in (links.line_bps, links.free_bps, links.reach_bps):
        links.with_bundles(column)
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
        storage=next((networks[key] for key, item in placed.items() if item is home), None),
        storage_servers=servers,
        memory_pool=memory,
        scale_up=scale_up,
        hardware=hardware,
        cubes=None if spec.ocs is None else cubes_of(spec.ocs, hardware, catalog),
        plans=plans,
        catalog=catalog,
        nodes=nodes + (0 if memory is None else 2 * memory.units),
    )


def _scale_up_block(scale_up: ScaleUp, ranks: int) -> _Block:
    """Scale-up links; with a switch, half of the latency is before it and half after it."""
    rates = scale_up.rates_bps()
    source, target = scale_up.ends(ranks)
    latency = scale_up.latency_ps // 2 if scale_up.kind == "switched" else scale_up.latency_ps
    return _Block(rate_bps=rates, line_bps=rates, latency_ps=latency, tier=0, source=source, target=target)


def _background(spec: ClusterSpec, plans: dict[str, NetworkPlan]) -> dict[tuple[str, str], float]:
    """Share of capacity left, by network and tier; loads on one tier add up."""
    taken: dict[tuple[str, str], float] = {}
    for index, item in enumerate(spec.background):
        key = f"background[{index}]"
        plan = plans.get(item.network)
        if plan is None:
            raise InputError("there is no such network", key=f"{key}.network", found=item.network, allowed=list(plans))
        for name in _tiers_of(item, plan, key):
            before = taken.get((plan.name, name), 0.0)
            taken[plan.name, name] = before + item.load
            if before + item.load >= 1:
                raise InputError(
                    f"the loads on the tier `{name}` add up to {before + item.load:.4g}: others leave nothing of it",
                    key=f"{key}.load",
                    found=f"{item.load:g}",
                    allowed=f"less than {1 - before:.4g}",
                )
    return {place: 1.0 - load for place, load in taken.items()}


def _tiers_of(item: Background, plan: NetworkPlan, key: str) -> list[str]:
    names = [tier.name for tier in plan.wiring.tiers]
    if item.tier is None:
        return [tier.name for tier in plan.wiring.tiers if tier.kind != "access"] or names
    if item.tier not in names:
        raise InputError("there is no such tier", key=f"{key}.tier", found=item.tier, allowed=names)
    return [item.tier]


def _place(rows: _Rows, plan: NetworkPlan, nodes: int, left: dict[tuple[str, str], float]) -> _PlacedNetwork:
    wiring, fabric = plan.wiring, plan.fabric
    first_tier = len(rows.tiers)
    prefix = "" if plan.name == "back-end" else f"{plan.name} "
    rows.tiers += [prefix + tier.name for tier in wiring.tiers]
    between = fabric.fabric_efficiency * (1.0 if plan.tenancy is None else plan.tenancy.between_share(fabric))
    share = np.array(
        [left.get((plan.name, tier.name), 1.0) * (1.0 if tier.kind == "access" else between) for tier in wiring.tiers]
    )
    rate = wiring.line_bps * share[wiring.tier] * _usable(plan)
    at_end = np.zeros(wiring.nodes, np.int64)
    at_end[wiring.port_of] = plan.host.latency_ps
    delay = np.array([run.delay_ps for run in plan.runs], np.int64)[wiring.tier]
    switched = (wiring.target >= wiring.ports) | (wiring.source < wiring.ports)
    wire_ps = np.maximum(delay + np.where(switched, plan.hop_ps[wiring.target], 0), 0)
    block = _Block(
        rate_bps=rate,
        line_bps=wiring.line_bps,
        reach_bps=credit_bps(fabric, wiring.line_bps, wire_ps, plan.reach_ps),
        latency_ps=wire_ps + at_end[wiring.source] + at_end[wiring.target],
        tier=first_tier + wiring.tier,
        source=wiring.source.astype(np.int64) + nodes,
        target=wiring.target.astype(np.int64) + nodes,
    )
    bundles, first = fold(wiring) if fabric.bundled else None, rows.add(block)
    return _PlacedNetwork(
        plan, bundles, nodes, first, block, _crossbar(rows, plan, nodes, prefix) if plan.crossbar else None
    )


def _crossbar(rows: _Rows, plan: NetworkPlan, nodes: int, prefix: str) -> int:
    """A link from every port to a switch numbered after the network's nodes, and one back to every port."""
    wiring = plan.wiring
    rows.tiers.append(prefix + ACCESS_CROSSBAR.name)
    port = nodes + np.arange(wiring.ports, dtype=np.int64)
    switch = np.full(wiring.ports, nodes + wiring.nodes, np.int64)
    line = np.full(2 * wiring.ports, plan.link_bps)
    hop = np.repeat([plan.fabric.hop_latency_ps, 0], wiring.ports)
    ends = np.concatenate([port, switch]), np.concatenate([switch, port])
    return rows.add(
        _Block(
            rate_bps=line * np.tile(_usable_by(plan)[: wiring.ports], 2),
            line_bps=line,
            latency_ps=hop,
            tier=len(rows.tiers) - 1,
            source=ends[0],
            target=ends[1],
        )
    )


def _usable(plan: NetworkPlan) -> NDArray[np.float64]:
    """float64[links], share of a link that the NIC or switch at its end can use; 1 at line rate."""
    factor = _usable_by(plan)
    return np.minimum(factor[plan.wiring.source], factor[plan.wiring.target])


def _usable_by(plan: NetworkPlan) -> NDArray[np.float64]:
    """float64[nodes], the same by node."""
    factor = plan.ciphered
    factor[plan.wiring.port_of] = plan.usable
    if plan.tenancy is not None:
        factor = np.minimum(factor, plan.tenancy.shares(plan.wiring.port_of, plan.wiring.nodes))
    return factor


def _storage_rows(
    rows: _Rows, storage: Storage, home: _PlacedNetwork | None, hardware: Hardware, first_node: int
) -> StorageServers:
    """A read link out of every device and a write link into it; local devices are links of their servers."""
    if home is None:
        ports = np.empty((hardware.servers, 0), np.int32)
        gate = np.arange(hardware.servers, dtype=np.int64) * hardware.per_server
    else:
        ports = home.plan.storage_ports
        gate = ports[:, 0].astype(np.int64) + home.node_offset
    count = len(ports)
    device, number = first_node + np.arange(count), np.arange(count, dtype=np.int32)
    rows.tiers += ["storage read", "storage write"]
    tier = len(rows.tiers) - 2
    reads = _even(storage.read_bps, tier, device, gate)
    writes = _even(storage.write_bps, tier + 1, gate, device)
    return StorageServers(storage, count, home is None, ports, number + rows.add(reads), number + rows.add(writes))


def _pool_rows(
    rows: _Rows, pool: PoolPlan, home: _PlacedNetwork | None, hardware: Hardware, first_node: int
) -> PooledMemory:
    """Links of the units' memory and of the servers' CXL ports to them; a unit is complete with its connections."""
    entry, count = pool.entry, pool.units
    host_bps, host_bytes, host_ps = host_rates(hardware.server)
    memory = first_node + np.arange(count, dtype=np.int64)
    gate, ports = memory + count, np.empty((count, 0), np.int32)
    if home is not None:
        ports = home.plan.pool_ports
        gate = ports[:, 0].astype(np.int64) + home.node_offset
    first = len(rows.tiers)
    rows.tiers += TIERS
    number = np.arange(count, dtype=np.int32)
    load_bps, store_bps = (host_bps, host_bps) if entry is None else (entry.read_bps, entry.write_bps)
    load = number + rows.add(_even(load_bps, first, memory, gate))
    store = load if entry is None else number + rows.add(_even(store_bps, first + 1, gate, memory))
    inward, outward = _pool_ports(rows, pool, gate, hardware.per_server, first + 2)
    return PooledMemory(
        entry=entry,
        network=pool.network,
        capacity_bytes=host_bytes if entry is None else entry.capacity_bytes,
        latency_ps=host_ps if entry is None else entry.latency_ps,
        load_bps=load_bps,
        store_bps=store_bps,
        load_link=load,
        store_link=store,
        ports=ports,
        unit=pool.unit,
        port_load=inward,
        port_store=outward,
        port_bps=np.inf if entry is None else entry.port_bps,
    )


def _pool_ports(
    rows: _Rows, pool: PoolPlan, gate: NDArray[np.int64], per_server: int, tier: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Links of CXL ports, int32[servers, units each], to and from the servers; the host's own memory needs none."""
    servers, each = pool.unit.shape
    if pool.entry is None or not each:
        none = np.empty((servers, 0), np.int32)
        return none, none
    unit, server = gate[pool.unit.ravel()], np.repeat(np.arange(servers, dtype=np.int64) * per_server, each)
    number = np.arange(servers * each, dtype=np.int32)
    inward = number + rows.add(_even(pool.entry.port_bps, tier, unit, server))
    outward = number + rows.add(_even(pool.entry.port_bps, tier, server, unit))
    return inward.reshape(servers, each), outward.reshape(servers, each)


def _even(rate_bps: float, tier: int, source: NDArray[np.int64], target: NDArray[np.int64]) -> _Block:
    rate = np.full(len(source), rate_bps)
    return _Block(rate_bps=rate, line_bps=rate, latency_ps=0, tier=tier, source=source, target=target)


def _bundle_rows(rows: _Rows, placed: dict[str, _PlacedNetwork]) -> tuple[NDArray[np.int32], dict[str, int]]:
    """Adds the bundles of all networks; their rates are set once the table is complete."""
    bundle_of = np.full(rows.count, -1, np.int32)
    first: dict[str, int] = {}
    for key, item in placed.items():
        first[key] = rows.count
        if item.bundles is None:
            continue
        member, sample = item.bundles.bundle_of, item.bundles.sample
        span = slice(item.link_offset, item.link_offset + len(member))
        bundle_of[span] = np.where(member >= 0, member + rows.count, -1)
        latency, tier, source, target = (
            item.block.column(name)[sample] for name in ("latency_ps", "tier", "source", "target")
        )
        zero = np.zeros(len(sample))
        rows.add(_Block(rate_bps=zero, line_bps=zero, latency_ps=latency, tier=tier, source=source, target=target))
    return bundle_of, first


def _moved(placed: dict[str, _PlacedNetwork]) -> NDArray[np.float64]:
    """Per bundle: how well load moves off a slower member, which switches see upwards but not downwards."""
    parts = [np.empty(0)]
    for item in placed.values():
        if item.bundles is None:
            continue
        wiring, behavior, sample = item.plan.wiring, item.plan.fabric.behaves, item.bundles.sample
        height = np.zeros(wiring.nodes)
        for group in wiring.groups:
            height[group.first : group.first + group.count] = group.tier
        up = height[wiring.target[sample]] > height[wiring.source[sample]]
        parts.append(np.where(up, behavior.moved_up, behavior.moved_down))
    return np.concatenate(parts)


def _remaining_efficiency(placed: dict[str, _PlacedNetwork]) -> NDArray[np.float64]:
    items = [item for item in placed.values() if item.bundles is not None]
    values = [item.plan.fabric.behaves.remaining_efficiency for item in items]
    return np.repeat(values, [len(item.bundles.sample) for item in items if item.bundles is not None]).astype(float)


def _network(item: _PlacedNetwork, links: LinkTable, first_bundle: int) -> Network:
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
        crossbar=item.crossbar,
        bundle_offset=first_bundle,
        bundles=item.bundles,
        link_latency_ps=links.latency_ps,
        seed=plan.spec.seed,
    )


def build(spec: ClusterSpec, catalog: Catalog, placement: Placement = PACKED) -> Cluster:
    """Builds a cluster.

    Raises:
        InputError: A name is unknown or the cluster cannot be built; keys are relative to the cluster
            (`back_end.topology.oversubscription`).
    """
    hardware = Hardware.of(spec, catalog)
    storage = None
    if spec.storage is not None:
        try:
            storage = catalog.storage(spec.storage.name)
        except InputError as error:
            raise error.located(key="storage.name") from None
    if spec.management is not None:
        check_management(spec.management, catalog)
    pool = plan_pool(spec, catalog, hardware.servers)
    plans = plan_networks(spec, catalog, hardware, (storage, pool))
    cluster = assemble(spec, catalog, hardware, plans, (storage, pool))
    return replace(cluster.arranged(place(cluster, placement)), placement=placement)
