"""What the steps of an algorithm pay for the paths between domains, which may be in other buildings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import CsrWeighted
from railyard.cluster.topology.torus import near_cube
from railyard.collective.lowering.routes import Legs, through_peers
from railyard.collective.machine import Shape
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.lowering.routes import LinkLoads
    from railyard.graph import Communicators

    Floats = NDArray[np.float64]
    from railyard.cluster import Network


@dataclass(frozen=True)
class CommunicatorClass:
    """Communicators that differ only in which servers their ranks sit on.

    Attributes:
        index: int64[c], the communicators.
        members: int64[c, ranks], their ranks, ascending; column = position.
    """

    shape: Shape
    index: NDArray[np.int64]
    members: NDArray[np.int64]

    def part(self, chosen: slice | NDArray[np.int64]) -> CommunicatorClass:
        """Some of the communicators."""
        return CommunicatorClass(self.shape, self.index[chosen], self.members[chosen])


def shape_of(cluster: Cluster, ranks: NDArray[np.int32]) -> Shape:
    """The shape of one communicator.

    Raises:
        InputError: A rank occurs twice or is not in the cluster.
    """
    members = np.sort(np.asarray(ranks, np.int64))[None, :]
    return _split(cluster, np.zeros(1, np.int64), members)[0].shape


def groups(cluster: Cluster, communicators: Communicators, used: NDArray[np.int64]) -> list[CommunicatorClass]:
    """Groups the communicators `used`.

    Raises:
        InputError: A communicator has no rank, a rank twice, or one that is not in the cluster.
    """
    sizes = np.diff(communicators.ptr)[used]
    out: list[CommunicatorClass] = []
    for size in np.unique(sizes):
        index = used[sizes == size]
        if size == 0:
            raise InputError("a communicator has no ranks", key=f"communicators[{index[0]}]")
        members = communicators.ranks[communicators.ptr[index][:, None] + np.arange(size)].astype(np.int64)
        out += _split(cluster, index, np.sort(members, axis=1))
    return out


def _split(cluster: Cluster, index: NDArray[np.int64], members: NDArray[np.int64]) -> list[CommunicatorClass]:
    """Communicators of one size by shape."""
    _check(cluster, index, members)
    domain = cluster.scale_up_domain
    starts = np.diff(members // domain, axis=1) != 0
    local = members % domain
    ports = _distinct_ports(cluster, members, starts)
    key = np.concatenate([starts, ports[:, None] != ports.max(), _aligned(starts, local)[:, None]], axis=1)
    packed = np.packbits(key, axis=1)
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    out = []
    for number, sample in enumerate(first):
        rows = np.flatnonzero(inverse.ravel() == number)
        for count in np.unique(ports[rows]):
            same = rows[ports[rows] == count]
            shape = _shape(cluster, starts[sample], bool(key[sample, -1]), int(count))
            out.append(CommunicatorClass(shape, index[same], members[same]))
    return out


def _check(cluster: Cluster, index: NDArray[np.int64], members: NDArray[np.int64]) -> None:
    outside = (members < 0) | (members >= cluster.ranks)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise InputError(
            f"rank {members[row, column]} is not in the cluster",
            key=f"communicators[{index[row]}]",
            allowed=f"0 to {cluster.ranks - 1}",
        )
    twice = np.diff(members, axis=1) == 0
    if twice.any():
        row, column = np.argwhere(twice)[0]
        raise InputError(f"rank {members[row, column]} occurs twice", key=f"communicators[{index[row]}]")


def _aligned(starts: NDArray[np.bool_], local: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool[c]: whether every domain of a communicator holds members at the same local indices."""
    count = 1 + starts.sum(axis=1)
    out = np.zeros(len(starts), np.bool_)
    size = local.shape[1]
    for domains in np.unique(count):
        if size % domains:
            continue
        rows = np.flatnonzero(count == domains)
        each = size // domains
        expected = np.zeros(size - 1, np.bool_)
        expected[each - 1 :: each] = True
        grid = local[rows].reshape(len(rows), domains, each)
        out[rows] = (starts[rows] == expected).all(axis=1) & (grid == grid[:, :1]).all(axis=(1, 2))
    return out


def _distinct_ports(cluster: Cluster, members: NDArray[np.int64], starts: NDArray[np.bool_]) -> NDArray[np.int64]:
    """int64[c]: NIC ports that the members of a communicator's first domain own together."""
    size = members.shape[1]
    first = (
        np.where(starts.any(axis=1), starts.argmax(axis=1) + 1, size) if size > 1 else np.ones(len(members), np.int64)
    )
    ports = cluster.back_end.port_of_rank[members[:, : int(first.max())]].astype(np.int64)
    beyond = np.arange(ports.shape[1])[None, :] >= first[:, None]
    ports[beyond] = -1
    flat = np.sort(ports.reshape(len(members), -1), axis=1)
    new = np.concatenate([flat[:, :1] >= 0, (np.diff(flat, axis=1) != 0) & (flat[:, 1:] >= 0)], axis=1)
    count: NDArray[np.int64] = new.sum(axis=1, dtype=np.int64)
    return count


def _shape(cluster: Cluster, starts: NDArray[np.bool_], aligned: bool, ports: int) -> Shape:
    edges = np.concatenate([[0], np.flatnonzero(starts) + 1, [len(starts) + 1]])
    counts = np.diff(edges)
    uneven = () if (counts == counts[0]).all() else tuple(counts.tolist())
    return Shape(
        ranks=len(starts) + 1,
        domains=len(counts),
        per_domain=int(counts.max()),
        uneven=uneven,
        aligned=aligned,
        ports=ports,
        scale_up=cluster.scale_up.kind,
        torus=_torus(cluster, counts.tolist()),
    )


def _torus(cluster: Cluster, counts: list[int]) -> tuple[int, ...]:
    """Axes of the torus that one full domain is, as the cluster wires it."""
    if cluster.scale_up.kind != "torus" or counts != [cluster.scale_up_domain]:
        return ()
    return near_cube(cluster.scale_up_domain, min(3, max(1, cluster.accelerator.scale_up_links // 2)))


def edge_seconds(links: CsrWeighted, loads: list[LinkLoads], rate_bps: Floats) -> Floats:
    """float64[entities], seconds that an edge between NICs takes for a byte of volume: mean of the slowest ring.

    Args:
        links: What each entity puts on each link.
        loads: The same edge by edge.
        rate_bps: float64[links].
    """
    width = int(links.link.max(initial=0)) + 1
    keys, bound = links.rows() * width + links.link, 8 * links.share / rate_bps[links.link]
    edges: list[tuple[Floats, NDArray[np.int64], NDArray[np.int64]]] = []
    for load in loads:
        if load.ring is not None:
            at = np.searchsorted(keys, load.entity[load.links.rows()] * width + load.links.link)
            used = np.flatnonzero(load.links.lengths)
            slowest = np.maximum.reduceat(bound[at], load.links.ptr[used])
            edges.append((slowest, load.entity[used], load.ring[used]))
    slowest, entity, ring = (np.concatenate(column) for column in zip(*edges, strict=True))
    _, leader, group = np.unique(entity * (int(ring.max()) + 1) + ring, return_index=True, return_inverse=True)
    mean = np.bincount(group.ravel(), slowest) / np.bincount(group.ravel())
    seconds = np.zeros(len(links))
    np.maximum.at(seconds, entity[leader], mean)
    return seconds


def left_over(latency: Floats, least: Floats, mean: Floats, slowest: Floats) -> Floats:
    """float64[k], latency that is left behind the slowest edge.

    Args:
        latency: Of all steps, and before the first one.
        least: Of one step of the slowest edge, and before the first one.
        mean: Time that an edge takes for all steps, on the mean over the cycle; unit of `latency`.
        slowest: The same of the slowest edge.
    """
    return np.clip(latency + mean - slowest, least, latency)


def equal_sets(cluster: Cluster) -> NDArray[np.int64] | None:
    """int64[links], the set of equal links that each link belongs to, counted from 0; None where nothing is hashed.

    Two links of a hashed network are equal when they lead from nodes that are alike to nodes that are alike: up from
    one leaf to any spine, down to one leaf from any. On a topology whose nodes are not alike (a dragonfly, a torus)
    only parallel links between the same two nodes are. Links of other networks, scale-up, storage and bundles, over
    which bytes are spread as it is, are sets of their own.
    """
    hashed = [network for network in cluster.networks if network.fabric.hashed]
    if not hashed:
        return None
    links = len(cluster.links)
    key = np.arange(links, dtype=np.int64)
    for network in hashed:
        span = slice(network.link_offset, network.link_offset + network.wiring.links)
        _, first, inverse = np.unique(_ends(network), return_index=True, return_inverse=True)
        key[span] = network.link_offset + first[inverse.ravel()]
    number: NDArray[np.int64] = np.unique(key, return_inverse=True)[1].ravel().astype(np.int64)
    return number


def _ends(network: Network) -> NDArray[np.int64]:
    """int64[links of the network], equal for links between nodes that are alike."""
    wiring = network.wiring
    alike = np.arange(wiring.nodes) if wiring.classes is None else wiring.classes.astype(np.int64)
    ends: NDArray[np.int64] = alike[wiring.source] * wiring.nodes + alike[wiring.target]
    return ends


def evened(
    usage: CsrWeighted, rate_bps: NDArray[np.float64], sets: NDArray[np.int64]
) -> tuple[CsrWeighted, NDArray[np.float64]]:
    """Usage of sets in place of links, and the rates of the sets.

    Args:
        usage: Links and shares of entities.
        rate_bps: float64[links].
        sets: int64[links], see `equal_sets`.
    """
    rate = np.bincount(sets, weights=rate_bps).astype(np.float64)
    every = np.arange(len(usage))
    return CsrWeighted.summed(
        len(usage),
        [(every, CsrWeighted(usage.ptr, sets.astype(np.int32)[usage.link], usage.share), np.ones(len(usage)))],
    ), rate


SAMPLE = 16
"""Domains from which the far half of mixed paths is taken."""


@dataclass(frozen=True)
class DomainPaths:
    """Latencies between the domains of c communicators of one shape.

    Attributes:
        next_ps: int64[c, domains], from each domain to the next one, from the last to the first; 0 for one domain.
        mixed_ps: float64[c], mean over neighbouring domains and domains half-way round, which count alike.
        widest_ps: float64[c], the longest of these.
    """

    next_ps: NDArray[np.int64]
    mixed_ps: NDArray[np.float64]
    widest_ps: NDArray[np.float64]

    @staticmethod
    def of(cluster: Cluster, group: CommunicatorClass) -> DomainPaths:
        """The paths between the first members of domains."""
        count, domains = len(group.members), group.shape.domains
        if domains == 1:
            return DomainPaths(np.zeros((count, 1), np.int64), np.zeros(count), np.zeros(count))
        every = np.arange(domains)
        near_ps = _between(cluster, group, every, every + 1)
        some = np.unique(np.linspace(0, domains - 1, min(SAMPLE, domains)).astype(np.int64))
        far_ps = _between(cluster, group, some, some + max(1, domains // 2))
        widest_ps = np.maximum(near_ps.max(axis=1), far_ps.max(axis=1)).astype(np.float64)
        return DomainPaths(near_ps, (near_ps.mean(axis=1) + far_ps.mean(axis=1)) / 2, widest_ps)

    @property
    def far_ps(self) -> NDArray[np.int64]:
        """int64[c], the longest path between neighbouring domains."""
        longest: NDArray[np.int64] = self.next_ps.max(axis=1)
        return longest

    def latency_ps(self, route: str, steps: float) -> NDArray[np.float64]:
        """float64[c]: sum of the paths of steps that follow one another.

        Args:
            route: "ring": each step goes to the next domain, and the slowest of all ways round counts; "chain": the
                same from the first domain; "exchange": each goes to everybody at once, and the farthest counts;
                "mixed": any.
            steps: Their number; whole for rings and chains.
        """
        if route in {"mixed", "exchange"}:
            return steps * (self.mixed_ps if route == "mixed" else self.widest_ps)
        domains = self.next_ps.shape[1]
        rounds, rest = divmod(int(steps), domains)
        begun = np.zeros((len(self.next_ps), 2 * domains + 1), np.int64)
        np.cumsum(np.concatenate([self.next_ps, self.next_ps], axis=1), axis=1, out=begun[:, 1:])
        paths = begun[:, rest : rest + domains] - begun[:, :domains]
        part = paths.max(axis=1) if route == "ring" else paths[:, 0]
        total: NDArray[np.float64] = (rounds * begun[:, domains] + part).astype(np.float64)
        return total


def _between(
    cluster: Cluster, group: CommunicatorClass, first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.int64]:
    """int64[c, k]: from domain `first[k]` to `second[k]`, counted round."""
    offsets, domains = group.shape.offsets, group.shape.domains
    source = group.members[:, offsets[first]].ravel()
    target = group.members[:, offsets[second % domains]].ravel()
    each = np.ones(len(source), np.int64)
    _, legs = through_peers(cluster, Legs(np.arange(len(source)), source, target, each.astype(float), each))
    ports = cluster.back_end.port_of_rank[:, 0]
    return cluster.back_end.path_latency_ps(ports[legs.source], ports[legs.target]).reshape(-1, len(first))
