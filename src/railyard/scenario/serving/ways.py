"""Ways between replicas: which links of the cluster keys and values take, and with what share on each.

Keys and values of a request lie on one copy of the attention of a replica, in equal parts on its ranks. Between two
replicas there is a way for each pairing of their copies, and transfers take them by turns, as engines deal requests to
copies by turns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.collective.lowering.transfers import lower_transfers
from railyard.collective.policy import CollectivePolicy
from railyard.engine.serving import Links
from railyard.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.scenario.serving.deploy import Placed
    from railyard.scenario.serving.section import Nics

    Ints = NDArray[np.int64]

_KV_TRANSFER_BYTES = 1 << 28
"""Size at which ways are lowered: large enough that the protocol is that of bulk data."""
_MOST_LANES = 1 << 18
"""Between the replicas of a pool; 64 replicas of 64 accelerators each have as many."""


@dataclass(frozen=True, eq=False)
class Lanes:
    """Parts of ways that run side by side.

    Attributes:
        way: int64[k].
        source: int64[k], ranks.
        target: int64[k], ranks.
        share: float64[k], of the way's bytes.
    """

    way: Ints
    source: Ints
    target: Ints
    share: NDArray[np.float64]

    def part(self, chosen: NDArray[np.bool_]) -> Lanes:
        """Some of them."""
        return Lanes(self.way[chosen], self.source[chosen], self.target[chosen], self.share[chosen])


def ways(cluster: Cluster, pools: tuple[Placed, ...], nics: Nics = "rail", *, among: bool = False) -> Links | None:
    """Links between replicas that exchange keys and values; None where there are none.

    Each rank of the copy on one side sends its part of the cache to its partner on the other, inside a scale-up domain
    or over NICs. NICs of a pool with servers of its own run at the slower of its rate and the network's.

    Args:
        cluster: The network between the pools.
        pools: All of them, as replicas are numbered.
        nics: `own`: each rank its own NICs; `rail`: the NICs of the peer on the rail of the target, reached by
            scale-up; `all`: all NICs of the server, and on the other side all of them again, both by scale-up.
        among: Also from each replica that computes prompts to the others of its pool. Where a pool is so large that
            these ways would take much memory, its replicas exchange in groups of neighbours.

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
        parts.append(_between(cluster, pools, (send, take), (a, b), first=start, nics=nics))
    for pool in pools if among else ():
        a, b = _neighbours(pool)
        if pool.role != "decode" and len(a):
            parts.append(_between(cluster, pools, (pool, pool), (a, b), first=(first[pool.role],) * 2, nics=nics))
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


def _neighbours(pool: Placed) -> tuple[Ints, Ints]:
    """Pairs of different replicas of a pool: all, or those within groups."""
    count, each = pool.replicas, pool.copies.shape[1] * pool.copies.shape[2]
    group = min(count, max(2, _MOST_LANES // (count * each)))
    a, offset = np.divmod(np.arange(count * group), group)
    b = a // group * group + offset
    keep = (a != b) & (b < count)
    return a[keep], b[keep]


def _between(
    cluster: Cluster,
    pools: tuple[Placed, ...],
    ends: tuple[Placed, Placed],
    pairs: tuple[Ints, Ints],
    *,
    first: tuple[int, int],
    nics: Nics,
) -> Links:
    """Ways from replicas of one pool to replicas of another, each pair with one for each pairing of their copies."""
    turns = math.lcm(*(pool.copies.shape[1] for pool in ends))
    a, b = (np.repeat(one, turns) for one in pairs)
    usage = _Usage(cluster, len(a), CollectivePolicy(pxn=nics == "rail"))
    try:
        for lanes in _stages(cluster, _lanes(*ends, a, b, turns), nics):
            usage.add(lanes)
    except InputError as error:
        raise error.located(key="transfer.nic") from None
    ptr, link, share = usage.rows()
    return Links(
        rate_bps=rates(cluster, pools),
        from_replica=(first[0] + a).astype(np.int32),
        to_replica=(first[1] + b).astype(np.int32),
        ptr=ptr,
        link=link,
        share=share,
        latency_ps=usage.latency_ps,
    )


def _lanes(send: Placed, take: Placed, a: Ints, b: Ints, turns: int) -> Lanes:
    """Ranks of a copy to those of the other; the ways of a pair follow one another, turn by turn."""
    here, there = send.copies, take.copies
    lanes = max(here.shape[2], there.shape[2])
    turn, lane = np.arange(len(a)) % turns, np.arange(lanes)
    source = here[a, turn % here.shape[1]][:, lane * here.shape[2] // lanes]
    target = there[b, turn % there.shape[1]][:, lane * there.shape[2] // lanes]
    share = np.full(source.size, 1 / lanes)
    return Lanes(np.repeat(np.arange(len(a)), lanes), source.ravel(), target.ravel(), share)


def _stages(cluster: Cluster, lanes: Lanes, nics: Nics) -> tuple[Lanes, ...]:
    """The lanes one behind the other: over all NICs of the servers it is scale-up, network, scale-up."""
    domain = cluster.scale_up_domain
    away = lanes.source // domain != lanes.target // domain
    if nics != "all" or not away.any():
        return (lanes,)
    unit = min(cluster.ranks_per_server, domain)
    out, peer = lanes.part(away), np.arange(unit)
    way, share = np.repeat(out.way, unit), np.repeat(out.share / unit, unit)
    here = (out.source // unit * unit)[:, None] + peer
    there = (out.target // unit * unit)[:, None] + peer
    return (
        lanes.part(~away),
        Lanes(way, np.repeat(out.source, unit), here.ravel(), share),
        Lanes(way, here.ravel(), there.ravel(), share),
        Lanes(way, there.ravel(), np.repeat(out.target, unit), share),
    )


class _Usage:
    """Links of ways, gathered stage by stage."""

    def __init__(self, cluster: Cluster, ways: int, policy: CollectivePolicy) -> None:
        self._cluster, self._ways, self._policy = cluster, ways, policy
        self._key: list[Ints] = []
        self._share: list[NDArray[np.float64]] = []
        self.latency_ps = np.zeros(ways, np.int64)

    def add(self, lanes: Lanes) -> None:
        """One more stage, behind those before it."""
        if len(lanes.way) == 0:
            return
        count = len(lanes.way)
        table = lower_transfers(
            self._cluster,
            lanes.source.astype(np.int32),
            lanes.target.astype(np.int32),
            np.full(count, _KV_TRANSFER_BYTES, np.int64),
            np.ones(count, np.int32),
            policy=self._policy,
        )
        lane = np.repeat(np.arange(count), np.diff(table.link_ptr))
        self._key.append(lanes.way[lane] * len(self._cluster.links) + table.link_idx)
        self._share.append(table.link_share * lanes.share[lane])
        slowest = np.zeros(self._ways, np.int64)
        np.maximum.at(slowest, lanes.way, table.latency_ps)
        self.latency_ps += slowest

    def rows(self) -> tuple[Ints, NDArray[np.int32], NDArray[np.float64]]:
        """Offsets of the ways, their links, and shares of these."""
        width = len(self._cluster.links)
        keys, inverse = np.unique(np.concatenate(self._key), return_inverse=True)
        share = np.bincount(inverse.ravel(), weights=np.concatenate(self._share), minlength=len(keys))
        ptr = np.searchsorted(keys // width, np.arange(self._ways + 1)).astype(np.int64)
        return ptr, (keys % width).astype(np.int32), np.asarray(share, np.float64)


def rates(cluster: Cluster, pools: tuple[Placed, ...]) -> NDArray[np.float64]:
    """Rates of all links; those at the NICs of a pool with servers of its own are at most those NICs' rates."""
    rate = np.array(cluster.links.rate_bps, np.float64)
    network = cluster.back_end
    for machine, ranks in (side for pool in pools for side in pool.own):
        slower = machine.nic.rate_bps / cluster.nic.rate_bps
        if slower >= 1 or machine.spec.back_end.link_rate_bps is not None:
            continue
        ports = np.unique(network.port_of_rank[ranks.ravel()].ravel())
        used = network.endpoints(ports.astype(np.int32), np.roll(ports, 1).astype(np.int32))
        rate[np.unique(used.link)] *= slower
    return rate
