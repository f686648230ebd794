"""The engine's deployment of pools that lie on ranks, with their costs and the links between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.fault import LinkRate, RankDeath
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.cluster.fault.recovery import Recovery
from railyard.engine.serving import (
    Autoscale,
    Deployment,
    Outages,
    Pool,
    Router,
    Store,
    Transfers,
)
from railyard.engine.serving.deployment import LOADS
from railyard.kit.errors import InputError
from railyard.work.scenario.load import blaming
from railyard.work.scenario.section import build, fault_of
from railyard.work.serving.costing import speculative
from railyard.work.serving.memory import CacheRoom, divide
from railyard.work.study.deaths import cut_off, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.catalog import Model
    from railyard.cluster import Cluster
    from railyard.cluster.fault import Effect, Fault
    from railyard.engine.serving import Links
    from railyard.engine.serving.deployment import LoadFrom
    from railyard.graph.request_table import RequestTable
    from railyard.work.scenario.load import Draft
    from railyard.work.serving.placing import PlacedPool
    from railyard.work.serving.section import RouterSection, ServingSection


@dataclass(frozen=True)
class ReplicaDeath:
    """One time that something dies, and the replicas that are away for it.

    Attributes:
        replicas: Counted over all pools; none where nothing needs what died.
        end_s: Until their processes run again, without the loading of their weights.
    """

    replicas: tuple[int, ...]
    begin_s: float
    end_s: float
    what: str


def replica_deaths(draft: Draft, pools: Sequence[PlacedPool], cluster: Cluster) -> tuple[ReplicaDeath, ...]:
    """What the scenario's faults take away, in the order of time.

    A replica dies with any of its ranks. A NIC without any link left takes away replicas that need it: those that span
    servers, or that send or get keys and values. Deaths that leave every NIC a link take none away.

    Args:
        draft: The scenario.
        pools: On the cluster; those with networks of their own are not named by faults.
        cluster: The cluster.

    Raises:
        InputError: A fault names a place that is not there, or is none after which something is dead.
    """
    with blaming(draft, "recovery"):
        recovery: Recovery = build(draft.scenario.recovery, Recovery)
    found: list[ReplicaDeath] = []
    for number, section in enumerate(draft.scenario.faults):
        with blaming(draft, "faults", str(number)):
            fault = fault_of(section)
            effects = [_checked(fault, effect) for effect in fault.effects(ClusterPlaces.of(cluster))]
            found += _of_fault(fault, effects, pools, cluster, recovery)
    return tuple(sorted(found, key=lambda one: (one.begin_s, one.what)))


def _checked(fault: Fault, effect: Effect) -> LinkRate | RankDeath:
    if isinstance(effect, RankDeath) or (isinstance(effect, LinkRate) and effect.factor == 0):
        return effect
    raise InputError(
        "a serving run supports faults that kill a part",
        key="kind",
        found=fault.kind,
        allowed="link-down, switch-down, nic-down, host-down, accelerator-down",
    )


def _of_fault(
    fault: Fault,
    effects: Sequence[LinkRate | RankDeath],
    pools: Sequence[PlacedPool],
    cluster: Cluster,
    recovery: Recovery,
) -> Iterator[ReplicaDeath]:
    """A row for each time that it comes."""
    back_s = recovery.schedule_s if recovery.spares else recovery.repair_s
    for spell in dict.fromkeys(effect.spell for effect in effects):
        replicas = {
            replica for effect in effects if effect.spell == spell for replica in _taken(effect, pools, cluster)
        }
        begin_s = spell.begin_ps * 1e-12
        over_s = begin_s + back_s if spell.end_ps is None else spell.end_ps * 1e-12
        yield ReplicaDeath(tuple(sorted(replicas)), begin_s, over_s + recovery.process_s, words(fault))


def _taken(effect: LinkRate | RankDeath, pools: Sequence[PlacedPool], cluster: Cluster) -> Iterator[int]:
    if isinstance(effect, RankDeath):
        return _replicas(set(effect.ranks), pools, cluster, needs_nics=False)
    return _replicas(cut_off(effect.link, cluster), pools, cluster, needs_nics=True)


def _replicas(dead: set[int], pools: Sequence[PlacedPool], cluster: Cluster, *, needs_nics: bool) -> Iterator[int]:
    number = 0
    for pool in pools:
        for ranks in pool.ranks.tolist():
            servers = {rank // cluster.ranks_per_server for rank in ranks}
            needs = not needs_nics or pool.role != "both" or len(servers) > 1
            if pool.home == 0 and needs and dead.intersection(ranks):
                yield number
            number += 1


_PS = 1e12
_DISK_BPS = 5e10
_LOADS: dict[str | None, LoadFrom] = {None: "none", "disk": "none", "storage": "storage", "peer": "peer"}
"""A disk is no link: its time is part of the cold start."""


def deployment(
    serving: ServingSection,
    pools: tuple[PlacedPool, ...],
    costs: tuple[Any, ...],
    *,
    model: Model,
    links: Links | None,
    requests: RequestTable,
    deaths: tuple[ReplicaDeath, ...] = (),
) -> Deployment:
    """What the engine runs.

    Args:
        serving: As written.
        pools: On the cluster.
        costs: An iteration of a replica of each pool.
        model: What answers.
        links: Between them.
        requests: What is asked: how long sequences are, and of how many tokens the blocks are that are hashed.
        deaths: Replicas that die; they read their weights from their disks once they are back.

    Raises:
        InputError: An outage names a replica that is not there; guesses of which nobody says what they take.
    """
    store = serving.cache.store
    return Deployment(
        pools=tuple(_pool(serving, pool, cost, model, requests) for pool, cost in zip(pools, costs, strict=True)),
        router=_router(serving.router),
        decode_router=_router(serving.decode_router),
        links=links,
        transfers=Transfers(serving.transfer.overlap),
        store=Store() if store is None else Store(store.capacity, store.rate or 0.0, store.latency),
        outages=_outages(serving, pools, costs, deaths),
    )


def _pool(serving: ServingSection, pool: PlacedPool, cost: Any, model: Model, requests: RequestTable) -> Pool:
    section, cache, hash_tokens = pool.section, serving.cache, requests.block_tokens
    room = _room(pool, cost, requests)
    blocks = int(room.tokens) // section.block_tokens
    if blocks < 1:
        raise InputError("the cache has no room for a single block", key=f"pools.{pool.role}.block_tokens")
    if cache.prefix and hash_tokens % section.block_tokens:
        raise InputError(
            f"the requests know prefixes by blocks of {hash_tokens} tokens, which blocks of the cache must divide",
            key=f"pools.{pool.role}.block_tokens",
            found=section.block_tokens,
            allowed=f"a divisor of {hash_tokens}",
        )
    scale = section.autoscale
    return Pool(
        name=pool.role,
        cost=cost,
        replicas=pool.replicas,
        role=pool.role,
        block_tokens=section.block_tokens,
        kv_blocks=blocks,
        max_sequences=room.sequences,
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
        speculative=speculative(pool, cost, model),
        autoscale=None if scale is None else _autoscale(pool, cost),
        weight_bytes=float(cost.weight_bytes),
        load_s=_disk_s(pool, cost, _DISK_BPS if scale is None else scale.load_rate),
    )


def _room(pool: PlacedPool, cost: Any, requests: RequestTable) -> CacheRoom:
    """Cached tokens and sequences of a replica; without recurrences all that fits, and as the section says."""
    answers = 0.0 if pool.role == "prefill" else float(requests.output_tokens.mean())
    return divide(
        float(cost.kv_capacity_tokens),
        float(cost.state_tokens),
        requests.input_tokens.astype(np.float64) + requests.output_tokens,
        context=float(requests.input_tokens.mean()) + answers / 2.0,
        most=pool.section.max_sequences,
    )


def _disk_s(pool: PlacedPool, cost: Any, rate_bps: float) -> float:
    """Time in which each accelerator of a replica reads its part of the weights."""
    return 8 * float(cost.weight_bytes) * pool.replicas / pool.accelerators / rate_bps


def _autoscale(pool: PlacedPool, cost: Any) -> Autoscale:
    rule = pool.section.autoscale
    if rule is None:
        raise InputError("this pool does not scale", key="autoscale")
    loading = rule.cold_start
    if loading is None:
        loading = _disk_s(pool, cost, rule.load_rate) if rule.load_from == "disk" else 0.0
    return Autoscale(
        min_replicas=min(rule.least, pool.replicas),
        target=rule.target,
        measure="queue" if rule.by == "queue" else "utilization",
        first_replicas=min(rule.start, pool.replicas),
        interval_ps=round(rule.interval * _PS),
        cold_start_ps=round(loading * _PS),
        hold_ps=round(rule.hold * _PS),
        load=_LOADS[rule.load_from],
    )


def _router(section: RouterSection) -> Router:
    return Router(section.kind, section.prefix_weight, section.load_weight, section.move)


def _outages(
    serving: ServingSection, pools: tuple[PlacedPool, ...], costs: tuple[Any, ...], deaths: tuple[ReplicaDeath, ...]
) -> Outages:
    rows = serving.outages
    each = [one for one in zip(pools, costs, strict=True) for _ in range(one[0].replicas)]
    replicas = len(each)
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
    read = [_disk_s(*each[row.replica], row.load_rate) if row.load_from == "disk" else 0.0 for row in rows]
    away = [(row.replica, row.start, row.end + disk_s) for row, disk_s in zip(rows, read, strict=True)]
    away += [
        (replica, one.begin_s, one.end_s + _disk_s(*each[replica], _DISK_BPS))
        for one in deaths
        for replica in one.replicas
    ]
    dead = len(away) - len(rows)
    load = [LOADS.index(_LOADS[row.load_from]) for row in rows] + [LOADS.index(_LOADS[None])] * dead
    return Outages(
        np.array([replica for replica, _, _ in away], np.int32),
        np.array([round(begin_s * _PS) for _, begin_s, _ in away], np.int64),
        np.array([round(end_s * _PS) for _, _, end_s in away], np.int64),
        np.array([row.drain for row in rows] + [False] * dead, np.bool_),
        np.array(load, np.uint8),
    )
