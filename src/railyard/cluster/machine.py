"""The cluster as later rooms see it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.memory_pool import TIERS
from railyard.cluster.spec import PACKED
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from railyard.catalog import Accelerator, Catalog, Nic, Server, Storage
    from railyard.cluster.fabric.fabric import Fabric
    from railyard.cluster.hardware import Hardware, ScaleUp
    from railyard.cluster.links import LinkTable
    from railyard.cluster.memory_pool import PooledMemory
    from railyard.cluster.network import Network
    from railyard.cluster.ocs import Cubes
    from railyard.cluster.plan import NetworkPlan
    from railyard.cluster.spec import ClusterSpec, Placement
    from railyard.cluster.steering import Steering


UNLIMITED = 1e6
"""Factor of an unlimited resource: finite, so that rates stay finite."""


@dataclass(frozen=True, eq=False)
class StorageServers:
    """Storage nodes, for data and checkpoints.

    Attributes:
        local: Whether a node is a server's own disk, without a network; node `s` then belongs to server `s`.
        ports: int32[count, ports per node], ports on the storage network; none if local.
        read_link: int32[count], link that every byte read from a node crosses.
        write_link: int32[count], link that every byte written to a node crosses.
    """

    entry: Storage
    count: int
    local: bool
    ports: NDArray[np.int32]
    read_link: NDArray[np.int32]
    write_link: NDArray[np.int32]

    @property
    def latency_ps(self) -> int:
        """Latency of a request to its first byte, without the network."""
        return self.entry.latency_ps


@dataclass(frozen=True, eq=False)
class Cluster:
    """A cluster: ranks, links, networks.

    Accelerators are numbered server by server: `accelerator = server * ranks_per_server + local`. Servers are in rack
    order or, if `arranged`, in the order in which a job fills them; then rank and accelerator are the same.

    Attributes:
        accelerator: Catalogue entry, with overrides and what-if factors.
        front_end: Network between hosts, or None.
        storage: Network of the storage (may be one of the others), or None.
        storage_servers: Storage nodes, or None.
        memory_pool: Memory beyond the accelerators' own, or None.
        cubes: Cubes of a scale-up torus, or None where it is one piece.
        nodes: Number of nodes: ranks, scale-up switches, ports, switches, storage nodes.
        scale_out_latency: What-if factor on latencies of the back-end, including the library's steps through NICs.
    """

    spec: ClusterSpec
    ranks: int
    servers: int
    ranks_per_server: int
    scale_up_domain: int
    accelerator: Accelerator
    server: Server
    nic: Nic
    links: LinkTable = field(repr=False)
    back_end: Network
    front_end: Network | None
    storage: Network | None
    storage_servers: StorageServers | None = field(repr=False)
    memory_pool: PooledMemory | None = field(repr=False)
    cubes: Cubes | None
    scale_up: ScaleUp
    hardware: Hardware = field(repr=False)
    plans: Mapping[str, NetworkPlan] = field(repr=False)
    catalog: Catalog = field(repr=False)
    nodes: int
    placement: Placement = PACKED
    scale_out_latency: float = 1.0

    @property
    def fabric(self) -> Fabric:
        """Fabric of the back-end."""
        return self.back_end.fabric

    @property
    def is_bound(self) -> bool:
        """Whether its back-end cannot be bought: a non-blocking crossbar that bounds what products reach."""
        return self.fabric.load_balancing == "ideal"

    @property
    def networks(self) -> tuple[Network, ...]:
        """All networks, each once."""
        roles = (self.back_end, self.front_end, self.storage)
        return tuple({network.name: network for network in roles if network is not None}.values())

    @property
    def pool_network(self) -> Network | None:
        """The network of the memory pool; None if there is none, or no pool."""
        where = None if self.memory_pool is None else self.memory_pool.network
        return self.back_end if where == "back_end" else self.front_end if where == "front_end" else None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes that a reader of its results needs."""
        return (*self.plans["back_end"].host.remarks, *self.hardware.misplaced(self.fabric, self.catalog))

    @property
    def fitting_nics_usd(self) -> float | None:
        """What NICs that order the packets of the back-end's fabric would cost more, USD; None if these do."""
        return self.hardware.fitting_nics_usd(self.fabric, self.catalog)

    def arranged(self, order: NDArray[np.int32]) -> Cluster:
        """The same machine with accelerators renumbered; links and networks are shared.

        Scale-up domains are identical and stay whole, so only ports are renumbered.

        Args:
            order: int32[ranks], the accelerator that gets each number.

        Raises:
            InputError: The order does not consist of whole scale-up domains.
        """
        if np.array_equal(order, np.arange(self.ranks)):
            return self
        _check_domains(order, self.ranks, self.scale_up_domain)
        return self.with_networks(lambda network: replace(network, port_of_rank=network.port_of_rank[order]))

    def part(self, accelerators: NDArray[np.int32]) -> Cluster:
        """The machine as a job sees it: its accelerators as ranks, on the same networks.

        Used to find what the job does and which paths it takes. Links of scale-up domains are numbered as if the job
        had the first domains; engines run jobs on the machine itself.

        Args:
            accelerators: int32[ranks], in servers of neighbouring ranks.
        """
        ranks, per_server = len(accelerators), min(self.ranks_per_server, len(accelerators))
        domain = min(self.scale_up_domain, ranks)
        return replace(
            self.with_networks(lambda network: replace(network, port_of_rank=network.port_of_rank[accelerators])),
            ranks=ranks,
            servers=-(-ranks // per_server),
            ranks_per_server=per_server,
            scale_up_domain=domain,
            scale_up=replace(self.scale_up, ranks=ranks, domain=domain),
        )

    def without(self, links: NDArray[np.int64]) -> Cluster:
        """The same machine with routes that avoid some links; if none is left, routes still lead to a dead one."""
        return self.with_networks(lambda network: network.without(links))

    def credited(self, scheme: str) -> Cluster:
        """The same machine whose networks grant credits over long links by one of `fabric.CREDITS`."""
        return self.with_networks(lambda network: replace(network, fabric=replace(network.fabric, credits=scheme)))

    def steered(self, steering: Steering) -> Cluster:
        """The same machine with chosen paths on its back-end where switches would hash."""
        return self.with_back_end(replace(self.back_end, steering=steering))

    def with_back_end(self, back_end: Network) -> Cluster:
        """The same machine with another back-end, which also replaces it as the storage network."""
        return self.with_networks(lambda network: back_end if network is self.back_end else network)

    def with_networks(self, change: Callable[[Network], Network]) -> Cluster:
        """The same machine with every network changed; a network with two roles is changed once."""
        changed = {network.name: change(network) for network in self.networks}
        return replace(
            self,
            back_end=changed[self.back_end.name],
            front_end=None if self.front_end is None else changed[self.front_end.name],
            storage=None if self.storage is None else changed[self.storage.name],
        )

    def scaled(
        self,
        *,
        flops: float = 1.0,
        memory_bandwidth: float = 1.0,
        scale_up: float = 1.0,
        nic: float = 1.0,
        fabric_tiers: float | Mapping[str, float] = 1.0,
        latency: float = 1.0,
        scale_out_latency: float = 1.0,
        storage: float = 1.0,
        memory_pool: float = 1.0,
    ) -> Cluster:
        """A what-if copy that shares everything that does not change.

        Args:
            flops: Factor on the accelerators' FLOP/s.
            memory_bandwidth: Factor on their memory bandwidth.
            scale_up: Factor on scale-up links.
            nic: Factor on the back-end NICs' own links.
            fabric_tiers: Factor on all tiers of links between switches of the back-end, or factors by name of a tier
                (`leaf-spine`; any tier of the link table will do).
            latency: Factor on every network and scale-up latency.
            scale_out_latency: A further factor on those of the back-end, the library's steps through NICs included.
            storage: Factor on storage devices and on the front-end and storage networks.
            memory_pool: Factor on the memory pool and its CXL ports.

        Raises:
            InputError: A tier is unknown or a factor not positive.
        """
        given = {"scale_up": scale_up, "nic": nic, "latency": latency, "storage": storage, "flops": flops}
        given |= {"memory_pool": memory_pool, "scale_out_latency": scale_out_latency}
        for name, value in {**given, "memory_bandwidth": memory_bandwidth}.items():
            if not value > 0:
                raise InputError("a factor is more than zero", key=name, found=value)
        factor = self._tier_factors(scale_up, nic, fabric_tiers, storage)
        factor[np.isin(self.links.tiers, TIERS)] = memory_pool
        outside = np.isin(self.links.tiers, [tier.name for tier in self.back_end.tiers])
        slower = latency * np.where(outside, scale_out_latency, 1.0)
        links = self.links.scaled(factor[self.links.tier], latency=slower[self.links.tier])
        accelerator = self.accelerator
        accelerator = replace(
            accelerator,
            flops={kind: value * flops for kind, value in accelerator.flops.items()},
            memory_bps=accelerator.memory_bps * memory_bandwidth,
            scale_up_bps=accelerator.scale_up_bps * scale_up,
            scale_up_collective_bps=accelerator.scale_up_collective_bps * scale_up,
            scale_up_latency_ps=round(accelerator.scale_up_latency_ps * latency),
        )

        def slowed(network: Network) -> Network:
            """The network with its fabric's latencies multiplied, on the new links."""
            factor = latency * (scale_out_latency if network is self.back_end else 1.0)
            fabric = network.fabric if factor == 1.0 else network.fabric.scaled(factor)
            return replace(network, fabric=fabric, link_latency_ps=links.latency_ps)

        return replace(
            self.with_networks(slowed),
            spec=_with_nics(self.spec, nic),
            scale_out_latency=self.scale_out_latency * scale_out_latency,
            accelerator=accelerator,
            nic=replace(self.nic, rate_bps=self.nic.rate_bps * nic),
            links=links,
            scale_up=replace(
                self.scale_up,
                rate_bps=self.scale_up.rate_bps * scale_up,
                latency_ps=round(self.scale_up.latency_ps * latency),
            ),
        )

    def without_scale_out_limits(self) -> Cluster:
        """The same machine with unlimited NICs and back-end network: rates `UNLIMITED` times higher, no latency."""
        return self.scaled(nic=UNLIMITED, fabric_tiers=UNLIMITED, scale_out_latency=1 / UNLIMITED)

    def _tier_factors(
        self, scale_up: float, nic: float, fabric_tiers: float | Mapping[str, float], storage: float
    ) -> NDArray[np.float64]:
        """float64[tiers]."""
        tiers = self.links.tiers
        access = {tier.name for tier in self.back_end.tiers if tier.kind == "access"}
        between = {tier.name for tier in self.back_end.tiers} - access
        shared = _by_tier(between, fabric_tiers)
        for name in shared:
            if name not in tiers:
                raise InputError(
                    f"there is no tier `{name}`", key="fabric_tiers", allowed=tiers, hint=did_you_mean(name, tiers)
                )
        factor = np.full(len(tiers), storage)
        for index, name in enumerate(tiers):
            if name == "scale-up":
                factor[index] = scale_up
            elif name in access:
                factor[index] = nic
            elif name in between:
                factor[index] = 1.0
            factor[index] *= shared.get(name, 1.0)
        if not (factor > 0).all():
            raise InputError("a factor is more than zero", key="fabric_tiers", found=fabric_tiers)
        return factor


def _check_domains(order: NDArray[np.int32], ranks: int, domain: int) -> None:
    number = np.arange(ranks)
    first = order[number // domain * domain] if len(order) == ranks else order
    complete = len(order) == ranks and bool((np.sort(order) == number).all())
    if not complete or not (first % domain == 0).all() or not (order == first + number % domain).all():
        raise InputError(f"an order of a cluster's accelerators keeps scale-up domains of {domain} together")


def _by_tier(between: set[str], factors: float | Mapping[str, float]) -> dict[str, float]:
    """Factors by tier name; a single one applies to all tiers between switches."""
    return dict.fromkeys(between, factors) if isinstance(factors, float | int) else dict(factors)


def _with_nics(spec: ClusterSpec, factor: float) -> ClusterSpec:
    """The spec with the requested NIC link rate, if there is one, multiplied."""
    asked_bps = spec.back_end.link_rate_bps
    return (
        spec if asked_bps is None else replace(spec, back_end=replace(spec.back_end, link_rate_bps=asked_bps * factor))
    )
