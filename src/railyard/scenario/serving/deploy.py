"""From pools that lie on ranks, with their costs and the links between them, to the engine's deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

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

if TYPE_CHECKING:
    from railyard.engine.serving import Links
    from railyard.scenario.serving.placing import Placed
    from railyard.scenario.serving.section import RouterSection, ServingSection

_PS = 1e12


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
        ahead=section.ahead,
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
