"""Point-to-point transfers onto links: through scale-up inside a domain, through NICs otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster import CsrWeighted
from railyard.collective import peers
from railyard.collective.choice import DEFAULT_POLICY
from railyard.collective.connections import opened, pair_of_ranks
from railyard.collective.lowering import routes
from railyard.collective.lowering.routes import Legs, LinkLoads
from railyard.collective.lowering.table import EntityTable, Limits, gather, table
from railyard.collective.machine import CollectiveMachine, machine_of
from railyard.collective.shape import Shape
from railyard.collective.timing import WIRE, by_channels, transfer_us
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.policy import CollectivePolicy

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
    each = opened(cluster, Shape.grid(2, 1), "transfer", policy)
    ends = np.asarray(source, np.int64), np.asarray(target, np.int64)
    legs = Legs(np.arange(len(source)), *ends, np.ones(len(source)), np.full(len(source), each))
    _check(cluster, legs)
    size = np.asarray(size_bytes, np.float64)
    inside = legs.source // cluster.scale_up_domain == legs.target // cluster.scale_up_domain
    away = legs.source != legs.target
    counted = inside & by_channels(machine, 1)
    small = size <= np.where(counted, peers.ll_bytes(ranks), PEER_LL_BYTES)
    usage, path_ps = _usage(cluster, legs, inside, away, policy)
    protocol = np.where(small, "ll", "simple")
    factor = np.where(small, WIRE["ll"], WIRE["simple"])
    latency = _latency_ps(machine, inside, small, path_ps, policy)
    cap = np.where(
        inside & (machine.scale_up == "switched"), machine.plan_bps * machine.measured.peer_share / factor, np.inf
    )
    if counted.any():
        copied_ll, copied = (
            peers.copied_gbs(ranks, 1, size, spoken, machine.measured) * 8e9 for spoken in ("ll", "simple")
        )
        cap = np.where(counted, np.minimum(cap * factor, np.where(small, copied_ll, copied)), cap)
        latency += np.where(
            counted & ~small, np.rint(peers.fill_us(ranks, size, "simple", machine.measured) * 1e6), 0
        ).astype(np.int64)
    pairs = np.where(inside, 1, nics * each * cluster.fabric.qps)
    limits = Limits(
        volume_bytes=np.where(away, size * count, 0.0),
        latency_ps=np.where(away, latency * np.asarray(count, np.int64), 0),
        rate_cap_bps=cap,
        fair_weight=pairs / factor,
        algorithm=np.full(len(size), "transfer"),
        protocol=protocol,
    )
    return table(gather(usage, np.arange(len(size)), factor), limits, cluster)


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
        parts.append(routes.scale_out_load(cluster, out, pair_of_ranks(cluster, legs.source, legs.target)))
        ports = cluster.back_end.port_of_rank[:, 0]
        path_ps[out.entity] = cluster.back_end.path_latency_ps(ports[out.source], ports[out.target])
    if len(up):
        parts.append(routes.scale_up_load(cluster, up, policy.measured))
    load = LinkLoads.joined(parts)
    return CsrWeighted.gathered(len(legs), load.entity, load.link, load.share), path_ps


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
