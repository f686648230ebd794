"""What engines get: one row a communication, with the links it loads, its floor and its own limits.

Fair weight. In a weighted max-min allocation an entity's rate is x = w t, and on link l it takes x u_l, where u_l is
its bytes on l per byte of volume. What shares a link in reality are queue pairs, each of which gets the same rate f.
With m_l of them of this entity on l, x u_l = m_l f, so w is proportional to m_l / u_l. Every queue pair of one
algorithm carries nearly the same s bytes per byte of volume, so u_l = m_l s and w = 1/s at every link; where they
differ (trees), the mean counts:

    w = queue pairs / sum of the bytes that they carry per byte of volume
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster import CsrWeighted, Entities
from railyard.collective import connections
from railyard.collective.choice import DEFAULT_POLICY
from railyard.collective.connections import connections_opened, pair_of_ranks
from railyard.collective.lowering import routes
from railyard.collective.lowering.paths import equal_sets, evened
from railyard.collective.lowering.routes import Legs, LinkLoads
from railyard.collective.machine import CollectiveMachine, Shape, machine_of
from railyard.collective.timing import WIRE, by_channels, transfer_us
from railyard.kit.errors import InputError
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.policy import CollectivePolicy


LONGEST_PS = 4.0e18
"""46 days: longer transfers are cut to this, so that times stay integers of 64 bits."""


@dataclass(frozen=True)
class EntityTable(Entities):
    """n communications.

    Attributes:
        alone_ps: int64[n], duration with the network to itself: latency + volume / min(cap, min over links of rate /
            share). `even_ps` is at most that, and equal to it on fabrics that spread flows.
        algorithm: str[n], name in the registry; "transfer", "read", "write", "load", "store" or "none" otherwise.
        protocol: str[n].
    """

    alone_ps: NDArray[np.int64]
    algorithm: NDArray[np.str_]
    protocol: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.volume_bytes)

    def row(self, entity: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Links and shares of one entity."""
        part = slice(self.link_ptr[entity], self.link_ptr[entity + 1])
        return self.link_idx[part], self.link_share[part]


def table(
    usage: CsrWeighted,
    cluster: Cluster,
    *,
    latency_ps: NDArray[np.int64],
    rate_cap_bps: NDArray[np.float64],
    even_cap_bps: NDArray[np.float64] | None = None,
    even_latency_ps: NDArray[np.int64] | None = None,
    **columns: Any,
) -> EntityTable:
    """Works out the time alone, as flows are hashed and spread evenly.

    Args:
        usage: Links of the entities.
        cluster: Whose links these are.
        latency_ps: As in `EntityTable`.
        rate_cap_bps: As in `EntityTable`.
        even_cap_bps: Cap where flows are spread evenly; None: the same.
        even_latency_ps: Latency where flows are spread evenly; None: the same.
        columns: Others of `EntityTable` that do not follow from these.
    """
    bits, rate_bps = 8e12 * columns["volume_bytes"], cluster.links.rate_bps
    alone_ps = latency_ps + _moving_ps(bits, solo_bps(usage, rate_cap_bps, rate_bps))
    even_ps, even_part_ps = alone_ps, latency_ps
    sets = equal_sets(cluster)
    if sets is not None:
        cap = rate_cap_bps if even_cap_bps is None else even_cap_bps
        fixed_ps = latency_ps if even_latency_ps is None else even_latency_ps
        # sums round differently from single links
        spread_ps = fixed_ps + _moving_ps(bits, even_bps(usage, cap, rate_bps, sets))
        even_ps = np.minimum(alone_ps, spread_ps)
        even_part_ps = np.where(spread_ps <= alone_ps, fixed_ps, latency_ps)
    return EntityTable(
        usage.ptr,
        usage.link,
        usage.share,
        latency_ps=latency_ps,
        rate_cap_bps=rate_cap_bps,
        alone_ps=alone_ps,
        even_latency_ps=even_part_ps,
        even_ps=even_ps,
        **columns,
    )


def solo_bps(
    usage: CsrWeighted, rate_cap_bps: NDArray[np.float64], rate_bps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Rate of each entity with the network to itself, bit/s of volume; inf where nothing limits it."""
    bound = rate_bps[usage.link] / usage.share
    used = np.flatnonzero(usage.lengths > 0)
    out = rate_cap_bps.copy()
    if len(used):
        out[used] = np.minimum(out[used], np.minimum.reduceat(bound, usage.ptr[used]))
    return out


def even_bps(
    usage: CsrWeighted, rate_cap_bps: NDArray[np.float64], rate_bps: NDArray[np.float64], sets: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The same with the flows of each entity spread evenly over equal links; `sets` as from `equal_sets`."""
    usage, rate_bps = evened(usage, rate_bps, sets)
    return solo_bps(usage, rate_cap_bps, rate_bps)


def _moving_ps(bits: NDArray[np.float64], solo: NDArray[np.float64]) -> NDArray[np.int64]:
    moving = np.divide(bits, solo, out=np.zeros(len(solo)), where=solo > 0)
    found: NDArray[np.int64] = np.ceil(np.minimum(moving, LONGEST_PS)).astype(np.int64)
    return found


def gather(usage: CsrWeighted, rows: NDArray[np.int64], factor: NDArray[np.float64]) -> CsrWeighted:
    """Rows of a usage table in any order and number, each times a factor."""
    lengths = usage.lengths[rows]
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    entry = ranges(usage.ptr[rows], lengths)
    return CsrWeighted(ptr, usage.link[entry], usage.share[entry] * np.repeat(factor, lengths))


PEER_LL_BYTES = 16 << 10
"""Largest message through NICs for which LL is taken (NCCL 2.30); on other libraries inside domains too."""


def lower_transfers(
    cluster: Cluster,
    source: NDArray[np.int32],
    target: NDArray[np.int32],
    size_bytes: NDArray[np.int64],
    count: NDArray[np.int32],
    *,
    policy: CollectivePolicy = DEFAULT_POLICY,
    ranks: int = 2,
) -> EntityTable:
    """Sends and receives.

    Each is by itself: when many reach one port at a time they share its link, which is not slowed by incast. How many
    meet is known to the engine only.

    Args:
        cluster: Where they run.
        source: int32[k], sending ranks.
        target: int32[k], receiving ranks; a transfer to itself takes no time.
        size_bytes: int64[k], of one invocation.
        count: int32[k], invocations back to back.
        policy: For the use of peers' NICs and what launching adds.
        ranks: Of the communicator that they are sent in; the more, the fewer channels has each peer.

    Returns:
        One row a transfer, in their order.

    Raises:
        InputError: A rank is not in the cluster, or two ranks have no path.
    """
    machine = machine_of(cluster, policy.measured)
    nics = cluster.back_end.port_of_rank.shape[1]
    each = connections_opened(cluster, Shape.grid(2, 1), "transfer", policy)
    ends = np.asarray(source, np.int64), np.asarray(target, np.int64)
    legs = Legs(np.arange(len(source)), *ends, np.ones(len(source)), np.full(len(source), each))
    _check(cluster, legs)
    size = np.asarray(size_bytes, np.float64)
    inside = legs.source // cluster.scale_up_domain == legs.target // cluster.scale_up_domain
    away = legs.source != legs.target
    counted = inside & by_channels(machine, 1)
    small = size <= np.where(counted, connections.ll_bytes(ranks), PEER_LL_BYTES)
    usage, path_ps = _usage(cluster, legs, inside, away, policy)
    protocol = np.where(small, "ll", "simple")
    factor = np.where(small, WIRE["ll"], WIRE["simple"])
    latency = _latency_ps(machine, inside, small, path_ps, policy)
    cap = np.where(
        inside & (machine.scale_up == "switched"), machine.plan_bps * machine.measured.peer_share / factor, np.inf
    )
    if counted.any():
        copied_ll, copied = (
            connections.copied_gbs(ranks, 1, size, spoken, machine.measured) * 8e9 for spoken in ("ll", "simple")
        )
        cap = np.where(counted, np.minimum(cap * factor, np.where(small, copied_ll, copied)), cap)
        latency += np.where(
            counted & ~small, np.rint(connections.fill_us(ranks, size, "simple", machine.measured) * 1e6), 0
        ).astype(np.int64)
    pairs = np.where(inside, 1, nics * each * cluster.fabric.qps)
    return table(
        CsrWeighted(usage.ptr, usage.link, usage.share * np.repeat(factor, usage.lengths)),
        cluster,
        volume_bytes=np.where(away, size * count, 0.0),
        latency_ps=np.where(away, latency * np.asarray(count, np.int64), 0),
        rate_cap_bps=cap,
        fair_weight=pairs / factor,
        algorithm=np.full(len(size), "transfer"),
        protocol=protocol,
    )


def _check(cluster: Cluster, legs: Legs) -> None:
    for name, rank in (("source", legs.source), ("target", legs.target)):
        wrong = (rank < 0) | (rank >= cluster.ranks)
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"rank {rank[place]} is not in the cluster",
                key=f"transfers[{place}].{name}",
                allowed=f"0 to {cluster.ranks - 1}",
            )


def _usage(
    cluster: Cluster, legs: Legs, inside: NDArray[np.bool_], away: NDArray[np.bool_], policy: CollectivePolicy
) -> tuple[CsrWeighted, NDArray[np.int64]]:
    """Links of every transfer, and the latency of its path through the network (0 inside a domain)."""
    up, out = legs.part(inside & away), legs.part(~inside)
    parts: list[LinkLoads] = []
    path_ps = np.zeros(len(legs), np.int64)
    if len(out):
        if policy.pxn:
            to_peers, out = routes.through_peers(cluster, out)
            up = Legs.joined([up, to_peers])
        parts += routes.scale_out_load(cluster, out, pair_of_ranks(cluster, legs.source, legs.target))
        ports = cluster.back_end.port_of_rank[:, 0]
        path_ps[out.entity] = cluster.back_end.path_latency_ps(ports[out.source], ports[out.target])
    if len(up):
        parts.append(routes.scale_up_load(cluster, up, policy.measured))
    return LinkLoads.summed(len(legs), parts), path_ps


def _latency_ps(
    machine: CollectiveMachine,
    inside: NDArray[np.bool_],
    small: NDArray[np.bool_],
    path_ps: NDArray[np.int64],
    policy: CollectivePolicy,
) -> NDArray[np.int64]:
    hop = np.where(small, transfer_us(machine, "ll"), transfer_us(machine, "simple"))
    software = np.where(small, machine.software_us("ll"), machine.software_us("simple"))
    base = transfer_us(machine, "base")
    network_ps = 1e6 * (base + software) + path_ps + policy.network_overhead_ps
    latency = np.where(inside, 1e6 * (base + hop), network_ps)
    total: NDArray[np.int64] = np.rint(latency + policy.launch_ps).astype(np.int64)
    return total
