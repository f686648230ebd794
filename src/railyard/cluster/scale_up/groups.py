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
from math import comb, exp
from typing import Protocol

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
    """Domains of so many accelerators; a group takes any healthy accelerators of one."""

    domain: int
    summary: str

    def used(self, asked: GroupedNodes) -> float | None:
        """See `JoinedNodes`: sums over the healthy nodes of a domain."""
        nodes, rest = divmod(self.domain, asked.each)
        if rest:
            return None
        kept = ((healthy, healthy * asked.each // asked.group * asked.group) for healthy in range(nodes + 1))
        return (
            sum(comb(nodes, k) * (1 - asked.out) ** k * asked.out ** (nodes - k) * size for k, size in kept)
            / self.domain
        )


@dataclass(frozen=True)
class TorusCubes:
    """Cubes of so many accelerators; a group has a fixed block of one, larger ones whole cubes, any with switches."""

    cube: int
    summary: str

    def used(self, asked: GroupedNodes) -> float | None:
        """See `JoinedNodes`: blocks, or cubes, of which every node is healthy."""
        if self.cube % asked.each:
            return None
        block = min(asked.group, self.cube)
        return self.cube // block * block / self.cube * (1 - asked.out) ** -(-block // asked.each)


@dataclass(frozen=True)
class HopRing:
    """A ring in which each node has links to those up to so many places on."""

    hops: int
    summary: str

    def used(self, asked: GroupedNodes) -> float | None:
        """See `JoinedNodes`: behind a healthy node the ring is cut with chance q = out^K.

        So a stretch has h healthy nodes with chance q (1 - q)^(h - 1), and leaves h modulo those of a group idle: in
        the mean of a ring with few cuts, half a group. A ring without a cut is one stretch.
        """
        healthy, cut, size = asked.nodes * (1 - asked.out), asked.out**self.hops, asked.group_nodes
        law = [(1 - cut) ** length for length in range(size)]
        idle = sum(left * law[left - 1] for left in range(1, size)) / sum(law)
        stretches = healthy * cut + exp(-healthy * cut)
        return (healthy - stretches * idle) / asked.nodes * asked.group / (size * asked.each)


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
    return {name: 1.0 - asked.out - share for name, share in used.items() if share is not None}
