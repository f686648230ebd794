r"""Leafs or servers joined by optical circuits: switches of light make any pattern of direct links between them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from railyard.cluster.routes import RouteBuilder
from railyard.cluster.topology import clos
from railyard.cluster.topology.leaf_spine import LeafSpine
from railyard.cluster.topology.wiring import (
    ACCESS_RACK,
    Circuits,
    Endpoints,
    Parts,
    ServerCircuits,
    SwitchGroup,
    Tier,
    TopologySpec,
    Wiring,
    cables,
    divisors,
    impossible,
    topologies,
)
from railyard.kit.schema import field as f
from railyard.kit.schema.quantity import PORTS, TIME, limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster.routes import Routes

CIRCUIT = Tier("circuit", 60.0, fibre="fibre-duplex")
"""Modules of one fibre a direction: those of parallel fibres would take a port of the optical switch for each."""
NIC_CIRCUIT = replace(CIRCUIT, kind="access")
NIC_RELINK_PS = 5_670_000_000_000
"""Mean of 100 Gb/s NICs; 6.33 s is the 99th percentile (MixNet, SIGCOMM 2025, appendix C)."""
RELINK = TIME.within("0 s", "1 h", usual=("1 us", "10 s"), source="burst-mode receivers to NICs of today")


@dataclass(frozen=True)
class Optical:
    r"""Uplinks of leafs, or NICs of servers, end in optical circuit switches, which join them in pairs for the job.

        leaf 0     leaf 1     leaf 2     leaf 3        `ring`: each leaf to the next and the one before
         | |        | |        | |        | |          `mesh`: to all others, as evenly as the uplinks divide
        ===== optical circuit switches =====

    A circuit is a direct link for as long as the job runs; where two leafs have none, leafs between pass packets on.
    With fewer uplinks than other leafs a mesh joins leafs at evenly spread distances, so that few lie between any two.
    Making circuits takes the switch's time and that of the links to come up (`relink`); a job does so once, before it
    starts, and again around a dead leaf: the fault `reconfiguration` takes that time out of a step.

    With `nics`, so many NICs of every server end in optical switches themselves and need no leaf; circuits join servers
    of a region, and the other NICs are on a packet network. A server sends by the NICs that have a circuit to the other
    server, else by the packet network. Scale-up carries the bytes between these NICs and the accelerators.

    With `circuits: demand` they begin as a mesh and follow, exchange by exchange, what experts send in training; a
    change takes the switch's time and `relink`. `pairs`, for studies in Python, are the circuits of any two servers of
    each region, row by row.
    Source: Wang et al., "TopoOpt: Co-optimizing Network Topology and Parallelization Strategy for Distributed Training
    Jobs", NSDI 2023; Liao et al., "MixNet", SIGCOMM 2025.
    """

    kind: ClassVar[str] = "optical"

    circuits: str = field(
        default="mesh",
        metadata=f.choice(
            "circuits",
            "Which leafs circuits join: all others, or the next ones; with `nics`, also those that exchange most next",
            ("mesh", "ring", "demand"),
        ),
    )
    nics: int = field(
        default=0,
        metadata=f.count(
            "nics", "NICs of a server on the optical switch; 0: circuits join leafs", bounds=limits(0, 64)
        ),
    )
    region: int | None = field(
        default=None,
        metadata=f.count(
            "region",
            "With `nics`, consecutive servers that circuits join, such as those of a group of experts; all",
            bounds=limits(2, 1_000_000),
        ),
    )
    relink_ps: int = field(
        default=NIC_RELINK_PS,
        metadata=f.time(
            "relink", "With `demand`, from a new light path until its NICs carry data", "5.67 s", bounds=RELINK
        ),
    )
    pairs: tuple[tuple[int, ...], ...] = ()
    inner: TopologySpec = field(
        default_factory=LeafSpine,
        metadata=f.topology("inner", "With `nics`, topology of the other NICs: a kind, or kind and keys"),
    )
    switch: str = field(
        default="polatis-384", metadata=f.text("switch", "The optical circuit switch, from the catalogue")
    )
    oversubscription: float = clos.ratio(words="Capacity of a leaf down to NICs over that of its circuits")
    ports_per_leaf: int | None = field(
        default=None,
        metadata=f.count(
            "ports_per_leaf", "NIC ports of a leaf; as many as the oversubscription leaves room for", bounds=PORTS
        ),
    )
    uplink_bps: float | None = clos.uplink_rate()

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Keys that are given and change nothing, each with why."""
        if self.nics:
            why = "`inner` has the leafs of the packet network"
            given = {
                "oversubscription": self.oversubscription != 1.0,
                "ports_per_leaf": self.ports_per_leaf is not None,
                "uplink_rate": self.uplink_bps is not None,
            }
        else:
            why = "it needs `nics`"
            given = {"region": self.region is not None, "inner": self.inner != LeafSpine()}
        return tuple(f"`{key}` changes nothing: {why}" for key, is_given in given.items() if is_given)

    def build(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        """Wires the network; see `TopologySpec`."""
        if self.nics:
            return self._of_servers(endpoints, parts)
        if self.circuits == "demand":
            raise impossible(
                "circuits between leafs stay for the job",
                key="circuits",
                found=self.circuits,
                possible="write `nics`, or `mesh`",
            )
        uplink = parts.uplink(self.uplink_bps)
        down, leafs, up = clos.leaf_tier(endpoints, parts, self.ports_per_leaf, self.oversubscription, uplink)
        counts = self._counts(leafs, up)
        return _wired(endpoints, parts, _Leafs(down, counts, uplink), self.switch)

    def _of_servers(self, endpoints: Endpoints, parts: Parts) -> Wiring:
        servers, most = endpoints.servers, endpoints.nics - 1
        if not 0 < self.nics <= most:
            raise impossible(
                f"one of a server's {endpoints.nics} NICs stays on the packet network",
                key="nics",
                found=self.nics,
                possible=f"at most {most}" if most else "use servers with several NICs",
            )
        region = self.region or servers
        if servers % region or region < 2:
            raise impossible(
                f"regions of {region} do not divide {servers} servers",
                key="region",
                found=region,
                possible=f"possible: {', '.join(str(size) for size in divisors(servers)[1:]) or 'none for one server'}",
            )
        inner = self.inner.build(replace(endpoints, nics=endpoints.nics - self.nics), parts)
        if inner.classes is None or inner.circuits is not None:
            raise impossible(
                "the other NICs are on leafs and spines", key="inner", found=self.inner.kind, possible="a Clos family"
            )
        circuits = Circuits(self.switch, 0, dead_ps=self.relink_ps if self.circuits == "demand" else None)
        return _with_circuits(inner, (self._joined(region), self.nics), parts.link_bps, circuits)

    def _joined(self, region: int) -> NDArray[np.int64]:
        """int64[region, region], circuits between any two servers of a region."""
        if self.pairs:
            return self._given(region)
        counts = self._counts(region, self.nics) if self.nics > 1 or region == 2 else np.zeros(region, np.int64)
        if counts.sum() != self.nics:
            raise impossible(
                f"{self.nics} circuits a server do not join {region} servers evenly",
                key="nics",
                found=self.nics,
                possible="write an even number",
            )
        here = np.arange(region)
        joined: NDArray[np.int64] = counts[(here - here[:, None]) % region]
        return joined

    def _given(self, region: int) -> NDArray[np.int64]:
        pairs = np.array(self.pairs, np.int64)
        fits = pairs.shape == (region, region) and (pairs == pairs.T).all() and (pairs >= 0).all()
        if not fits or pairs.trace() or pairs.sum(axis=0).max() > self.nics:
            raise impossible(
                "circuits join two servers of a region, and each end takes a NIC",
                key="circuits",
                found=f"{pairs.shape[0]} rows",
                possible=f"{region} rows, alike both ways, nothing to itself, at most {self.nics} a row",
            )
        return pairs

    def _counts(self, leafs: int, up: int) -> NDArray[np.int64]:
        """int64[leafs], circuits of each leaf to the one so many places on; symmetric, so that both ends agree."""
        counts = np.zeros(leafs, np.int64)
        if leafs == 1:
            return counts
        if up < min(2, leafs - 1):
            raise impossible(
                "a leaf with a single uplink reaches only one other",
                key="oversubscription",
                found=self.oversubscription,
                possible="at least two uplinks a leaf",
            )
        pairs, even = (leafs - 1) // 2, leafs % 2 == 0
        if self.circuits == "ring" or leafs == 2:
            counts[[1, -1]] = up // 2 if leafs > 2 else up
            return counts
        every, rest = divmod(up, leafs - 1)
        counts[1:] = every
        more = min(rest // 2, pairs)
        if every == 0:
            more = max(more, 1)
        chosen = 1 + np.arange(more) * pairs // max(more, 1)
        counts[chosen] += 1
        counts[leafs - chosen] += 1
        if even and rest % 2:
            counts[leafs // 2] += 1
        return counts


class _Leafs(NamedTuple):
    """Ports of a leaf down to NICs, its circuits to the leaf so many places on (int64[leafs]), and their rate."""

    down: int
    counts: NDArray[np.int64]
    uplink_bps: float


def _wired(endpoints: Endpoints, parts: Parts, tier: _Leafs, switch: str) -> Wiring:
    down, counts, uplink_bps = tier
    port_of, extra = clos.consecutive(endpoints)
    leafs, used = len(counts), np.arange(endpoints.ports)
    low, high = [used], [endpoints.ports + used // down]
    for distance in range(1, leafs // 2 + 1):
        near = np.arange(leafs // 2 if 2 * distance == leafs else leafs)
        near = np.repeat(near, counts[distance])
        low.append(endpoints.ports + near)
        high.append(endpoints.ports + (near + distance) % leafs)
    source, target = cables(low, high)
    circuits = len(source) // 2 - endpoints.ports
    return Wiring(
        ports=endpoints.ports,
        port_of=port_of,
        extra=extra,
        nodes=endpoints.ports + leafs,
        groups=(SwitchGroup("leaf", 1, endpoints.ports, leafs, down + int(counts.sum()), parts.leaf.name),),
        source=source,
        target=target,
        line_bps=np.repeat([parts.link_bps, uplink_bps], [2 * endpoints.ports, 2 * circuits]),
        tier=np.repeat(np.arange(2, dtype=np.int16), [2 * endpoints.ports, 2 * circuits]),
        tiers=(ACCESS_RACK, CIRCUIT)[: 1 + (circuits > 0)],
        routing=_routes(endpoints.ports, down, counts, source, target),
        classes=np.arange(endpoints.ports + leafs, dtype=np.int32),
        bisection_bps=_bisection(counts) * uplink_bps if leafs > 1 else endpoints.ports // 2 * parts.link_bps,
        pod_ports=down,
        circuits=Circuits(switch, 2 * circuits, joined=leafs) if circuits else None,
    )


def _with_circuits(inner: Wiring, joined: tuple[NDArray[np.int64], int], link_bps: float, circuits: Circuits) -> Wiring:
    """A packet network, and further NICs of its servers with circuits between them.

    Args:
        inner: The packet network.
        joined: int64[region, region], circuits between any two servers of a region; NICs of a server for them.
        link_bps: Rate of a circuit, bit/s.
        circuits: The optical switch, without fibres and servers.
    """
    counts, nics = joined
    servers, region, here = len(inner.port_of), len(counts), np.arange(len(counts))
    optical = inner.ports + np.arange(servers * nics).reshape(servers // region, region * nics)
    away = counts[here[:, None], (here[:, None] + here) % region]
    first = np.cumsum(away, axis=1) - away
    low, high = [], []
    for distance in range(1, region // 2 + 1):
        near = here[: region // 2] if 2 * distance == region else here
        count = away[near, distance]
        turn = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        near = np.repeat(near, count)
        far = (near + distance) % region
        low.append(optical[:, near * nics + first[near, distance] + turn].ravel())
        high.append(optical[:, far * nics + first[far, region - distance] + turn].ravel())
    source, target = cables(low, high)
    ports = inner.ports + optical.size
    peer = np.full(ports, -1, np.int32)
    peer[source] = target
    port_of = np.concatenate([inner.port_of, optical.reshape(servers, nics)], axis=1).astype(np.int32)

    def moved(node: NDArray[np.integer]) -> NDArray[np.int32]:
        return np.where(node < inner.ports, node, node + optical.size).astype(np.int32)

    half = (np.stack([source, target]) - inner.ports) // nics < servers // 2
    table, builder = inner.routing, RouteBuilder(ports)
    kept = builder.flat(table.choices.astype(np.int64)) + table.first
    builder.records(moved(table.record_node), table.lo, table.hi, kept, width=table.width, stride=table.stride)
    own = builder.choices((inner.links + np.arange(len(source)))[:, None])
    builder.records(source, target, target + 1, own, width=1, stride=1)
    return replace(
        inner,
        ports=ports,
        port_of=port_of,
        nodes=inner.nodes + optical.size,
        groups=tuple(replace(group, first=group.first + optical.size) for group in inner.groups),
        source=np.concatenate([moved(inner.source), source]),
        target=np.concatenate([moved(inner.target), target]),
        line_bps=np.concatenate([inner.line_bps, np.full(len(source), link_bps)]),
        tier=np.concatenate([inner.tier, np.full(len(source), len(inner.tiers), np.int16)]),
        tiers=(*inner.tiers, NIC_CIRCUIT),
        routing=builder.build(inner.nodes + optical.size),
        classes=None,
        bisection_bps=inner.bisection_bps + np.count_nonzero(half[0] & ~half[1]) * link_bps,
        circuits=replace(
            circuits,
            fibres=optical.size,
            joined=region,
            servers=ServerCircuits(port_of, inner.port_of.shape[1], peer, counts),
        ),
    )


def _bisection(counts: NDArray[np.int64]) -> int:
    """Circuits between the first half of the leafs and the others."""
    leafs, half = len(counts), len(counts) // 2
    here = np.arange(half)[:, None]
    return int(counts[(np.arange(half, leafs) - here) % leafs].sum())


def _routes(
    ports: int, down: int, counts: NDArray[np.int64], source: NDArray[np.int32], target: NDArray[np.int32]
) -> Routes:
    """Each leaf to its own ports, and to those of others over all circuits on a shortest way there."""
    leafs, used = len(counts), np.arange(ports)
    builder = RouteBuilder(ports)
    builder.records(used, 0, ports, builder.choices(2 * used[:, None]), width=1, stride=ports)
    leaf = np.arange(leafs)
    port = leaf[:, None] * down + np.arange(down)
    own = builder.choices(np.where(port < ports, 2 * port + 1, -1))
    builder.records(ports + leaf, leaf * down, np.minimum((leaf + 1) * down, ports), own, width=1, stride=1)
    between = np.flatnonzero((source >= ports) & (target >= ports))
    step = (target[between] - source[between]) % leafs
    order = np.lexsort((step, source[between]))
    links, step = between[order].reshape(leafs, -1), step[order].reshape(leafs, -1)
    hops = _hops(counts)
    for away in range(1, leafs):
        nearer = hops[(away - step[0]) % leafs] == hops[away] - 1
        there = (leaf + away) % leafs * down
        first = builder.choices(links[:, nearer])
        builder.records(
            ports + leaf, there, np.minimum(there + down, ports), first, width=int(nearer.sum()), stride=ports
        )
    return builder.build(ports + leafs)


def _hops(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[leafs], circuits on a shortest way to the leaf so many places on."""
    leafs = len(counts)
    steps = np.flatnonzero(counts)
    hops = np.full(leafs, -1, np.int64)
    hops[0], front = 0, np.zeros(1, np.int64)
    while len(front):
        reached = np.unique((front[:, None] + steps) % leafs)
        fresh = reached[hops[reached] < 0]
        hops[fresh] = hops[front[0]] + 1
        front = fresh
    return hops


topologies.add(Optical.kind, Optical)
