"""What the steps of an algorithm pay for the paths between domains, which may be in other buildings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import CsrWeighted
from railyard.collective.lowering.routes import Legs, through_peers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.lowering.routes import LinkLoads

    Floats = NDArray[np.float64]
    from railyard.cluster import Cluster, Network
    from railyard.collective.lowering.groups import CommunicatorClass


def edge_seconds(links: CsrWeighted, load: LinkLoads, rate_bps: Floats) -> Floats:
    """float64[entities], seconds that an edge between NICs takes for a byte of volume: mean of the slowest ring.

    Args:
        links: What each entity puts on each link.
        load: The same edge by edge.
        rate_bps: float64[links].
    """
    outside = load.edge >= 0
    width = int(links.link.max(initial=0)) + 1
    at = np.searchsorted(links.rows() * width + links.link, load.entity[outside] * width + load.link[outside])
    bound = 8 * links.share[at] / rate_bps[links.link[at]]
    _, first, edge = np.unique(load.edge[outside], return_index=True, return_inverse=True)
    slowest = np.zeros(len(first))
    np.maximum.at(slowest, edge.ravel(), bound)
    entity, ring = load.entity[outside][first], load.ring[outside][first]
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
    return CsrWeighted.gathered(len(usage), usage.rows(), sets[usage.link], usage.share), rate


SAMPLE = 16
"""Domains from which the far half of mixed paths is taken."""


@dataclass(frozen=True)
class Paths:
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
    def of(cluster: Cluster, group: CommunicatorClass) -> Paths:
        """The paths between the first members of domains."""
        count, domains = len(group.members), group.shape.domains
        if domains == 1:
            return Paths(np.zeros((count, 1), np.int64), np.zeros(count), np.zeros(count))
        every = np.arange(domains)
        near_ps = _between(cluster, group, every, every + 1)
        some = np.unique(np.linspace(0, domains - 1, min(SAMPLE, domains)).astype(np.int64))
        far_ps = _between(cluster, group, some, some + max(1, domains // 2))
        widest_ps = np.maximum(near_ps.max(axis=1), far_ps.max(axis=1)).astype(np.float64)
        return Paths(near_ps, (near_ps.mean(axis=1) + far_ps.mean(axis=1)) / 2, widest_ps)

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
