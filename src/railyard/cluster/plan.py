"""Plans of the networks of a cluster: each is wired with its own numbering before they share one link table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import boxes
from railyard.cluster.boxes import longer_ps, parts_of
from railyard.cluster.credits import headroom_bytes, headroom_left_bytes, headroom_share, round_trip_ps
from railyard.cluster.fabric.encryption import encrypted
from railyard.cluster.host_path import HostSpec, bounded, host_path, switch_share, unbounded
from railyard.cluster.spec import NetworkSpec
from railyard.cluster.tenancy import check_network, tenancy_of
from railyard.cluster.topology.wiring import PORT_GBPS, Endpoints, is_port, links_for, ports_of
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.catalog import Catalog, Nic, Server, Storage, Switch
    from railyard.cluster.fabric.fabric import Fabric
    from railyard.cluster.hardware import Hardware
    from railyard.cluster.host_path import HostPath
    from railyard.cluster.memory_pool import PoolPlan
    from railyard.cluster.spec import ClusterSpec, StorageSpec
    from railyard.cluster.tenancy import Tenancy, TenancySpec
    from railyard.cluster.topology.wiring import Parts, Wiring

_SHOWN = 4
VIRTUAL = ("AWS", "Google")
"""Vendors whose NICs run datagrams or TCP in software: their catalog latencies replace those of the fabric, which are
for RDMA NICs.
"""


@dataclass(frozen=True, eq=False)
class NetworkPlan:
    """One network, wired.

    Attributes:
        name: `back-end`, `front-end` or `storage`.
        link_bps: Rate of a NIC's link, bit/s.
        port_of_rank: int32[ranks, NICs of a rank].
        storage_ports: int32[storage servers, ports of each].
        pool_ports: int32[units of the memory pool, ports of each].
        hop_ps: int64[nodes], latency of each switch; the fabric's value elsewhere.
        nic_cages: Cages that the NICs of a server share; 0: each has one.
        optics: Kind of its optical modules; None: the usual ones.
        tenancy: Tenants that share it; None: a single user.
    """

    name: str
    spec: NetworkSpec
    fabric: Fabric
    switches: dict[str, Switch]
    nic: Nic
    nics: int
    wiring: Wiring
    runs: tuple[boxes.CableRun, ...]
    link_bps: float
    host: HostPath
    port_of_rank: NDArray[np.int32]
    storage_ports: NDArray[np.int32]
    pool_ports: NDArray[np.int32]
    hop_ps: NDArray[np.int64]
    nic_cages: int = 0
    optics: str | None = None
    tenancy: Tenancy | None = None

    @property
    def usable(self) -> NDArray[np.float64]:
        """float64[NICs of a server], usable share of each link's rate, at most 1."""
        return np.minimum(self.host.rate_bps / self.link_bps, 1.0)

    @property
    def ciphered(self) -> NDArray[np.float64]:
        """float64[nodes], share of its link rates that a switch can encrypt while all are busy; 1 elsewhere."""
        return switch_share(self.wiring, self.switches, self.spec.encryption)

    @property
    def border(self) -> Switch | None:
        """The switch at the ends of long links; None if there are none."""
        names = [group.box for group in self.wiring.groups if group.role == "border"]
        return self.switches[names[0]] if names else None

    @property
    def reach_ps(self) -> float:
        """Round trip for which the ends of long links have credits."""
        return 0.0 if self.border is None else round_trip_ps(self.border.long_haul_m)

    @property
    def long_tier(self) -> int:
        """Index of the tier of long links; -1 where there are none."""
        return next((index for index, tier in enumerate(self.wiring.tiers) if tier.kind == "long"), -1)

    @property
    def headroom_left_bytes(self) -> int:
        """Headroom that the buffer at their ends leaves each long link; 0 if there are none."""
        return 0 if self.border is None else headroom_left_bytes(self.border, self.wiring, self.long_tier)

    @property
    def headroom_needed_bytes(self) -> int:
        """Headroom that a long link needs; 0 if there are none or the fabric does not pause."""
        if self.border is None or not self.fabric.pauses:
            return 0
        rate = float(self.wiring.line_bps[self.wiring.tier == self.long_tier].max())
        return headroom_bytes(rate, self.runs[self.long_tier].length_m)

    @property
    def headroom_had_bytes(self) -> int:
        """Headroom of a long link: as given, otherwise what the buffer at its ends leaves."""
        return self.fabric.headroom_bytes or self.headroom_left_bytes

    @property
    def crowded_share(self) -> float:
        """Share of their rate that flows over long links to a congested port keep; 1 if nothing is lost there.

        Less if a pausing fabric has too little headroom and resends everything after a lost packet.
        """
        if not self.headroom_needed_bytes or self.fabric.packets.constants.get("rdma_out_of_order"):
            return 1.0
        return headroom_share(self.headroom_needed_bytes / max(self.headroom_had_bytes, 1))

    def reaching(self, catalog: Catalog, longest_m: Sequence[float]) -> NetworkPlan:
        """The network with cables that reach this far, where the scenario gives a tier no length.

        A tier keeps its cable if that reaches, and its delay in any case. All its links have one medium.

        Args:
            catalog: Catalog of cables.
            longest_m: Longest route of each tier; 0: not known.
        """
        runs = list(self.runs)
        for index, (tier, run, length_m) in enumerate(zip(self.wiring.tiers, self.runs, longest_m, strict=True)):
            given = tier.kind == "long" or tier.name in self.spec.lengths_m
            if given or run.cable is None or run.cable.reach_m >= length_m * (1 - 1e-9):
                continue
            rate = float(self.wiring.line_bps[self.wiring.tier == index].max())
            key = f"cable_length.{tier.name}"
            found = boxes.choose(catalog, rate, tier, length_m, lanes=run.lanes, key=key, optics=self.optics)
            runs[index] = run if found.cable is None else replace(found, delay_ps=run.delay_ps)
        return replace(self, runs=tuple(runs))

    @property
    def crossbar(self) -> bool:
        """Whether the `ideal` crossbar needs links of its own: the wiring has none that belong to one port alone."""
        return self.fabric.load_balancing == "ideal" and self.wiring.joins_ports


def plan_networks(
    spec: ClusterSpec, catalog: Catalog, hardware: Hardware, stores: tuple[Storage | None, PoolPlan | None]
) -> dict[str, NetworkPlan]:
    """The networks of a cluster by the key of the spec: `back_end`, `front_end`, `storage`.

    Raises:
        InputError: A network cannot be built.
    """
    storage, pool = stores
    home = _storage_home(spec, storage)
    nodes = spec.storage.servers if spec.storage is not None else 0
    asked: list[tuple[str, NetworkSpec, Nic, int, float]] = [
        ("back_end", spec.back_end, hardware.nic, hardware.nics, hardware.nic_bps)
    ]
    front = hardware.front_end_nic
    if spec.front_end is not None:
        count = max(1, hardware.server.front_end_nics)
        asked.append(("front_end", spec.front_end, front, count, front.rate_bps))
    if home == "storage" and spec.storage is not None and isinstance(spec.storage.network, NetworkSpec):
        nic = _storage_nic(spec.storage, front, catalog)
        asked.append(("storage", spec.storage.network, nic, spec.storage.nics, nic.rate_bps))
    plans = {}
    for key, network, nic, nics, most_bps in asked:
        here = home == key
        lent = pool if pool is not None and pool.network == key else None
        gateways = spec.gateway_ports if key == "back_end" else 0
        job = _Job(key, network, nic, nics, most_bps, storage if here else None, nodes if here else 0, lent, gateways)
        try:
            plans[key] = job.plan(catalog, spec, hardware)
        except InputError as error:
            raise error.located(key="storage.network" if key == "storage" else key) from None
    if spec.tenancy is not None:
        plans["back_end"] = _shared(plans["back_end"], spec.tenancy)
    return plans


def _storage_nic(storage: StorageSpec, front: Nic, catalog: Catalog) -> Nic:
    if storage.nics < 1:
        raise InputError("each server has a NIC on the network of storage", key="storage.nics", found=storage.nics)
    if storage.nic is None:
        return front
    try:
        return catalog.nic(storage.nic)
    except InputError as error:
        raise error.located(key="storage.nic") from None


def _shared(plan: NetworkPlan, spec: TenancySpec) -> NetworkPlan:
    """The back-end with its tenants.

    Raises:
        InputError: The tenants are not possible on it.
    """
    try:
        found = tenancy_of(spec, len(plan.wiring.port_of), plan.nics)
        check_network(found, plan.fabric, plan.switches, for_all=plan.storage_ports.size + plan.pool_ports.size)
    except InputError as error:
        raise error.located(key="tenancy") from None
    return replace(plan, tenancy=found)


def _storage_home(spec: ClusterSpec, storage: Storage | None) -> str | None:
    """Key of the network of the storage; None for local storage."""
    if spec.storage is None or storage is None:
        return None
    _check_storage(spec.storage)
    if storage.network_bps == 0:
        return None
    network = spec.storage.network
    if isinstance(network, NetworkSpec):
        return "storage"
    if network == "front_end" and spec.front_end is None:
        raise InputError(
            "storage lies on the front-end network, and there is none",
            key="storage.network",
            found=network,
            hint="add `front_end`, or write `network: back_end`",
        )
    return network


def _check_storage(storage: StorageSpec) -> None:
    if storage.servers < 1:
        raise InputError("storage has at least one server", key="storage.servers", found=storage.servers)
    if isinstance(storage.network, str) and storage.network not in {"back_end", "front_end"}:
        raise InputError(
            "storage lies on a network of the cluster or on one of its own",
            key="storage.network",
            found=storage.network,
            allowed="back_end, front_end, or a network",
        )


@dataclass(frozen=True)
class _Job:
    key: str
    network: NetworkSpec
    nic: Nic
    nics: int
    most_bps: float
    storage: Storage | None
    storage_servers: int
    pool: PoolPlan | None
    gateways: int

    def plan(self, catalog: Catalog, spec: ClusterSpec, hardware: Hardware) -> NetworkPlan:
        fabric = self._fabric()
        link_bps = self._link_bps(catalog)
        parts, switches = parts_of(catalog, self.network, fabric, link_bps, spec.overrides.get("switch", {}))
        optics = "cpo" if switches[parts.leaf.name].co_packaged else self.network.optics
        ports = 0 if self.storage is None else max(1, links_for(self.storage.network_bps, link_bps))
        stored, (lenders, lent) = ports * self.storage_servers, self._pool_ports(link_bps)
        extra = stored + lenders * lent + self.gateways
        wiring = _with_circuits(self._wire(Endpoints(hardware.servers, self.nics, extra), parts, fabric), catalog)
        _check_headroom(fabric, wiring, switches)
        return NetworkPlan(
            name=self.key.replace("_", "-"),
            spec=self.network,
            fabric=fabric,
            switches=switches,
            nic=self.nic,
            nics=self.nics,
            wiring=wiring,
            runs=self._runs(catalog, wiring, _lanes(parts, switches), parts.leaf.port_rate_bps, optics),
            link_bps=link_bps,
            host=self._host(hardware),
            port_of_rank=_ports_of_ranks(wiring.port_of, hardware, self.nics),
            storage_ports=wiring.extra[:stored].reshape(self.storage_servers, ports),
            pool_ports=wiring.extra[stored : stored + lenders * lent].reshape(lenders, lent),
            nic_cages=hardware.server.nic_cages if self.nic.name == hardware.server.nic else 0,
            optics=optics,
            hop_ps=_hops(fabric, wiring, longer_ps(catalog, self.network, fabric, link_bps, (parts, switches))),
        )

    def _pool_ports(self, link_bps: float) -> tuple[int, int]:
        if self.pool is None or self.pool.entry is None:
            return 0, 0
        return self.pool.units, max(1, links_for(self.pool.entry.port_bps, link_bps))

    def _fabric(self) -> Fabric:
        try:
            clear = self.network.fabric.resolve()
        except InputError as error:
            raise error.located(key="fabric") from None
        own = self.nic.vendor in VIRTUAL and clear.name not in ("ideal", "lab")  # a bound, and a kernel's namespaces
        if own and "nic_latency_ps" not in self.network.fabric.overrides:
            clear = replace(clear, nic_latency_ps=self.nic.send_latency_ps + self.nic.receive_latency_ps)
        return encrypted(clear, self.network.encryption, self.network.host.transport)

    def _host(self, hardware: Hardware) -> HostPath:
        encryption = self.network.encryption
        if self.key == "back_end":
            most_bps = np.full(self.nics, self.most_bps)
            nics_of = nics_of_ranks(hardware, self.nics)
            path = host_path(hardware.server, nics_of, most_bps, _confidential(self, hardware), encryption.core_bps)
            return bounded(path, self.nic, encryption)
        if self.network.host != HostSpec():
            raise InputError("how accelerators reach NICs is a matter of the back-end", key="gpudirect")
        return bounded(unbounded(self.nics, self.most_bps), self.nic, encryption)

    def _link_bps(self, catalog: Catalog) -> float:
        asked = self.network.link_rate_bps
        if asked is None:
            _check_port(self.nic)
            return self.nic.rate_bps
        if not 0 < asked <= self.nic.rate_bps * (1 + 1e-9):
            raise InputError(
                f"the NIC {self.nic.name} does not run at this rate",
                key="link_rate",
                found=f"{asked / 1e9:g} Gb/s",
                allowed=f"more than 0, at most {self.nic.rate_bps / 1e9:g} Gb/s",
                hint=_that_can(catalog, asked),
            )
        return asked

    def _wire(self, endpoints: Endpoints, parts: Parts, fabric: Fabric) -> Wiring:
        wiring = self.network.topology.build(endpoints, parts)
        if fabric.sharp and wiring.circuits is not None and wiring.circuits.servers is not None:
            raise InputError(
                "NICs on circuits have no switch that reduces", key="fabric.sharp", found="true", allowed="false"
            )
        if fabric.load_balancing == "cells" and wiring.classes is None:
            raise InputError(
                f"the fabric `{fabric.name}` sprays cells over leafs and spines; {self.network.topology.kind} has none",
                key="topology.kind",
                found=self.network.topology.kind,
                hint="use a Clos family such as `leaf-spine` or `rail-optimized`",
            )
        return wiring

    def _runs(
        self, catalog: Catalog, wiring: Wiring, lanes: int, most: float, optics: str | None
    ) -> tuple[boxes.CableRun, ...]:
        names = [tier.name for tier in wiring.tiers]
        for name in self.network.lengths_m:
            if name not in names:
                raise InputError(
                    f"there is no tier `{name}` in this network", key=f"cable_length.{name}", allowed=names
                )
        rates = [float(wiring.line_bps[wiring.tier == index].max(initial=1.0)) for index in range(len(names))]
        return tuple(
            boxes.choose(
                catalog,
                rate,
                tier,
                self.network.lengths_m.get(tier.name),
                lanes=lanes if tier.kind == "fabric" and rate * lanes <= most * (1 + 1e-9) else 1,
                key=f"cable_length.{tier.name}",
                optics=optics,
            )
            for rate, tier in zip(rates, wiring.tiers, strict=True)
        )


def _confidential(job: _Job, hardware: Hardware) -> HostSpec:
    """How bytes get to NICs, with the accelerator's own bounce buffer rate if none is given.

    Raises:
        InputError: No rate is published.
    """
    spec = job.network.host
    if spec.gpudirect != "bounce" or spec.bounce_bps is not None:
        return spec
    if hardware.accelerator.bounce_bps is None:
        raise InputError(
            f"no rate of an encrypted bounce buffer is published for {hardware.accelerator.name}",
            key="bounce_rate",
            found="none",
            allowed="a rate, such as `4 GB/s` (NVIDIA of an H100)",
        )
    return replace(spec, bounce_bps=hardware.accelerator.bounce_bps)


def _check_port(nic: Nic) -> None:
    if not is_port(nic.rate_bps / ports_of(nic.rate_bps)):
        raise InputError(
            f"no standard has ports of the rate of the NIC {nic.name}",
            key="link_rate",
            found=f"{nic.rate_bps / 1e9:.4g} Gb/s",
            allowed=f"{', '.join(map(str, PORT_GBPS))} Gb/s, or a lower `link_rate`, to which links are then limited",
        )


def _that_can(catalog: Catalog, asked_bps: float) -> str | None:
    """Servers whose NICs reach a rate, the slowest such NICs first."""
    found = [(catalog.nic(server.nic).rate_bps, name, server.nic) for name, server in _with_nics(catalog)]
    able = sorted(row for row in found if row[0] >= asked_bps)
    if not able:
        return None
    return "servers whose NICs do: " + ", ".join(f"{name} ({nic})" for _, name, nic in able[:_SHOWN])


def _with_nics(catalog: Catalog) -> Iterator[tuple[str, Server]]:
    for name in catalog.names("server"):
        server = catalog.server(name)
        if server.nic:
            yield name, server


def _check_headroom(fabric: Fabric, wiring: Wiring, switches: dict[str, Switch]) -> None:
    """Rejects more headroom than a switch's ports have together."""
    for group in wiring.groups:
        box = switches[group.box]
        if fabric.headroom_bytes * group.ports > box.buffer_bytes:
            raise InputError(
                f"headroom larger than the buffer: {group.ports} ports of {box.name} share"
                f" {box.buffer_bytes / 1e6:g} MB",
                key="fabric.headroom",
                found=f"{fabric.headroom_bytes / 1e6:g} MB",
                allowed=f"at most {box.buffer_bytes / group.ports / 1e6:.3g} MB",
            )
    if fabric.headroom_bytes and not fabric.pauses:
        raise InputError(
            f"the fabric `{fabric.name}` does not pause: it has no headroom",
            key="fabric.headroom",
            found=f"{fabric.headroom_bytes / 1e6:g} MB",
        )


def _with_circuits(wiring: Wiring, catalog: Catalog) -> Wiring:
    """The wiring, whose circuits that follow demand are dark for the time of their switch and of links.

    Raises:
        InputError: The optical switch has fewer ports than there are leafs or servers to join.
    """
    circuits = wiring.circuits
    if circuits is None:
        return wiring
    switch = catalog.optical_switch(circuits.switch)
    if circuits.joined > switch.usable_ports:
        what, key = ("leafs", "ports_per_leaf") if circuits.servers is None else ("servers", "region")
        raise InputError(
            f"{switch.name} has {switch.usable_ports} ports, and circuits join any two of {circuits.joined} {what}",
            key="topology.switch",
            found=switch.name,
            hint=f"another switch, or fewer {what}: see `{key}`",
        )
    if circuits.dead_ps is None:
        return wiring
    dead_ps = circuits.dead_ps + switch.switching_ps
    return replace(wiring, circuits=replace(circuits, dead_ps=dead_ps))


def _hops(fabric: Fabric, wiring: Wiring, longer: Mapping[str, int]) -> NDArray[np.int64]:
    """int64[nodes], see `NetworkPlan.hop_ps`."""
    found = np.full(wiring.nodes, fabric.hop_latency_ps, np.int64)
    if wiring.circuits is not None:
        found[: wiring.ports] = 0  # a circuit between NICs passes no switch
    for group in wiring.groups:
        found[group.first : group.first + group.count] += longer[group.box]
    return np.maximum(found, 0)


def _lanes(parts: Parts, switches: dict[str, Switch]) -> int:
    """Links between switches that share a cable: lanes of a cell fabric share modules, others are single."""
    spine = switches[parts.spine.name]
    if spine.family != "scheduled-fabric":
        return 1
    return max(1, round(parts.leaf.port_rate_bps / parts.spine.port_rate_bps))


def _ports_of_ranks(port_of: NDArray[np.int32], hardware: Hardware, nics: int) -> NDArray[np.int32]:
    """int32[ranks, NICs of a rank], ports."""
    columns = nics_of_ranks(hardware, nics)
    return port_of[:, columns].reshape(hardware.ranks, columns.shape[1]).astype(np.int32)


def nics_of_ranks(hardware: Hardware, nics: int) -> NDArray[np.int64]:
    """int64[accelerators in use in a server, NICs each]: its own NICs, or a shared one if there are fewer."""
    first = np.arange(hardware.per_server) * nics // hardware.per_server
    columns: NDArray[np.int64] = first[:, None] + np.arange(max(1, nics // hardware.per_server))
    return columns
