"""From pools of a scenario to replicas on ranks of the cluster, and to the engine's deployment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster import build
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
class Placed:
    """One pool on the cluster.

    Attributes:
        role: `prefill`, `decode` or `both`.
        section: As written.
        cluster: The machine that its replicas see: its own server in the same network.
        layout: Of a replica.
        ranks: int64[replicas, ranks of a replica], ranks of the whole cluster.
    """

    role: Role
    section: PoolSection
    cluster: Cluster
    layout: ServingLayout
    ranks: NDArray[np.int64]

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
    pools, start = [], 0
    open_ended = [role for role in ROLES if (pool := getattr(serving.pools, role)) and pool.replicas is None]
    for role in ROLES:
        section = getattr(serving.pools, role)
        if section is None:
            continue
        place_of = f"pools.{role}"
        if section.replicas is None and len(open_ended) > 1:
            raise InputError("only one pool may leave out `replicas`", key=f"{place_of}.replicas")
        layout = _layout(serving, section)
        machine = _machine(catalog, cluster, section, place_of)
        later = sum(_ranks(serving, other) for other in ROLES[ROLES.index(role) + 1 :])
        room = range(start, cluster.ranks - later)
        ranks = _ranks_of(section, layout.ranks, room, cluster, place_of)
        start = int(ranks[-1, -1]) + 1
        pools.append(Placed(role, section, machine, layout, ranks))
    return tuple(pools)


def _ranks(serving: ServingSection, role: str) -> int:
    section = getattr(serving.pools, role)
    return 0 if section is None else _layout(serving, section).ranks * (section.replicas or 0)


def _layout(serving: ServingSection, section: PoolSection) -> ServingLayout:
    return ServingLayout(
        tp=section.tp,
        pp=section.pp,
        dp_attention=section.dp_attention,
        ep=section.ep,
        cp=section.cp,
        precision=section.precision or serving.precision,
        kv_bits=section.kv_bits or serving.kv_bits,
    )


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


def _machine(catalog: Catalog, cluster: Cluster, section: PoolSection, key: str) -> Cluster:
    """The cluster as the pool's replicas see it: its own servers in the same network."""
    if section.server is None:
        return cluster
    server = catalog.server(section.server)
    if server.accelerators != cluster.server.accelerators:
        raise InputError(
            f"`{server.name}` has {server.accelerators} accelerators, the cluster's `{cluster.server.name}`"
            f" {cluster.server.accelerators}: servers of one network must be of one size",
            key=f"{key}.server",
            found=section.server,
        )
    back_end = cluster.spec.back_end
    return build(replace(cluster.spec, server=section.server, back_end=back_end, overrides={}), catalog)


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
        loading = 8 * float(cost.weight_bytes) / pool.layout.ranks / rule.load_rate
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
