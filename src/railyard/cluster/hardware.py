"""Servers of a cluster and their parts: how many there are, and the bandwidth that reaches the network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from railyard.cluster import spec as override
from railyard.cluster.links import Csr
from railyard.kit.errors import InputError
from railyard.kit.quantities import format_money

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.catalog import Accelerator, Catalog, Nic, Server
    from railyard.cluster.fabric.fabric import Fabric
    from railyard.cluster.links import Integers
    from railyard.cluster.scale_up.fabric import JoinedScaleUp
    from railyard.cluster.spec import ClusterSpec
    from railyard.cluster.topology.torus import TorusPaths


Kind = Literal["switched", "mesh", "torus", "none"]

LINK_CEILING = 0.87
"""Share of a switched scale-up link's rate that data can reach: copies reach 392 of 450 GB/s (H100) and 777 of 900
(GB200)."""


@dataclass(frozen=True, eq=False)
class ScaleUp:
    """Domains of consecutive ranks; the last may be smaller.

    switched: every rank has one link to the domain's switches and one back, each at its full one-way rate.
    mesh:     one link per ordered pair of a domain, each at the rate divided by `peers`.
    none:     domains of one rank, with no scale-up links.

    Attributes:
        rate_bps: One way, all links of a rank together.
        nvls: Whether the switches multicast and reduce.
        peers: For a mesh: number of peers that share a rank's rate; a partly used domain has just as many.
        ceiling: For a switched domain: share of the rate that data reaches.
        longer_ps: One way, what it takes beyond the links on which the accelerator's library was measured.
    """

    kind: Kind
    ranks: int
    domain: int
    rate_bps: float
    latency_ps: int
    first_link: int = 0
    nvls: bool = False
    peers: int = 1
    ceiling: float = LINK_CEILING
    longer_ps: int = 0
    torus: TorusPaths | None = field(default=None, repr=False)

    @property
    def domains(self) -> int:
        """Number of domains."""
        return -(-self.ranks // self.domain)

    @property
    def links(self) -> int:
        """Number of directed links."""
        if self.kind == "switched":
            return 2 * self.ranks
        if self.kind == "mesh":
            return self.ranks * (self.domain - 1)
        return self.torus.links if self.torus is not None else 0

    def egress(self, rank: Integers) -> NDArray[np.int32]:
        """Link from each rank to its switch.

        Raises:
            ValueError: The domain has no switch.
        """
        self._need_switch()
        return (self.first_link + 2 * np.asarray(rank, np.int64)).astype(np.int32)

    def ingress(self, rank: Integers) -> NDArray[np.int32]:
        """Link from the switch to each rank.

        Raises:
            ValueError: The domain has no switch.
        """
        self._need_switch()
        return (self.first_link + 2 * np.asarray(rank, np.int64) + 1).astype(np.int32)

    def _need_switch(self) -> None:
        if self.kind != "switched":
            raise ValueError(f"a domain of kind `{self.kind}` has no switch")

    def same_domain(self, src: Integers, dst: Integers) -> NDArray[np.bool_]:
        """Whether two ranks share a domain."""
        same: NDArray[np.bool_] = np.asarray(src) // self.domain == np.asarray(dst) // self.domain
        return same

    def path(self, src: Integers, dst: Integers) -> Csr:
        """Links of each transfer within a domain.

        Args:
            src: int32[transfers], sending ranks.
            dst: int32[transfers], receiving ranks.

        Raises:
            InputError: A pair does not share a domain.
        """
        src, dst = np.asarray(src, np.int64), np.asarray(dst, np.int64)
        if not (inside := self.same_domain(src, dst)).all():
            bad = int(np.flatnonzero(~inside)[0])
            raise InputError(f"ranks {src[bad]} and {dst[bad]} are not in one scale-up domain of {self.domain}")
        if self.torus is not None:
            return self.torus.path(src, dst, self.first_link)
        away = src != dst
        if self.kind == "switched":
            link = np.stack([self.first_link + 2 * src, self.first_link + 2 * dst + 1], axis=1)
            return Csr(np.concatenate([[0], np.cumsum(2 * away)]), link[away].ravel().astype(np.int32))
        link = self.pair(src, dst)
        return Csr(np.concatenate([[0], np.cumsum(away)]), link[away].astype(np.int32))

    def pair(self, src: Integers, dst: Integers) -> Integers:
        """Link of each ordered pair of a full mesh: `domain - 1` links per rank, in the order of the peers."""
        peer = dst % self.domain
        return self.first_link + src * (self.domain - 1) + peer - (peer > src % self.domain)

    def ends(self, first_switch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Nodes at both ends of every link; switch `d` of domain `d` is node `first_switch + d`."""
        rank = np.arange(self.ranks)
        if self.kind == "switched":
            switch = first_switch + rank // self.domain
            return np.stack([rank, switch], axis=1).ravel(), np.stack([switch, rank], axis=1).ravel()
        if self.kind == "mesh":
            source = np.repeat(rank, self.domain - 1)
            peer = np.tile(np.arange(self.domain - 1), self.ranks)
            local = source % self.domain
            return source, source - local + peer + (peer >= local)
        if self.torus is not None:
            return self.torus.ends()
        return np.empty(0, np.int64), np.empty(0, np.int64)

    def rates_bps(self) -> NDArray[np.float64]:
        """float64[links], rate of each link, one way."""
        if self.torus is not None:
            return np.full(self.links, self.torus.link_bps)
        return np.full(self.links, self.rate_bps / (self.peers if self.kind == "mesh" else 1))

    @property
    def switches(self) -> int:
        """Number of nodes that represent a domain's switches."""
        return self.domains if self.kind == "switched" else 0


def _used(accelerator: Accelerator, server: Server, used: int | None) -> int:
    """Ranks per domain in use: only switched domains of several servers can be partly used, in whole servers."""
    domain, step = server.scale_up_domain, server.accelerators
    if used is None or used == domain:
        return domain
    if accelerator.scale_up_kind != "switched" or domain <= step:
        raise InputError(
            "only scale-up domains of several servers that share a switch can be used in part",
            key="ranks_per_domain",
            found=used,
            hint=f"leave it out: a domain of {server.name} is {domain} accelerators",
        )
    if not 0 < used <= domain or used % step:
        near = min(max(used // step * step, step), domain)
        raise InputError(
            f"a domain of {server.name} holds {domain} accelerators in servers of {step}, and a job takes all of one",
            key="ranks_per_domain",
            found=used,
            allowed=f"multiples of {step} up to {domain}",
            hint=f"nearest possible: {near}",
        )
    return used


def scale_up_of(
    accelerator: Accelerator,
    server: Server,
    ranks: int,
    used: int | None = None,
    joined: JoinedScaleUp | None = None,
) -> ScaleUp:
    """The scale-up domains of a cluster, with links counted from 0.

    Accelerators without scale-up links reach the others of their server over PCIe, which acts as a switch. Tori are
    equal slices: the largest that divide the cluster and do not exceed the domain.

    Args:
        accelerator: Its link type and rate.
        server: Its domain.
        ranks: Ranks of the cluster.
        used: Ranks of each domain that the job uses; None uses all.
        joined: The fabric in place of the server's own; None: its own.

    Raises:
        InputError: The accelerators do not fill whole meshes, or a domain cannot be partly used as requested.
    """
    kind = accelerator.scale_up_kind
    domain = max(1, min(_used(accelerator, server, used), ranks))
    rate = accelerator.scale_up_bps
    latency = accelerator.scale_up_latency_ps
    if kind == "none" or server.scale_up_domain <= 1:
        domain = max(1, min(server.accelerators, ranks))
        kind, rate = ("switched" if domain > 1 else "none"), server.pcie_bps
    if kind == "torus":
        domain = max(size for size in range(1, domain + 1) if ranks % size == 0)
    if kind == "mesh" and ranks % domain:
        raise InputError(
            f"a full mesh joins {domain} accelerators, and the count must be a multiple of that",
            key="accelerators",
            found=ranks,
            hint=f"nearest possible: {ranks // domain * domain} or {(ranks // domain + 1) * domain}",
        )
    if kind == "torus":
        from railyard.cluster.topology.torus import TorusPaths

        torus = TorusPaths.of(domain, ranks // domain, rate, accelerator.scale_up_links)
        return ScaleUp("torus", ranks, domain, rate, latency, torus=torus)
    if kind == "mesh":
        return ScaleUp("mesh", ranks, domain, rate, latency, peers=max(1, server.scale_up_domain - 1))
    if kind == "none":
        return ScaleUp("none", ranks, 1, rate, latency)
    ceiling = LINK_CEILING if joined is None else joined.fabric.efficiency()
    longer_ps = 0 if joined is None else joined.longer_ps
    return ScaleUp(
        "switched", ranks, domain, rate, latency, nvls=accelerator.nvls, ceiling=ceiling, longer_ps=longer_ps
    )


@dataclass(frozen=True, eq=False)
class Hardware:
    """Servers, accelerators and NICs.

    Attributes:
        accelerator: Catalogue entry with the scenario's overrides.
        nic: Back-end NIC, with overrides.
        nic_bps: Rate at which one back-end NIC moves data between the wire and memory, bit/s, one way: its line rate or
            its share of PCIe.
        scale_up: Domains, with links counted from 0.
        idle_servers: Servers of the domains that the job leaves unused (see `ClusterSpec.ranks_per_domain`); a domain
            that is not filled to the number asked for has none.
        joined: The scale-up fabric in place of the server's own; None: its own.
    """

    accelerator: Accelerator
    server: Server
    nic: Nic
    front_end_nic: Nic
    ranks: int
    per_server: int
    nics: int
    nic_bps: float
    scale_up: ScaleUp
    idle_servers: int = 0
    joined: JoinedScaleUp | None = None

    @property
    def servers(self) -> int:
        """Servers in the cluster."""
        return self.ranks // self.per_server

    def misplaced(self, fabric: Fabric, catalog: Catalog) -> Iterator[str]:
        """A remark if the NICs cannot reorder the fabric's packets, with the price of the maker's cheapest that can."""
        best, usd = self._fitting(fabric, catalog), self.fitting_nics_usd(fabric, catalog)
        if best is self.nic:
            return
        instead = f"; the catalogue has none of {self.nic.vendor} that does"
        if best is not None and usd is not None:
            more = f"{format_money(abs(usd))} {'more' if usd > 0 else 'less'}"
            instead = f"; {best.name} does, for {more} (`cluster.overrides.server.nic`)"
        where = "InfiniBand" if "infiniband" in fabric.families else "Ethernet"
        yield f"{self.nic.name} does not place packets out of order on {where}, as this fabric needs{instead}"

    def fitting_nics_usd(self, fabric: Fabric, catalog: Catalog) -> float | None:
        """What NICs that order the packets of a fabric would cost more, USD; None if these do, or none is known."""
        best = self._fitting(fabric, catalog)
        if best is None or best is self.nic:
            return None
        return (best.price_usd.typical - self.nic.price_usd.typical) * self.nics * self.servers

    def _fitting(self, fabric: Fabric, catalog: Catalog) -> Nic | None:
        """The NIC if it orders the packets of a fabric, else its maker's cheapest that does; None without one."""
        if fabric.placed_by(self.nic):
            return self.nic
        found = map(catalog.nic, catalog.names("nics"))
        like = [nic for nic in found if _kind(nic) == _kind(self.nic) and fabric.placed_by(nic)]
        return min(like, key=lambda nic: nic.price_usd.typical, default=None)

    @property
    def idle(self) -> int:
        """Accelerators of idle servers."""
        return self.idle_servers * self.server.accelerators

    @classmethod
    def of(cls, spec: ClusterSpec, catalog: Catalog) -> Hardware:
        """The hardware of a spec, from the catalog with the spec's overrides.

        Raises:
            InputError: A name is unknown, or the accelerators do not fill whole servers.
        """
        override.check(spec.overrides)
        server = override.overridden(_server(catalog, spec.server), spec.overrides.get("server", {}), "server")
        accelerator = catalog.accelerator(server.accelerator)
        joined = None if spec.scale_up is None else spec.scale_up.joined(accelerator, server, catalog)
        if joined is not None:
            server, accelerator = joined.server, joined.accelerator
        accelerator = override.overridden(accelerator, spec.overrides.get("accelerator", {}), "accelerator")
        nic = override.overridden(catalog.nic(server.nic), spec.overrides.get("nic", {}), "nic")
        per_server = _per_server(spec.accelerators, server)
        nics = max(1, server.nics * per_server // server.accelerators)
        used = spec.ranks_per_domain or server.scale_up_domain
        pcie_share = server.pcie_bps * min(1.0, per_server / nics)
        return cls(
            accelerator=accelerator,
            server=server,
            nic=nic,
            front_end_nic=catalog.nic(server.front_end_nic),
            ranks=spec.accelerators,
            per_server=per_server,
            nics=nics,
            nic_bps=min(nic.rate_bps, pcie_share),
            scale_up=scale_up_of(accelerator, server, spec.accelerators, spec.ranks_per_domain, joined),
            idle_servers=spec.accelerators // used * ((server.scale_up_domain - used) // server.accelerators),
            joined=joined,
        )


def _kind(nic: Nic) -> tuple[str, float, int]:
    return nic.vendor, nic.rate_bps, nic.ports


def _server(catalog: Catalog, name: str) -> Server:
    try:
        return catalog.server(name)
    except InputError as error:
        raise error.located(key="server") from None


def _per_server(ranks: int, server: Server) -> int:
    """Accelerators in use in each server: all, or fewer if the cluster is a single server."""
    if ranks < 1:
        raise InputError("a cluster has at least one accelerator", key="accelerators", found=ranks)
    if ranks <= server.accelerators:
        return ranks
    if ranks % server.accelerators:
        below = ranks // server.accelerators * server.accelerators
        raise InputError(
            f"{server.name} holds {server.accelerators} accelerators, and a job takes entire servers",
            key="accelerators",
            found=ranks,
            hint=f"nearest possible: {below} or {below + server.accelerators}",
        )
    return server.accelerators
