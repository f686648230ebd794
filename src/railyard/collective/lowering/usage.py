"""The links that an algorithm loads, for many communicators of one shape at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import CsrWeighted
from railyard.collective.algorithm import ALGORITHMS
from railyard.collective.connections import communicators_of, opened
from railyard.collective.lowering import routes
from railyard.collective.lowering.paths import edge_seconds
from railyard.collective.lowering.routes import Legs, LinkLoads
from railyard.collective.pattern import NETWORK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.algorithm import Algorithm
    from railyard.collective.lowering.paths import CommunicatorClass
    from railyard.collective.pattern import Pattern
    from railyard.collective.policy import CollectivePolicy
    from railyard.graph import CollectiveKind


@dataclass(frozen=True)
class Usage:
    """Loads of c communicators without a protocol's flags.

    Attributes:
        links: Rows of the communicators.
        fair_weight: float64[c].
        edge_s: float64[c], see `edge_seconds`; 0 for algorithms whose edges make no cycle.
    """

    links: CsrWeighted
    fair_weight: NDArray[np.float64]
    edge_s: NDArray[np.float64]


def usage(
    cluster: Cluster,
    group: CommunicatorClass,
    name: str,
    kind: CollectiveKind,
    policy: CollectivePolicy,
) -> Usage:
    """Lowers algorithm `name` for every communicator of a group."""
    algorithm = ALGORITHMS.get(name)
    if policy.pxn and group.shape.aligned and cluster.scale_up.kind != "none":
        pattern = algorithm.relayed_pattern(kind, group.shape, _rails(cluster, group))
    else:
        pattern = algorithm.pattern(kind, group.shape)
    each = opened(cluster, group.shape, name, policy)
    batch = max(1, routes.BATCH // max(len(pattern), 1))
    parts = [
        _batch(cluster, group.part(slice(begin, begin + batch)), pattern, each, policy, algorithm)
        for begin in range(0, len(group.members), batch)
    ]
    return Usage(
        links=stacked([part.links for part in parts]),
        fair_weight=np.concatenate([part.fair_weight for part in parts]),
        edge_s=np.concatenate([part.edge_s for part in parts]),
    )


def _rails(cluster: Cluster, group: CommunicatorClass) -> NDArray[np.int64]:
    """int64[positions]: the rail of each position; the same for every communicator of an aligned group."""
    rails: NDArray[np.int64] = routes.rail_of_local(cluster)[group.members[0] % cluster.ranks_per_server]
    return rails


def _batch(  # noqa: PLR0917 - one communicator class, its edges, and how they are to be lowered
    cluster: Cluster,
    group: CommunicatorClass,
    pattern: Pattern,
    each: int,
    policy: CollectivePolicy,
    algorithm: Algorithm,
) -> Usage:
    members, count = group.members, len(group.members)
    out = pattern.scale_out(group.shape)
    ranks = (pattern.source >= 0) & (pattern.target >= 0)
    trees = algorithm.name in ("tree", "nvls-tree")
    connections = each * pattern.merged if trees else np.full(len(pattern), each)
    up_legs = _legs(members, pattern, connections, ranks & ~out)
    out_legs = _legs(members, pattern, connections, ranks & out)
    communicator = communicators_of(group.index, algorithm.name)
    parts: list[LinkLoads] = []
    if policy.pxn and len(out_legs):
        to_peers, out_legs = routes.through_peers(cluster, out_legs)
        up_legs = Legs.joined([up_legs, to_peers])
    if len(up_legs):
        parts.append(routes.scale_up_load(cluster, up_legs, policy.measured))
    if len(out_legs):
        parts.append(routes.scale_out_load(cluster, out_legs, communicator))
    parts += _switch_parts(cluster, members, pattern)
    load = LinkLoads.joined(parts)
    links = CsrWeighted.gathered(count, load.entity, load.link, load.share)
    cycle = algorithm.route == "ring" and len(out_legs) > 0
    return Usage(
        links=links,
        fair_weight=_fair_weight(cluster, count, up_legs, out_legs, pattern),
        edge_s=edge_seconds(links, load, cluster.links.rate_bps) if cycle else np.zeros(count),
    )


def _legs(
    members: NDArray[np.int64], pattern: Pattern, connections: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> Legs:
    """Edges of the pattern for every communicator, communicator by communicator."""
    source, target, share = pattern.source[chosen], pattern.target[chosen], pattern.share[chosen]
    count = len(members)
    return Legs(
        np.repeat(np.arange(count), len(share)),
        members[:, source].ravel(),
        members[:, target].ravel(),
        np.tile(share, count),
        np.tile(connections[chosen], count),
    )


def _switch_parts(cluster: Cluster, members: NDArray[np.int64], pattern: Pattern) -> list[LinkLoads]:
    """Edges with a reducing switch at one end."""
    parts = []
    for near, far, out in ((pattern.source, pattern.target, True), (pattern.target, pattern.source, False)):
        for network in (False, True):
            chosen = (far < 0) & (near >= 0) & ((far == NETWORK) == network)
            if not chosen.any():
                continue
            rank = members[:, near[chosen]].ravel()
            entity = np.repeat(np.arange(len(members)), int(chosen.sum()))
            share = np.tile(pattern.share[chosen], len(members))
            load = routes.network_load if network else routes.switch_load
            parts.append(load(cluster, entity, rank, share, out=out))
    return parts


def _fair_weight(cluster: Cluster, count: int, up_legs: Legs, out_legs: Legs, pattern: Pattern) -> NDArray[np.float64]:
    """Queue pairs over the bytes they carry; where nothing leaves a domain, connections over the bytes they carry."""
    if len(out_legs):
        pairs = cluster.back_end.port_of_rank.shape[1] * cluster.fabric.qps
        flows = np.bincount(out_legs.entity, weights=out_legs.connections, minlength=count) * pairs
        carried = np.bincount(out_legs.entity, weights=out_legs.share, minlength=count)
        return np.asarray(flows / carried, np.float64)
    if len(up_legs):
        flows = np.bincount(up_legs.entity, minlength=count)
        carried = np.bincount(up_legs.entity, weights=up_legs.share, minlength=count)
        return np.asarray(flows / np.maximum(carried, 1e-300), np.float64)
    switch = (pattern.source < 0) | (pattern.target < 0)
    weight = switch.sum() / pattern.share[switch].sum() if switch.any() else 1.0
    return np.full(count, float(weight))


def stacked(parts: list[CsrWeighted]) -> CsrWeighted:
    """Rows of several usage tables, one after another."""
    if len(parts) == 1:
        return parts[0]
    shift = np.cumsum([0] + [part.ptr[-1] for part in parts])
    ptr = np.concatenate([[0], *(part.ptr[1:] + offset for part, offset in zip(parts, shift[:-1], strict=True))])
    return CsrWeighted(
        ptr.astype(np.int64),
        np.concatenate([part.link for part in parts]),
        np.concatenate([part.share for part in parts]),
    )
