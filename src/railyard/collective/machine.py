"""What the time of a collective depends on, boiled down from a cluster to a small frozen record."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from railyard.cluster.hardware import LINK_CEILING
from railyard.collective.constants import MEASURED, LogConstants

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.graph import CollectiveKind


@dataclass(frozen=True)
class Transport:
    """A transport, by the settings that its maker documents for the library.

    Attributes:
        name: What its maker calls it.
        nics: Catalogue names of its NICs.
        servers: Catalogue names of the servers with it; empty for every one with that NIC.
        protocols: Those that the library may take between domains.
        families: Of algorithms that it may take between domains; empty for all.
        datagrams: Whether libfabric's reliable datagrams carry messages, which adds `LogConstants.efa_us` to a step.
    """

    name: str
    nics: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ("ll", "ll128", "simple")
    families: tuple[str, ...] = ()
    datagrams: bool = False


VERBS = Transport("verbs")
"""RDMA verbs: everything."""

TRANSPORTS = (
    # Its datagrams arrive in any order, which LL and LL128 cannot stand: the plugin for the first EFA (P4d, P4de) sets
    # NCCL_PROTO to Simple, and exempts P5 (aws-ofi-nccl, issue 76 and pull request 280).
    Transport("EFA, first generation", ("efa-v1-100g",), protocols=("simple",), datagrams=True),
    Transport("EFA", ("efa-v2-100g", "efa-v3-200g", "efa-v4-400g"), datagrams=True),
    # Google's launch scripts of A3 High: NCCL_ALGO=Ring, NCCL_PROTO=Simple, NCCL_NVLS_ENABLE=0.
    Transport("GPUDirect-TCPX", ("gvnic-200g",), ("gcp-a3-high",), ("simple",), ("ring", "peer")),
    # Those of A3 Mega: NCCL_ALGO=Ring,Tree, NCCL_NVLS_ENABLE=0, and NCCL_PROTO=Simple,LL128 with its tuner for LL128.
    Transport("GPUDirect-TCPXO", ("gvnic-200g",), ("gcp-a3-mega",), ("ll128", "simple"), ("ring", "tree", "peer")),
)


def transport_of(nic: str, server: str) -> Transport:
    """The transport of a NIC in a server, both by catalogue name."""
    found = (one for one in TRANSPORTS if nic in one.nics and (not one.servers or server in one.servers))
    return next(found, VERBS)


Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """Where the members of a communicator sit. A *position* is an index into its members in ascending rank order.

    Members of one scale-up domain have consecutive positions, because ranks are numbered server by server.

    Attributes:
        ranks: Members, at least 1.
        domains: Scale-up domains that hold a member; a library calls them nodes.
        per_domain: Members in the fullest domain.
        uneven: Members of each domain when they differ, else empty.
        aligned: Every domain holds members at the same local indices, so that equal indices are on one rail.
        ports: Distinct NIC ports that the members of the first domain own together.
        scale_up: "switched", "mesh", "torus" or "none".
        torus: Ranks along each axis when the members fill one torus, first axis fastest; else empty.
    """

    ranks: int
    domains: int
    per_domain: int
    uneven: tuple[int, ...] = ()
    aligned: bool = True
    ports: int = 1
    scale_up: str = "switched"
    torus: tuple[int, ...] = ()

    @staticmethod
    def grid(domains: int, per_domain: int, *, ports: int | None = None, scale_up: str = "switched") -> Shape:
        """The even shape: `per_domain` members in each of `domains` domains, each with a NIC port of its own."""
        return Shape(
            ranks=domains * per_domain,
            domains=domains,
            per_domain=per_domain,
            ports=per_domain if ports is None else ports,
            scale_up=scale_up,
        )

    @cached_property
    def counts(self) -> Ints:
        """Members of each domain, int64[domains]."""
        if self.uneven:
            return np.asarray(self.uneven, np.int64)
        return np.full(self.domains, self.per_domain, np.int64)

    @cached_property
    def offsets(self) -> Ints:
        """First position of each domain, int64[domains]."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts)[:-1]])

    @cached_property
    def domain_of(self) -> Ints:
        """Domain of each position, int64[ranks]."""
        return np.repeat(np.arange(self.domains), self.counts)

    @property
    def even(self) -> bool:
        """Whether every domain holds the same number of members."""
        return not self.uneven


LIBRARIES = {"nvidia": "nccl", "amd": "rccl"}


@dataclass(frozen=True)
class CollectiveMachine:
    """A cluster as a collective library sees it; two clusters that agree here time collectives alike.

    Attributes:
        architecture: Of the accelerator, by which libraries choose their constants.
        library: "nccl", "rccl" or "other"; whose choice of algorithm is followed. Neither of the first two knows a
            torus.
        scale_up: "switched", "mesh", "torus" or "none".
        pcie: Whether what joins a server's ranks is PCIe.
        domain: Ranks of a scale-up domain.
        peers: Of a mesh: ranks that share a rank's scale-up rate.
        scale_up_bps: Of one rank, one way, all links, as specified.
        plan_bps: The same as a library plans with it.
        scale_up_latency_ps: One way between two ranks of a domain.
        latency_factor: What-if factor on latencies inside domains, 1 for a cluster as it is.
        nvls: Whether the scale-up switch reduces.
        nic_bps: Of a server's slowest NIC port, one way, on the wire, as far as its host can use it. Faults of links
            do not change it: they slow the flows that cross these links, and no other job's plan.
        payload_efficiency: Share of the wire rate that is payload.
        path_latency_ps: One way between two ranks of different domains, near and far ones alike, no queue.
        next_latency_ps: The same between a domain and the next one.
        sharp: Whether the network's switches reduce.
        transport: What carries its messages between domains, and what that leaves the library to choose.
        measured: Constants of its library that were read off logs.
        nic_factor: What-if factor on the library's own steps through NICs.
        ceiling: Share of the rate of switched scale-up links that data reaches.
        longer_us: What these links take one way beyond those on which the library was measured, us.
    """

    architecture: str
    library: str
    scale_up: str
    pcie: bool
    domain: int
    peers: int
    scale_up_bps: float
    plan_bps: float
    scale_up_latency_ps: int
    latency_factor: float
    nvls: bool
    nic_bps: float
    payload_efficiency: float
    path_latency_ps: int
    next_latency_ps: int
    sharp: bool
    transport: Transport = VERBS
    measured: LogConstants = field(default=MEASURED, hash=False)
    nic_factor: float = 1.0
    ceiling: float = LINK_CEILING
    longer_us: float = 0.0

    def software_us(self, protocol: str) -> float:
        """A step through a NIC without its path, us."""
        stack_us = self.measured.efa_us if self.transport.datagrams else 0.0
        return self.nic_factor * (self.measured.software_us[protocol] + stack_us)


@dataclass(frozen=True)
class Case:
    """What is to be timed: a kind of collective on a shape on a machine, by a version of the library (major, minor)."""

    machine: CollectiveMachine
    shape: Shape
    kind: CollectiveKind
    version: tuple[int, int] = (2, 30)

    @property
    def measured(self) -> LogConstants:
        """Constants of the machine's library that were read off logs."""
        return self.machine.measured


def machine_of(cluster: Cluster, measured: LogConstants = MEASURED) -> CollectiveMachine:
    """The record of a cluster, and of what was measured of its library."""
    accelerator, scale_up, network = cluster.accelerator, cluster.scale_up, cluster.back_end
    ports = network.port_of_rank[:, 0]
    rates = [_rate_bps(cluster, int(port)) for port in ports[: cluster.ranks_per_server]]
    slowest = int(np.argmin(rates))
    other = np.array([cluster.servers - 1, min(1, cluster.servers - 1)]) * cluster.ranks_per_server + slowest
    far_ps, next_ps = network.path_latency_ps(ports[[slowest, slowest]], ports[other])
    return CollectiveMachine(
        architecture=accelerator.architecture.lower(),
        library="other" if scale_up.kind == "torus" else LIBRARIES.get(accelerator.vendor.lower(), "other"),
        scale_up=scale_up.kind,
        pcie=accelerator.scale_up_kind == "none",
        domain=scale_up.domain,
        peers=scale_up.peers if scale_up.kind == "mesh" else max(scale_up.domain - 1, 1),
        scale_up_bps=scale_up.rate_bps,
        plan_bps=min(accelerator.scale_up_collective_bps, scale_up.rate_bps),
        scale_up_latency_ps=scale_up.latency_ps,
        latency_factor=_latency_factor(cluster),
        nvls=scale_up.nvls,
        nic_bps=rates[slowest],
        payload_efficiency=network.fabric.payload_efficiency,
        path_latency_ps=int(far_ps),
        next_latency_ps=int(next_ps),
        sharp=network.fabric.sharp,
        transport=transport_of(cluster.nic.name, cluster.hardware.server.name),
        measured=measured,
        nic_factor=cluster.scale_out_latency,
        ceiling=scale_up.ceiling,
        longer_us=scale_up.longer_ps * 1e-6,
    )


def _rate_bps(cluster: Cluster, port: int) -> float:
    out, _ = cluster.back_end.port_links(port)
    return float(cluster.links.healthy_bps[out].sum())


def _latency_factor(cluster: Cluster) -> float:
    nominal = cluster.hardware.accelerator.scale_up_latency_ps
    return cluster.scale_up.latency_ps / nominal if nominal else 1.0
