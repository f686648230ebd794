"""A deployment in the core's own records."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard import _core
from railyard.engine.serving.deployment import LOADS, POLICIES, PREEMPTIONS, ROLES, ROUTERS, choice
from railyard.kit.errors import InputError, StaleCoreError

if TYPE_CHECKING:
    from railyard.engine.serving.deployment import Autoscale, Deployment, Pool, Router

_MEASURES = ("utilization", "queue")


def lower(deployment: Deployment, hash_tokens: int) -> _core.ServingDeployment:
    """The core's deployment. Raises InputError when a value has the wrong type or spelling."""
    core = _core.ServingDeployment()
    core.pools = [_pool(pool) for pool in deployment.pools]
    core.router = _router(deployment.router, "router.kind")
    core.decode_router = _router(deployment.decode_router, "decode_router.kind")
    core.links = _copied(_core.ServingLinks(), deployment.links, "links") if deployment.links else _core.ServingLinks()
    core.background = _copied(_core.ServingBackground(), deployment.background, "background")
    core.store = _copied(_core.ServingStore(), deployment.store, "store")
    core.outages = _copied(_core.ServingOutages(), deployment.outages, "outages")
    _set(core, "overlap", deployment.transfers.overlap, "transfers.overlap")
    _set(core, "hash_tokens", hash_tokens, "block_tokens")
    core.stop_on_overload = deployment.stop_on_overload
    return core


def _set(target: Any, name: str, value: Any, key: str) -> None:
    if isinstance(value, (bool, np.bool_)):
        value = bool(value)
    elif isinstance(value, (np.ndarray, list, tuple)):
        value = np.asarray(value).tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    if not hasattr(target, name):
        raise StaleCoreError(f"{type(target).__name__}.{name}")
    try:
        setattr(target, name, value)
    except (TypeError, OverflowError) as error:
        raise InputError(f"`{name}` cannot be {value!r}", key=key, found=value) from error


def _copied(target: Any, source: Any, key: str) -> Any:
    for one in fields(source):
        value = getattr(source, one.name)
        if one.name == "drain":
            value = np.asarray(value, np.uint8)
        _set(target, one.name, value, f"{key}.{one.name}")
    return target


def _router(router: Router, key: str) -> _core.ServingRouter:
    core = _core.ServingRouter()
    core.kind = choice(router.kind, ROUTERS, key)
    _set(core, "prefix_weight", router.prefix_weight, "router.prefix_weight")
    _set(core, "load_weight", router.load_weight, "router.load_weight")
    _set(core, "move", router.move, "router.move")
    return core


_COST = (
    "tokens",
    "compute_s",
    "network_s",
    "host_s",
    "host_per_seq_s",
    "attention_per_kv_token_s",
    "attention_per_sequence_s",
    "attention_floor_s",
    "attention_per_pair_s",
    "overlapped_per_kv_token_s",
    "overlapped_s",
    "scale_out_bytes_per_token",
    "scale_out_bps",
    "scale_out_slack_s",
    "joint_tokens",
    "joint_compute_s",
    "joint_network_s",
    "pipeline_stages",
    "stage_share",
)
_POOL = (
    "replicas",
    "block_tokens",
    "kv_blocks",
    "max_sequences",
    "max_batched_tokens",
    "prompt_tokens",
    "chunked",
    "by_priority",
    "ahead",
    "lockstep",
    "prefix_cache",
    "watermark",
    "kv_bytes_per_token",
    "swap_bytes",
    "host_kv_bytes",
    "swap_bps",
    "host_latency_s",
    "weight_bytes",
    "load_s",
)


def _pool(pool: Pool) -> _core.ServingPool:
    core, cost = _core.ServingPool(), _core.ServingCost()
    for name in _COST:
        _set(cost, name, getattr(pool.cost, name), f"pools.{pool.name}.cost.{name}")
    for name in _POOL:
        _set(core, name, getattr(pool, name), f"pools.{pool.name}.{name}")
    core.cost = cost
    core.role = choice(pool.role, ROLES, f"pools.{pool.name}.role")
    core.policy = choice(pool.policy, POLICIES, f"pools.{pool.name}.policy")
    core.preemption = choice(pool.preemption, PREEMPTIONS, f"pools.{pool.name}.preemption")
    if pool.speculative is not None:
        for one in fields(pool.speculative):
            _set(core, one.name, getattr(pool.speculative, one.name), f"pools.{pool.name}.speculative.{one.name}")
    if pool.autoscale is not None:
        core.autoscale = _autoscale(pool.autoscale, f"pools.{pool.name}.autoscale")
    return core


def _autoscale(rule: Autoscale, key: str) -> _core.ServingAutoscale:
    core = _core.ServingAutoscale()
    core.on = True
    core.by_queue = choice(rule.measure, _MEASURES, f"{key}.measure") == 1
    core.load = choice(rule.load, LOADS, f"{key}.load")
    first = rule.min_replicas if rule.first_replicas is None else rule.first_replicas
    _set(core, "first_replicas", first, f"{key}.first_replicas")
    for name in ("min_replicas", "target", "tolerance", "interval_ps", "cold_start_ps", "hold_ps"):
        _set(core, name, getattr(rule, name), f"{key}.{name}")
    return core
