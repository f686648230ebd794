"""The cluster as a scheduler sees it: nodes in nested groups, as arrays."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.names import numbered
from railyard.cluster.network_table import components
from railyard.cluster.tenancy import NOBODY
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.ocs import Cubes
    from railyard.cluster.tenancy import Tenancy


UNNAMED = "all"
"""Tenant of jobs that name none."""
DIVIDED = -2
"""Owner of nodes whose ports have several owners."""


@dataclass(frozen=True, eq=False)
class NodeTree:
    """Nodes in nested groups, level by level from the widest to the narrowest.

    Nodes are in the order of the cluster's servers or of the file they were read from; the order breaks ties.

    Attributes:
        accelerators: int32[nodes], accelerators per node.
        levels: Names of levels, widest first, such as ("pod", "leaf", "domain"), without the root and the node.
        group: One int32[nodes] per level: the group of each node, numbered from 0 in the order of their first nodes.
        joined: Whether the widest groups reach one another; false if a file describes separate networks.
        block_sizes: Slurm's `BlockSizes` in nodes, ascending. The first is the size by which narrowest groups count
            (groups of 18 that count as 16 have two spare nodes), the others are its multiples by powers of two; empty:
            the size of the smallest group times 1, 2, 4, 8 and 16, as Slurm assumes if a file has none.
        tenancy: Tenants that share it; None: not shared.
        cubes: Cubes of a scale-up torus, which are the groups of the level `cube`; None: there are none.
        owner: int32[nodes], the tenant that owns each entire node; -1: unowned; -2: divided. None if `tenancy` is None.
    """

    names: tuple[str, ...]
    accelerators: NDArray[np.int32]
    levels: tuple[str, ...]
    group: tuple[NDArray[np.int32], ...]
    group_names: tuple[tuple[str, ...], ...]
    joined: bool = True
    block_sizes: tuple[int, ...] = ()
    tenancy: Tenancy | None = None
    owner: NDArray[np.int32] | None = None
    cubes: Cubes | None = None

    def __post_init__(self) -> None:
        if not self.names:
            raise InputError("a cluster has at least one node", found="none")
        for upper, lower, name in zip(self.group, self.group[1:], self.levels[1:], strict=False):
            if len(np.unique(np.stack([upper, lower]), axis=1).T) != int(lower.max()) + 1:
                raise InputError(f"a group of the level `{name}` lies in two groups of the level above it", key=name)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.names)

    @cached_property
    def total(self) -> int:
        """Accelerators of all nodes."""
        return int(self.accelerators.sum())

    @cached_property
    def number(self) -> dict[str, int]:
        """Node numbers by name, and by names without the zeros that pad a number (`node5` for `node05`)."""
        plain = [re.sub(r"(?<![0-9])0+(?=[0-9]+$)", "", name) for name in self.names]
        once = {name for name, times in Counter(plain).items() if times == 1}
        short = {name: number for number, name in enumerate(plain) if name in once}
        return short | {name: number for number, name in enumerate(self.names)}

    @cached_property
    def size(self) -> tuple[NDArray[np.int32], ...]:
        """One int32[groups] per level: number of nodes of each group."""
        return tuple(np.bincount(group).astype(np.int32) for group in self.group)

    @cached_property
    def members(self) -> tuple[tuple[NDArray[np.int32], ...], ...]:
        """One tuple per level: the nodes of each group, in order."""
        return tuple(
            tuple(np.split(np.argsort(group, kind="stable").astype(np.int32), np.cumsum(size)[:-1]))
            for group, size in zip(self.group, self.size, strict=True)
        )

    @cached_property
    def parent(self) -> tuple[NDArray[np.int32], ...]:
        """One int32[groups] per level: the group on the level above; zeros on the widest level."""
        found = [np.zeros(len(self.size[0]), np.int32)] if self.levels else []
        for upper, lower, size in zip(self.group, self.group[1:], self.size[1:], strict=False):
            above = np.zeros(len(size), np.int32)
            above[lower] = upper
            found.append(above)
        return tuple(found)

    def spare(self, count: int) -> NDArray[np.int32]:
        """int32[count or less], nodes kept as spares: the last unowned ones."""
        mine = np.ones(self.nodes, np.bool_) if self.owner is None else self.owner == NOBODY
        return np.flatnonzero(mine)[max(int(mine.sum()) - count, 0) :].astype(np.int32)

    def most(self, tenant: str, spares: int) -> int:
        """Maximum nodes of a tenant's job; those of the whole cluster if there is no such tenant."""
        named = self.tenancy is not None and tenant in {UNNAMED, *(one.name for one in self.tenancy.tenants)}
        if self.owner is None or not named:
            return self.nodes - spares
        owner = self.owner_of(tenant)
        return int(np.count_nonzero(self.owner == owner)) - (spares if owner == NOBODY else 0)

    def owner_of(self, tenant: str) -> int:
        """Owner of the nodes that a tenant's jobs may use; unowned nodes if tenants share nothing or jobs name none.

        Raises:
            InputError: The cluster has no such tenant.
        """
        if self.tenancy is None or (tenant == UNNAMED and all(one.name != UNNAMED for one in self.tenancy.tenants)):
            return NOBODY
        return self.tenancy.number(tenant)

    def level(self, name: str) -> int:
        """Number of a level.

        Raises:
            InputError: The cluster has no such level.
        """
        if name not in self.levels:
            raise InputError(
                f"the cluster has no level `{name}`",
                found=name,
                allowed=self.levels,
                hint=did_you_mean(name, self.levels),
            )
        return self.levels.index(name)

    @staticmethod
    def listed(
        names: Sequence[str],
        accelerators: int | NDArray[np.int32],
        levels: Sequence[tuple[str, Sequence[str]]],
        *,
        joined: bool = True,
        block_sizes: tuple[int, ...] = (),
    ) -> NodeTree:
        """Builds a tree from a list of nodes.

        Args:
            names: Names of nodes.
            accelerators: Accelerators per node.
            levels: Name of each level, widest first, and for each node the name of its group there. Groups of the same
                name in different groups of the level above are different groups.
            joined: See the class.
            block_sizes: See the class.

        Raises:
            InputError: Two nodes have the same name, or there are no nodes.
        """
        if len(set(names)) != len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise InputError(f"two nodes are called `{twice}`", found=twice)
        group, group_names = [], []
        above: Sequence[tuple[str, ...]] = [()] * len(names)
        for _, words in levels:
            above = [(*path, word) for path, word in zip(above, words, strict=True)]
            number = {path: order for order, path in enumerate(dict.fromkeys(above))}
            group.append(np.array([number[path] for path in above], np.int32))
            group_names.append(tuple(path[-1] for path in number))
        counts = np.broadcast_to(np.asarray(accelerators, np.int32), len(names)).copy()
        return NodeTree(
            tuple(names),
            counts,
            tuple(name for name, _ in levels),
            tuple(group),
            tuple(group_names),
            joined,
            block_sizes,
        )

    @staticmethod
    def of(cluster: Cluster) -> NodeTree:
        """Builds a tree from a cluster: servers in scale-up domains, leafs and pods.

        A leaf here is all servers that share a switch by any of their first NICs or a scale-up domain; if servers have
        rails, the rails of one group form one leaf. A pod is what is joined without the top tier of switches. Levels
        that have every server in one group, or one server per group, are left out.
        """
        found = [(name, _renumbered(group)) for name, group in _levels_of(cluster)]
        kept: list[tuple[str, NDArray[np.int32]]] = []
        for name, group in found:
            groups = int(group.max()) + 1
            if 1 < groups < cluster.servers and all(groups != int(other.max()) + 1 for _, other in kept):
                kept.append((name, group))
        return NodeTree(
            tuple(numbered("node", cluster.servers)),
            np.full(cluster.servers, cluster.ranks_per_server, np.int32),
            tuple(name for name, _ in kept),
            tuple(group for _, group in kept),
            tuple(tuple(f"{name}-{number}" for number in range(int(group.max()) + 1)) for name, group in kept),
            tenancy=cluster.plans["back_end"].tenancy,
            owner=_owners(cluster),
            cubes=cluster.cubes,
        )


def _owners(cluster: Cluster) -> NDArray[np.int32] | None:
    """int32[servers], the owner of each, if tenants share the cluster."""
    plan = cluster.plans["back_end"]
    if plan.tenancy is None:
        return None
    of_port = plan.tenancy.of_nodes(plan.wiring.port_of, plan.wiring.nodes)
    of_server = of_port[cluster.back_end.port_of_rank].reshape(cluster.servers, -1)
    divided = (of_server != of_server[:, :1]).any(axis=1)
    return np.where(divided, DIVIDED, of_server[:, 0]).astype(np.int32)


def _levels_of(cluster: Cluster) -> list[tuple[str, NDArray[np.int64]]]:
    """Groups of servers at every level, widest first; each level keeps the groups of the one below together.

    Cubes of a torus leave out leafs: jobs lie on the torus, and its cubes need not lie on one leaf.
    """
    servers = np.arange(cluster.servers, dtype=np.int64)
    domain = servers * cluster.ranks_per_server // cluster.scale_up_domain
    below = [("domain", domain)]
    network, links = cluster.back_end, cluster.links
    rank = servers * cluster.ranks_per_server
    port = network.port_of_rank[rank, 0].tolist()
    switch = np.array([int(links.target[network.port_links(one)[0][0]]) for one in port])
    leaf = _joined(domain, switch)
    below.append(("leaf", leaf))
    above = _above(cluster, switch)
    if above is not None:
        below.append(("pod", _joined(leaf, above[switch])))
    cubes = cluster.cubes
    if cubes is not None:
        return [("pod", domain), ("cube", servers * cluster.ranks_per_server // cubes.size)]
    return below[::-1]


def _above(cluster: Cluster, leafs: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """int64[nodes], a number for the leaf switches that switches of the next tier join; None if there are none."""
    links, network = cluster.links, cluster.back_end
    between = [links.tiers.index(tier.name) for tier in network.tiers if tier.kind != "access"]
    upward = np.isin(links.source, leafs) & np.isin(links.tier, between)
    ends = np.stack([links.source[upward], links.target[upward]], axis=1)
    return components(cluster.nodes, ends) if len(ends) else None


def _joined(lower: NDArray[np.int64], switch: NDArray[np.int64]) -> NDArray[np.int64]:
    """Groups joined by a shared lower group or switch."""
    shift = int(lower.max()) + 1
    found: NDArray[np.int64] = components(shift + int(switch.max()) + 1, np.stack([lower, switch + shift], axis=1))[
        lower
    ]
    return found


def _renumbered(group: NDArray[np.int64]) -> NDArray[np.int32]:
    """The same groups, numbered in the order of their first members."""
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    order = np.empty(len(first), np.int32)
    order[np.argsort(first, kind="stable")] = np.arange(len(first), dtype=np.int32)
    return order[inverse.ravel()]
