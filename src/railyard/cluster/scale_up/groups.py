r"""Accelerators that groups cannot use while nodes are out, by how a scale-up network joins its nodes.

A group, such as one of tensor parallelism, needs all its accelerators in one piece of the network. What is healthy and
left over is idle. All ways are closed forms: nodes are out independently, each with the same chance.

    `domains`    fixed ones behind switches:   [o o o x o o] [o o o o o o]      any healthy nodes of one
    `cubes`      fixed blocks of a torus:      [o o x o] [o o o o]              a group up to a cube: one whole block
    `k-hop`      a ring with links to the      o-o-x-o-o-o-x-x-o-o-o            any stretch; K nodes out in a row cut
                 next K nodes, by transceivers  \___/     \_____/               it, fewer are passed by
                 that switch

Sources: Shou et al., InfiniteHBD, SIGCOMM 2025 (k-hop ring, transceivers that switch in 60 to 80 us); Jouppi et al.,
TPU v4, ISCA 2023 (cubes of 64).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Protocol

import numpy as np

from railyard.cluster.healthy import healthy_law
from railyard.kit.registry import Registry


@dataclass(frozen=True)
class GroupedNodes:
    """What is asked of a way to join nodes.

    Attributes:
        nodes: Nodes of the cluster.
        each: Accelerators of a node.
        group: Accelerators of a group.
        out: Share of the nodes that are out.
    """

    nodes: int
    each: int
    group: int
    out: float

    @property
    def group_nodes(self) -> int:
        """Whole nodes of a group."""
        return -(-self.group // self.each)

    @property
    def accelerators(self) -> int:
        """Those of the cluster."""
        return self.nodes * self.each


class JoinedNodes(Protocol):
    """A way in which a scale-up network joins nodes."""

    @property
    def summary(self) -> str:
        """What it is, in a line."""
        ...

    def used(self, asked: GroupedNodes) -> float | None:
        """Share of all accelerators that groups can use; None: it has no place for such nodes."""
        ...


@dataclass(frozen=True)
class SwitchedDomains:
    """Domains of so many accelerators, the last may be smaller; a group takes any healthy accelerators of one."""

    domain: int
    summary: str

    def used(self, asked: GroupedNodes) -> float | None:
        """See `JoinedNodes`: sums over the healthy nodes of a domain."""
        nodes, rest = divmod(self.domain, asked.each)
        if rest:
            return None
        whole, left = divmod(asked.nodes, nodes)
        return (whole * self._taken(asked, nodes) + self._taken(asked, left)) / asked.accelerators

    def _taken(self, asked: GroupedNodes, nodes: int) -> float:
        """Accelerators of a domain of so many nodes that groups use, in the mean."""
        taken = np.arange(nodes + 1) * asked.each // asked.group * asked.group
        return float(healthy_law(nodes, 1 - asked.out) @ taken)


@dataclass(frozen=True)
class TorusCubes:
    """Cubes of so many accelerators; a group has a fixed block of one, larger ones whole cubes, any with switches."""

    cube: int
    summary: str

    def used(self, asked: GroupedNodes) -> float | None:
        """See `JoinedNodes`: blocks, or whole cubes as many as a group needs, of which every node is healthy.

        Nodes that fill no cube are idle.
        """
        nodes, rest = divmod(self.cube, asked.each)
        if rest:
            return None
        cubes = asked.nodes // nodes
        if asked.group <= self.cube:
            groups = cubes * (self.cube // asked.group) * (1 - asked.out) ** asked.group_nodes
        else:
            healthy = healthy_law(cubes, (1 - asked.out) ** nodes)
            groups = float(healthy @ (np.arange(cubes + 1) // -(-asked.group // self.cube)))
        return groups * asked.group / asked.accelerators


@dataclass(frozen=True)
class HopRing:
    """A ring in which each node has links to those up to so many places on."""

    hops: int
    summary: str

    def used(self, asked: GroupedNodes) -> float | None:
        """See `JoinedNodes`: behind a healthy node the ring is cut with chance q = out^K.

        So a stretch has h healthy nodes with chance q (1 - q)^(h - 1), and leaves h modulo those of a group idle. A
        ring without a cut, chance exp(-healthy q), is one stretch of all healthy nodes.
        """
        size = asked.group_nodes
        if size > asked.nodes:
            return 0.0
        healthy, cut = asked.nodes * (1 - asked.out), asked.out**self.hops
        law = [(1 - cut) ** length for length in range(size)]
        idle = healthy * cut * sum(left * law[left - 1] for left in range(1, size)) / sum(law)
        left = healthy_law(asked.nodes, 1 - asked.out) @ (np.arange(asked.nodes + 1) % size)
        taken = max(0.0, healthy - idle - exp(-healthy * cut) * float(left))
        return taken / size * (size * asked.each // asked.group) * asked.group / asked.accelerators


ways_to_join: Registry[JoinedNodes] = Registry("way to join nodes", package="railyard.cluster.scale_up")
for _name, _way in (
    ("domain-36", SwitchedDomains(36, "Domains of 36 behind switches (NVL36)")),
    ("domain-72", SwitchedDomains(72, "Domains of 72 behind switches (NVL72)")),
    ("cube-64", TorusCubes(64, "Cubes of 64 in a torus with optical switches (TPU v4)")),
    ("ring-2-hop", HopRing(2, "A ring, links to the next 2 nodes by modules that switch (InfiniteHBD)")),
    ("ring-3-hop", HopRing(3, "A ring, links to the next 3 nodes by modules that switch (InfiniteHBD)")),
):
    ways_to_join.add(_name, _way)


def idle_shares(asked: GroupedNodes) -> dict[str, float]:
    """By way, share of all accelerators that are healthy and that no group can use."""
    used = {name: ways_to_join.get(name).used(asked) for name in ways_to_join.names()}
    return {name: max(0.0, 1.0 - asked.out - share) for name, share in used.items() if share is not None}
