"""What the steps of an algorithm pay for the paths between domains, which may be in other buildings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.lowering.routes import Legs, through_peers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.lowering.groups import CommunicatorClass

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
