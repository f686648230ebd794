"""The networks of a serving scenario: the cluster's, those of pools that have their own, and the gateway between them.

Each network is a cluster with links of its own; here they stand one behind the other in one table, so that transfers
within and between them share links. Every network has as many ports to the gateway as it has links; link p of the
gateway leads from port p of one network to port p of the other, with a direction each way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

import railyard.cluster as clusters
from railyard.cluster.names import link_name
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Catalog
    from railyard.cluster import Cluster
    from railyard.work.serving.section import GatewaySection, PoolSection, ServingSection


@dataclass(frozen=True, eq=False)
class ServingNetworks:
    """Clusters side by side.

    Attributes:
        clusters: The scenario's first, then those of pools with a network of their own.
        names: Of the clusters: empty, and the roles of the pools.
        gateway: What joins them, or None.
    """

    clusters: tuple[Cluster, ...]
    names: tuple[str, ...]
    gateway: GatewaySection | None = None

    @property
    def offsets(self) -> NDArray[np.int64]:
        """First link of each cluster, and of the gateway."""
        return np.cumsum([0, *(len(cluster.links) for cluster in self.clusters)])

    @property
    def width(self) -> int:
        """All links."""
        return int(self.offsets[-1]) + (0 if self.gateway is None else 2 * self.gateway.links * len(self.clusters))

    def rate_bps(self) -> NDArray[np.float64]:
        """Rates of all links."""
        rates = [np.asarray(cluster.links.rate_bps, np.float64) for cluster in self.clusters]
        if self.gateway is not None:
            rates.append(np.full(2 * self.gateway.links * len(self.clusters), self.gateway.rate))
        return np.concatenate(rates)

    def gateway_link(self, network: int, port: NDArray[np.int64], *, out: bool) -> NDArray[np.int64]:
        """Links of the gateway from a network's ports, or to them."""
        links = 0 if self.gateway is None else self.gateway.links
        first = int(self.offsets[-1]) + (2 * network + (not out)) * links
        return first + port

    def gateway_ports(self, network: int) -> NDArray[np.int32]:
        """int32[links of the gateway], the ports of a network that lead to it."""
        extra = self.clusters[network].back_end.extra_ports
        return extra[len(extra) - (0 if self.gateway is None else self.gateway.links) :]

    def name(self, link: int) -> tuple[str, str]:
        """A link's name for people, and its tier."""
        offsets = self.offsets
        if link >= offsets[-1] and self.gateway is not None:
            direction, port = divmod(int(link - offsets[-1]), self.gateway.links)
            network, back = divmod(direction, 2)
            there = self.names[network] or "the cluster"
            return f"gateway link {port} {'to' if back else 'from'} {there}", "gateway"
        network = int(np.searchsorted(offsets, link, side="right")) - 1
        cluster, local = self.clusters[network], int(link - offsets[network])
        prefix = f"{self.names[network]}: " if self.names[network] else ""
        return prefix + link_name(cluster, local), prefix + cluster.links.tiers[cluster.links.tier[local]]


def networks_of(
    serving: ServingSection, catalog: Catalog, cluster: Cluster, needs: dict[str, tuple[int, ...]]
) -> ServingNetworks:
    """The networks of a scenario.

    Args:
        serving: As written.
        catalog: Where servers are looked up.
        cluster: The scenario's.
        needs: By role of a pool with a network of its own: accelerators of a replica that lie together, side by side.

    Raises:
        InputError: One cannot be built, or two are not joined.
    """
    gateway = serving.gateway
    if not needs:
        if gateway is not None:
            raise InputError(
                "a gateway joins networks, and no pool has one of its own",
                key="gateway",
                hint="give a pool its `network`, or leave `gateway` out",
            )
        return ServingNetworks((cluster,), ("",))
    if gateway is None and {"prefill", "decode"} & set(needs):
        raise InputError(
            "prefill and decode are on different networks: a `gateway` must join them",
            key="gateway",
            hint="write for example `gateway: {links: 8, rate: 400 Gb/s}`",
        )
    ports = 0 if gateway is None else gateway.links
    try:
        built = [
            clusters.build(replace(cluster.spec, gateway_ports=ports), catalog, cluster.placement) if ports else cluster
        ]
    except InputError as error:
        raise _described(error, "gateway", ports) from None
    for role, sides in needs.items():
        try:
            built.append(_separate(getattr(serving.pools, role), catalog, cluster, sides, ports))
        except InputError as error:
            raise _described(error, f"pools.{role}.network", ports) from None
    return ServingNetworks(tuple(built), ("", *needs), gateway)


def _described(error: InputError, key: str, ports: int) -> InputError:
    """Errors of a network with ports to a gateway, at its place in the scenario."""
    here = [(problem.key or "").removeprefix("back_end.") if key != "gateway" else "" for problem in error.problems]
    given = f" (with {ports} to the gateway)" if ports else ""
    return InputError.many(
        replace(problem, key=".".join(filter(None, (key, inner))), message=problem.message + given)
        for problem, inner in zip(error.problems, here, strict=True)
    )


def _separate(section: PoolSection, catalog: Catalog, cluster: Cluster, sides: tuple[int, ...], ports: int) -> Cluster:
    """A cluster of as many servers as the pool's replicas fill."""
    if section.network is None or section.replicas is None:
        raise InputError("a pool with a network of its own says how many `replicas` it has")
    server = catalog.server(section.server or cluster.spec.server)
    ranks = 0
    for each in sides:
        ranks += _filled(section.replicas, each, max(server.scale_up_domain, server.accelerators), server.accelerators)
    return clusters.build(
        replace(
            cluster.spec,
            accelerators=ranks,
            server=server.name,
            back_end=section.network.spec(),
            front_end=None,
            storage=None,
            memory_pool=None,
            ocs=None,
            overrides=cluster.spec.overrides if section.server is None else {},
            background=(),
            ranks_per_domain=None,
            gateway_ports=ports,
        ),
        catalog,
        cluster.placement,
    )


def _filled(replicas: int, each: int, domain: int, total: int) -> int:
    """Accelerators of whole servers that so many replicas take, none across two domains that it fits into."""
    fit = domain // each
    ranks = replicas * each if fit == 0 else replicas // fit * domain + replicas % fit * each
    return math.ceil(ranks / total) * total
