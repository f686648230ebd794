"""Ways between replicas: which links of the cluster keys and values take, and with what share on each.

Keys and values of a request lie on one copy of the attention of a replica, in equal parts on its ranks. Between two
replicas there is a way for each pairing of their copies, and transfers take them by turns, as engines deal requests to
copies by turns.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.collective.policy import CollectivePolicy
from railyard.engine.serving import Links
from railyard.kit.errors import InputError
from railyard.work.serving.link_usage import Lanes, StageLinks, across, within

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from railyard.work.serving.networks import Networks
    from railyard.work.serving.placing import PlacedPool
    from railyard.work.serving.section import Nics

    Ints = NDArray[np.int64]

_MOST_LANES = 1 << 18
"""Between the replicas of a pool; 64 replicas of 64 accelerators each have as many."""


def replica_links(
    networks: Networks,
    pools: tuple[PlacedPool, ...],
    nics: Nics = "rail",
    *,
    among: Collection[str] = (),
    handover_ps: int = 0,
) -> Links | None:
    """Links between replicas that exchange keys and values; None where there are none.

    Each rank of the copy on one side sends its part of the cache to its partner on the other, inside a scale-up domain
    or over NICs. NICs of a pool with servers of its own run at the slower of its rate and the network's.

    Args:
        networks: The cluster's, and those of pools that have their own.
        pools: All of them, as replicas are numbered.
        nics: `own`: each rank its own NICs; `rail`: the NICs of the peer on the rail of the target, reached by
            scale-up; `all`: all NICs of the server, and on the other side all of them again, both by scale-up.
        among: Roles of pools of which also each replica reaches the others. Where a pool is so large that these ways
            would take much memory, its replicas exchange in groups of neighbours.
        handover_ps: What engines need beside the way itself for a request that goes on to another pool.

    Raises:
        InputError: Two ranks have no path.
    """
    by_role = {pool.role: pool for pool in pools}
    first = {pool.role: sum(other.replicas for other in pools[:number]) for number, pool in enumerate(pools)}
    parts = []
    if "prefill" in by_role:
        send, take = by_role["prefill"], by_role["decode"]
        a, b = np.divmod(np.arange(send.replicas * take.replicas), take.replicas)
        start = (first["prefill"], first["decode"])
        ways = _between(networks, pools, (send, take), (a, b), first=start, nics=nics)
        parts.append(replace(ways, latency_ps=ways.latency_ps + handover_ps))
    for pool in pools:
        a, b = _neighbours(pool)
        if pool.role in among and len(a):
            parts.append(_between(networks, pools, (pool, pool), (a, b), first=(first[pool.role],) * 2, nics=nics))
    return joined(parts) if parts else None


def joined(parts: list[Links]) -> Links:
    """All ways over the same links."""
    offsets = np.cumsum([0, *(part.ptr[-1] for part in parts)])
    ptr = [part.ptr[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    return Links(
        rate_bps=parts[0].rate_bps,
        ptr=np.concatenate([*ptr, offsets[-1:]]).astype(np.int64),
        **{name: column(name) for name in ("from_replica", "to_replica", "link", "share", "latency_ps")},
    )


def _neighbours(pool: PlacedPool) -> tuple[Ints, Ints]:
    """Pairs of different replicas of a pool: all, or those within groups."""
    count, each = pool.replicas, pool.copies.shape[1] * pool.copies.shape[2]
    group = min(count, max(2, _MOST_LANES // (count * each)))
    a, offset = np.divmod(np.arange(count * group), group)
    b = a // group * group + offset
    keep = (a != b) & (b < count)
    return a[keep], b[keep]


def _between(
    networks: Networks,
    pools: tuple[PlacedPool, ...],
    ends: tuple[PlacedPool, PlacedPool],
    pairs: tuple[Ints, Ints],
    *,
    first: tuple[int, int],
    nics: Nics,
) -> Links:
    """Ways from replicas of one pool to replicas of another, each pair with one for each pairing of their copies."""
    turns = math.lcm(*(pool.copies.shape[1] for pool in ends))
    a, b = (np.repeat(one, turns) for one in pairs)
    usage = StageLinks(networks, len(a), CollectivePolicy(pxn=nics == "rail"))
    lanes, homes = lanes_between(*ends, a, b, turns), (ends[0].home, ends[1].home)
    try:
        if homes[0] == homes[1]:
            within(usage, homes[0], lanes, nics)
        else:
            across(usage, homes, lanes, nics)
    except InputError as error:
        raise error.located(key="transfer.nic") from None
    ptr, link, share = usage.rows()
    return Links(
        rate_bps=rates(networks, pools),
        from_replica=(first[0] + a).astype(np.int32),
        to_replica=(first[1] + b).astype(np.int32),
        ptr=ptr,
        link=link,
        share=share,
        latency_ps=usage.latency_ps,
    )


def lanes_between(send: PlacedPool, take: PlacedPool, a: Ints, b: Ints, turns: int) -> Lanes:
    """Ranks of a copy to those of the other; the ways of a pair follow one another, turn by turn."""
    here, there = send.copies, take.copies
    lanes = max(here.shape[2], there.shape[2])
    turn, lane = np.arange(len(a)) % turns, np.arange(lanes)
    source = here[a, turn % here.shape[1]][:, lane * here.shape[2] // lanes]
    target = there[b, turn % there.shape[1]][:, lane * there.shape[2] // lanes]
    share = np.full(source.size, 1 / lanes)
    return Lanes(np.repeat(np.arange(len(a)), lanes), source.ravel(), target.ravel(), share)


def rates(networks: Networks, pools: tuple[PlacedPool, ...]) -> NDArray[np.float64]:
    """Rates of all links; those at the NICs of a pool with servers of its own are at most those NICs' rates."""
    rate, cluster = networks.rate_bps(), networks.clusters[0]
    network = cluster.back_end
    for machine, ranks in (side for pool in pools for side in pool.separate):
        slower = machine.nic.rate_bps / cluster.nic.rate_bps
        if slower >= 1 or machine.spec.back_end.link_rate_bps is not None:
            continue
        ports = np.unique(network.port_of_rank[ranks.ravel()].ravel())
        used = network.endpoints(ports.astype(np.int32), np.roll(ports, 1).astype(np.int32))
        rate[np.unique(used.link)] *= slower
    return rate
