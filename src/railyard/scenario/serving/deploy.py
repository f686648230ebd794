"""From pools of a scenario to replicas on ranks of the cluster, and to the engine's deployment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard import cluster as clusters
from railyard.engine.serving import (
    Autoscale,
    Cost,
    Deployment,
    Outages,
    Pool,
    Router,
    Speculative,
    Store,
    Transfers,
)
from railyard.errors import InputError
from railyard.workload.serving.layout import ServingLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Catalog
    from railyard.cluster import Cluster
    from railyard.engine.serving import Links
    from railyard.engine.serving.deployment import Role
    from railyard.scenario.load import Draft
    from railyard.scenario.serving.section import PoolSection, RouterSection, ServingSection

ROLES: tuple[Role, ...] = ("prefill", "decode", "both")
_PS = 1e12


@dataclass(frozen=True, eq=False)
class Ffn:
    """The accelerators of a pool that compute FFNs only.

    Attributes:
        cluster: The machine that they see.
        layout: Of a replica: `tp` of each of `ep` groups.
        ranks: int64[replicas, FFN ranks of a replica].
        server: Of their own, as written.
    """

    cluster: Cluster
    layout: ServingLayout
    ranks: NDArray[np.int64]
    server: str | None


@dataclass(frozen=True, eq=False)
class Placed:
    """One pool on the cluster.

    Attributes:
        role: `prefill`, `decode` or `both`.
        section: As written.
        cluster: The machine that its replicas see: its own server in the same network.
        layout: Of a replica; of its attention where FFNs are apart.
        ranks: int64[replicas, ranks of a replica], ranks of the whole cluster; those with keys and values.
        server: Of their own, as written.
        ffn: Where FFNs lie when they are apart.
    """

    role: Role
    section: PoolSection
    cluster: Cluster
    layout: ServingLayout
    ranks: NDArray[np.int64]
    server: str | None = None
    ffn: Ffn | None = None

    @property
    def accelerators(self) -> int:
        """Of all replicas, both sides."""
        return int(self.ranks.size) + (0 if self.ffn is None else int(self.ffn.ranks.size))

    @property
    def own(self) -> tuple[tuple[Cluster, NDArray[np.int64]], ...]:
        """Machines with servers of their own, and the ranks that they have."""
        sides: list[Placed | Ffn] = [self] if self.ffn is None else [self, self.ffn]
        return tuple((side.cluster, side.ranks) for side in sides if side.server is not None)

    @property
    def replicas(self) -> int:
        """How many there are."""
        return len(self.ranks)

    @property
    def copies(self) -> NDArray[np.int64]:
        """int64[replicas, copies of attention, ranks of a copy]: a copy's ranks of a stage lie side by side."""
        layout = self.layout
        split = self.ranks.reshape(self.replicas, layout.pp * layout.cp, layout.dp_attention, layout.tp)
        return split.swapaxes(1, 2).reshape(self.replicas, layout.dp_attention, -1)


def place(draft: Draft, catalog: Catalog, cluster: Cluster) -> tuple[Placed, ...]:
    """Puts the replicas of every pool on ranks, pool after pool, none across scale-up domains that it fits into.

    Raises:
        InputError: They do not fit on the cluster, or a pool's server does not match the cluster's.
    """
    serving = draft.scenario.serving
    _check_total(serving, cluster)
    pools, start = [], 0
    open_ended = [role for role in ROLES if (pool := getattr(serving.pools, role)) and pool.replicas is None]
    for role in ROLES:
        section = getattr(serving.pools, role)
        if section is None:
            continue
        place_of = f"pools.{role}"
        if section.replicas is None and len(open_ended) > 1:
            raise InputError("only one pool may leave out `replicas`", key=f"{place_of}.replicas")
        later = sum(_ranks(serving, other) for other in ROLES[ROLES.index(role) + 1 :])
        room = range(start, cluster.ranks - later)
        pool = _placed(serving, role, catalog, cluster, room)
        start = int(pool.ranks[-1, -1] if pool.ffn is None else pool.ffn.ranks[-1, -1]) + 1
        pools.append(pool)
    return tuple(pools)


def _check_total(serving: ServingSection, cluster: Cluster) -> None:
    """Refuses pools that together want more than there is: which one is too large is for the reader to say."""
    wanted = {role: _ranks(serving, role) for role in ROLES}
    total = sum(wanted.values())
    several = {role: ranks for role, ranks in wanted.items() if ranks}
    if total <= cluster.ranks or len(several) < 2:
        return
    counts = {role: getattr(serving.pools, role).replicas for role in several}
    said = ", ".join(f"{role} {counts[role]} x {ranks // counts[role]}" for role, ranks in several.items())
    raise InputError(
        f"{said}: {total} accelerators, the cluster has {cluster.ranks}",
        key="pools",
        hint="raise `cluster.accelerators`, or lower `replicas` or the degrees",
    )


def _placed(serving: ServingSection, role: Role, catalog: Catalog, cluster: Cluster, room: range) -> Placed:
    section, key = getattr(serving.pools, role), f"pools.{role}"
    layout = _layout(serving, section)
    if section.attention is None:
        machine = _machine(catalog, cluster, section.server, f"{key}.server")
        ranks = _ranks_of(section, layout.ranks, room, cluster, key)
        return Placed(role, section, machine, layout, ranks, section.server)
    if section.replicas is None:
        raise InputError("a pool with `attention` and `ffn` apart says how many there are", key=f"{key}.replicas")
    other = _ffn_layout(serving, section)
    here, there = section.attention.server or section.server, section.ffn.server or section.server
    machine = _machine(catalog, cluster, here, f"{key}.attention.server")
    ffn_machine = _machine(catalog, cluster, there, f"{key}.ffn.server")
    if here == there:
        both = _ranks_of(section, layout.ranks + other.ranks, room, cluster, key)
        ranks, ffn_ranks = both[:, : layout.ranks], both[:, layout.ranks :]
    else:
        # Accelerators of two kinds are in servers of their own.
        ranks = _ranks_of(section, layout.ranks, room, cluster, f"{key}.attention")
        whole = cluster.ranks_per_server
        next_server = -(-(int(ranks[-1, -1]) + 1) // whole) * whole
        ffn_ranks = _ranks_of(section, other.ranks, range(next_server, room.stop), cluster, f"{key}.ffn")
    return Placed(role, section, machine, layout, ranks, here, Ffn(ffn_machine, other, ffn_ranks, there))


def _ranks(serving: ServingSection, role: str) -> int:
    section = getattr(serving.pools, role)
    if section is None:
        return 0
    each = _layout(serving, section).ranks
    if section.ffn is not None:
        each += section.ffn.tp * section.ffn.ep
    return each * (section.replicas or 0)


def _layout(serving: ServingSection, section: PoolSection) -> ServingLayout:
    apart = section.attention
    return ServingLayout(
        tp=section.tp if apart is None else apart.tp,
        pp=section.pp,
        dp_attention=section.dp_attention if apart is None else apart.copies,
        ep=section.ep,
        cp=section.cp,
        precision=section.precision or serving.precision,
        kv_bits=section.kv_bits or serving.kv_bits,
    )


def _ffn_layout(serving: ServingSection, section: PoolSection) -> ServingLayout:
    side = section.ffn
    if side is None:
        raise InputError("this pool has no FFNs apart", key="ffn")
    precision = section.precision or serving.precision
    return ServingLayout(tp=side.tp, dp_attention=side.ep, ep=side.ep, precision=precision)


def _ranks_of(section: PoolSection, each: int, room: range, cluster: Cluster, key: str) -> NDArray[np.int64]:
    """Ranks of every replica of a pool; where they fit whole into a domain, none straddles two."""
    domain = cluster.scale_up_domain
    firsts: list[int] = []
    first = room.start
    while section.replicas is None or len(firsts) < section.replicas:
        if each <= domain and first // domain != (first + each - 1) // domain:
            first = (first // domain + 1) * domain
        if first + each > room.stop:
            break
        firsts.append(first)
        first += each
    if not firsts or (section.replicas is not None and len(firsts) < section.replicas):
        raise InputError(
            f"{section.replicas or 1} replicas of {each} accelerators do not fit: {len(room)} of the"
            f" cluster's {cluster.ranks} are left for this pool, which hold {len(firsts)}",
            key=f"{key}.replicas",
            found=section.replicas,
            allowed=f"at most {len(firsts)}" if firsts else None,
            hint="raise `cluster.accelerators`, or lower `tp`, `pp` or `replicas`",
        )
    return np.asarray(firsts, np.int64)[:, None] + np.arange(each)


def _machine(catalog: Catalog, cluster: Cluster, name: str | None, key: str) -> Cluster:
    """The cluster as the pool's replicas see it: its own servers in the same network."""
    if name is None:
        return cluster
    server = catalog.server(name)
    if server.accelerators != cluster.server.accelerators:
        raise InputError(
            f"`{server.name}` has {server.accelerators} accelerators, the cluster's `{cluster.server.name}`"
            f" {cluster.server.accelerators}: servers of one network must be of one size",
            key=key,
            found=name,
        )
    return clusters.build(replace(cluster.spec, server=name, overrides={}), catalog)


def deployment(
    serving: ServingSection,
    pools: tuple[Placed, ...],
    costs: tuple[Any, ...],
    *,
    links: Links | None,
    hash_tokens: int,
) -> Deployment:
    """What the engine runs.

    Args:
        serving: As written.
        pools: On the cluster.
        costs: An iteration of a replica of each pool.
        links: Between them.
        hash_tokens: Tokens of a hashed block of the requests; 0 where no prefixes are known.

    Raises:
        InputError: An outage names a replica that is not there.
    """
    store = serving.cache.store
    return Deployment(
        pools=tuple(_pool(serving, pool, cost, hash_tokens) for pool, cost in zip(pools, costs, strict=True)),
        router=_router(serving.router),
        decode_router=_router(serving.decode_router),
        links=links,
        transfers=Transfers(serving.transfer.overlap),
        store=Store() if store is None else Store(store.capacity, store.rate, store.latency),
        outages=_outages(serving, sum(pool.replicas for pool in pools)),
    )


def _pool(serving: ServingSection, pool: Placed, cost: Any, hash_tokens: int) -> Pool:
    section, cache = pool.section, serving.cache
    blocks = int(cost.kv_capacity_tokens) // section.block_tokens
    if blocks < 1:
        raise InputError("the cache has no room for a single block", key=f"pools.{pool.role}.block_tokens")
    if cache.prefix and hash_tokens % section.block_tokens:
        raise InputError(
            f"the requests know prefixes by blocks of {hash_tokens} tokens, which blocks of the cache must divide",
            key=f"pools.{pool.role}.block_tokens",
            found=section.block_tokens,
            allowed=f"a divisor of {hash_tokens}",
        )
    guess, scale = section.speculative, section.autoscale
    return Pool(
        name=pool.role,
        cost=Cost.of(cost),
        replicas=pool.replicas,
        role=pool.role,
        block_tokens=section.block_tokens,
        kv_blocks=blocks,
        max_sequences=section.max_sequences,
        max_batched_tokens=section.max_batched_tokens,
        chunked=section.chunked,
        policy=section.policy,
        prefix_cache=cache.prefix and hash_tokens > 0,
        preemption=section.preemption,
        kv_bytes_per_token=float(cost.kv_bytes_per_token),
        swap_bytes=float(cache.swap),
        host_kv_bytes=float(cache.host),
        swap_bps=cache.host_rate,
        host_latency_s=cache.host_latency,
        speculative=None if guess is None else Speculative(guess.tokens, guess.acceptance, guess.draft),
        autoscale=None if scale is None else _autoscale(pool, cost),
    )


def _autoscale(pool: Placed, cost: Any) -> Autoscale:
    rule = pool.section.autoscale
    if rule is None:
        raise InputError("this pool does not scale", key="autoscale")
    loading = rule.cold_start
    if loading is None:
        loading = 8 * float(cost.weight_bytes) * pool.replicas / pool.accelerators / rule.load_rate
    return Autoscale(
        min_replicas=min(rule.least, pool.replicas),
        target=rule.target,
        measure="queue" if rule.by == "queue" else "utilization",
        first_replicas=min(rule.start, pool.replicas),
        interval_ps=round(rule.interval * _PS),
        cold_start_ps=round(loading * _PS),
        hold_ps=round(rule.hold * _PS),
    )


def _router(section: RouterSection) -> Router:
    return Router(section.kind, section.prefix_weight, section.load_weight, section.move)


def _outages(serving: ServingSection, replicas: int) -> Outages:
    rows = serving.outages
    for number, row in enumerate(rows):
        if row.replica >= replicas:
            raise InputError(
                "there is no such replica",
                key=f"outages.{number}.replica",
                found=row.replica,
                allowed=f"0 to {replicas - 1}",
            )
        if row.end <= row.start:
            raise InputError("it ends before it begins", key=f"outages.{number}.end", found=f"{row.end:g} s")
    return Outages(
        np.array([row.replica for row in rows], np.int32),
        np.array([round(row.start * _PS) for row in rows], np.int64),
        np.array([round(row.end * _PS) for row in rows], np.int64),
        np.array([row.drain for row in rows], np.bool_),
    )
