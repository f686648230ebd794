"""Runs requests through a deployment: all at once, or in chunks."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

import railyard._core as _core
from railyard.engine.serving.deployment import LOADS, POLICIES, PREEMPTIONS, ROLES, ROUTERS, Cost, choice
from railyard.graph import Label, Record
from railyard.graph.columns import TABLES
from railyard.kit.errors import InputError, StaleCoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.engine.serving.deployment import Autoscale, Deployment, Pool, Router

    Progress = Callable[[int, int], None]


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


def _copied(target: Any, source: Any, key: str, kind: Any = None, *, without: Collection[str] = ()) -> Any:
    """The core's record with the fields of ours, or those that its base `kind` has, but for some."""
    for one in fields(kind or source):
        if one.name in without:
            continue
        value = getattr(source, one.name)
        if one.name == "drain":
            value = np.asarray(value, np.uint8)
        _set(target, one.name, value, f"{key}.{one.name}")
    return target


def _router(router: Router, key: str) -> _core.ServingRouter:
    core: _core.ServingRouter = _copied(_core.ServingRouter(), router, "router", without={"kind"})
    core.kind = choice(router.kind, ROUTERS, key)
    return core


_ENERGY = {"idle_w", "busy_w", "joule_per_token", "joule_per_kv_token", "joule_per_pair"}
"""What costs energy and no time: the core does not need it."""
_OWN = {"name", "cost", "role", "policy", "preemption", "speculative", "autoscale"}
"""What the core has by a number, as a record, or not at all."""


def _pool(pool: Pool) -> _core.ServingPool:
    key = f"pools.{pool.name}"
    cost = _copied(_core.ServingCost(), pool.cost, f"{key}.cost", Cost, without=_ENERGY)
    core: _core.ServingPool = _copied(_core.ServingPool(), pool, key, without=_OWN)
    core.cost = cost
    core.role = choice(pool.role, ROLES, f"{key}.role")
    core.policy = choice(pool.policy, POLICIES, f"{key}.policy")
    core.preemption = choice(pool.preemption, PREEMPTIONS, f"{key}.preemption")
    if pool.speculative is not None:
        _copied(core, pool.speculative, f"{key}.speculative")
    if pool.autoscale is not None:
        core.autoscale = _autoscale(pool.autoscale, f"{key}.autoscale")
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


STATUS = ("done", "dropped", "unfinished")
"""Words for the `status` column: served; longer than any replica's cache; still there when the run ended."""

COLUMNS: dict[str, tuple[str, type[np.generic], int]] = {
    "who": ("replica", np.int32, -1),
    "start_ps": ("sent_ps", np.int64, -1),
    "end_ps": ("done_ps", np.int64, -1),
    "decode_replica": ("decode_replica", np.int32, -1),
    "admitted_ps": ("admitted_ps", np.int64, -1),
    "prefill_start_ps": ("prefill_start_ps", np.int64, -1),
    "first_token_ps": ("first_token_ps", np.int64, -1),
    "cached_tokens": ("cached_tokens", np.int64, 0),
    "loaded_tokens": ("loaded_tokens", np.int64, 0),
    "moved_tokens": ("moved_tokens", np.int64, 0),
    "preemptions": ("preemptions", np.int32, 0),
    "requeued": ("requeued", np.int32, 0),
    "transfer_start_ps": ("transfer_start_ps", np.int64, -1),
    "transfer_end_ps": ("transfer_end_ps", np.int64, -1),
    "collectives_prefill_ps": ("network_prefill_ps", np.int64, 0),
    "collectives_ps": ("network_ps", np.int64, 0),
    "generated_tokens": ("output_tokens", np.int64, 0),
    "status": ("status", np.uint8, 2),
}
"""Columns of the record: the core's name of each, its type, its value for a request of which nothing is known."""


def outcome_of(status: NDArray[np.uint8], *, overloaded: bool) -> str:
    """`finished`, `overload`, or `stuck`: requests were left that no replica will ever serve."""
    if overloaded:
        return "overload"
    return "stuck" if bool((status == STATUS.index("unfinished")).any()) else "finished"


def replicas_of(deployment: Deployment, totals: Any) -> dict[str, NDArray[Any]]:
    """The core's totals, one row per replica, with the energy."""
    pool = deployment.pool_of_replica
    names = [name for name in TABLES.get("replicas").columns if name not in {"pool", "energy_j"}]
    found = {name: np.array(getattr(totals, name)) for name in names}

    def rate(name: str) -> NDArray[np.float64]:
        return np.array([getattr(one.cost, name) for one in deployment.pools], np.float64)[pool]

    energy = rate("idle_w") * found["up_ps"] * 1e-12 + rate("busy_w") * found["busy_ps"] * 1e-12
    energy += rate("joule_per_token") * found["tokens"] + rate("joule_per_kv_token") * found["kv_tokens"]
    energy += rate("joule_per_pair") * found["pairs"]
    return {"pool": np.asarray(pool, np.int32), **found, "energy_j": energy}


_LAST_PS = 2**61


class RequestColumns(Protocol):
    """What the engine reads of requests."""

    @property
    def arrival_ps(self) -> NDArray[np.int64]:
        """i64[n], ascending from 0."""

    @property
    def input_tokens(self) -> NDArray[np.int32]:
        """i32[n], at least 1."""

    @property
    def output_tokens(self) -> NDArray[np.int32]:
        """i32[n], at least 1."""

    @property
    def block_ptr(self) -> NDArray[np.int64]:
        """i64[n + 1], or empty: no hashes."""

    @property
    def block_hash(self) -> NDArray[np.uint64]:
        """u64[], of whole blocks; those beyond the prompt are of the answer."""

    @property
    def block_tokens(self) -> int:
        """Tokens of a hashed block; 0: no hashes."""

    @property
    def session(self) -> NDArray[np.int64]:
        """i64[n], -1: none; or empty."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Requests that have left since the last chunk.

    Attributes:
        request: i64[m], number in the order of feeding.
        columns: Those of the record (`COLUMNS`), m rows each.
    """

    request: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]


def simulate(
    requests: RequestColumns,
    deployment: Deployment,
    *,
    seed: int = 0,
    log_replicas: Sequence[int] = (),
    skip_runs: bool = True,
    users: int = 0,
    think_ps: int = 0,
    progress: Progress | None = None,
) -> Record:
    """Serves all requests.

    Args:
        requests: Columns, sorted by arrival.
        deployment: What serves them.
        seed: Of random routers and speculative decoding.
        log_replicas: Replicas whose iterations are written down.
        skip_runs: False steps through every iteration; the result has the same bits.
        users: Closed loop: so many users take the requests in their order, each the next one when its last is answered
            and `think_ps` are over, and not before its arrival. 0: every request is sent as it arrives.
        think_ps: From an answer until its user is free again.
        progress: Called with the requests that have left and the simulated time in ps.

    Returns:
        One row a request, sent at its start and answered at its end, with the tables `replicas`, `links`, `gaps`,
        `iterations` and `batches`. `meta` has `outcome` (see `outcome_of`), `overloaded` (the run was ended, because
        the queue grew without bound), `end_ps` (when the last thing happened), seed and events.

    Raises:
        InputError: Columns or deployment do not fit together.
    """
    core = _serving(
        deployment,
        int(requests.block_tokens),
        seed,
        skip_runs=skip_runs,
        logged=log_replicas,
        users=users,
        think_ps=think_ps,
    )
    count = _feed(core, requests)
    core.run(True, progress)
    drained = core.drain()
    columns = {}
    for name, (core_name, kind, default) in COLUMNS.items():
        column = np.full(count, default, kind)
        column[drained.request] = getattr(drained, core_name)
        columns[name] = column
    return _result(core, deployment, columns, seed)


def stream(
    chunks: Iterable[RequestColumns],
    deployment: Deployment,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Iterator[Chunk | Record]:
    """Serves requests that come in chunks, in bounded memory: yields those that have left after each chunk.

    The last thing yielded is a `Record` without rows by request: the totals. The result does not depend on how the
    requests are cut.

    Raises:
        InputError: Columns or deployment do not fit together.
    """
    core = None
    hash_tokens = 0
    for chunk in chunks:
        if core is None:
            hash_tokens = int(chunk.block_tokens)
            core = _serving(deployment, hash_tokens, seed)
        elif int(chunk.block_tokens) != hash_tokens:
            raise InputError("all chunks must have the same block_tokens", key="block_tokens", found=chunk.block_tokens)
        _feed(core, chunk)
        core.run(False, progress)
        yield _drain(core)
        if core.overloaded:
            break
    if core is None:
        core = _serving(deployment, 0, seed)
    core.run(True, progress)
    yield _drain(core)
    none = {name: np.zeros(0, kind) for name, (_, kind, _) in COLUMNS.items()}
    yield _result(core, deployment, none, seed)


def _drain(core: _core.Serving) -> Chunk:
    drained = core.drain()
    return Chunk(np.array(drained.request), {name: np.array(getattr(drained, one[0])) for name, one in COLUMNS.items()})


def _serving(
    deployment: Deployment,
    hash_tokens: int,
    seed: int,
    *,
    skip_runs: bool = True,
    logged: Sequence[int] = (),
    users: int = 0,
    think_ps: int = 0,
) -> _core.Serving:
    if not 0 <= seed < 2**64:
        raise InputError("a seed is a number from 0 to 2^64 - 1", key="seed", found=seed)
    for name, value, most in (("users", users, 2**31), ("think_ps", think_ps, _LAST_PS)):
        if not 0 <= value < most:
            raise InputError(f"{name} must be from 0 to below {most}", key=name, found=value)
    lowered = lower(deployment, hash_tokens)
    try:
        return _core.Serving(
            lowered,
            seed=seed,
            skip_runs=skip_runs,
            logged=[int(one) for one in logged],
            users=users,
            think_ps=think_ps,
        )
    except ValueError as error:
        raise InputError(str(error), key="deployment") from error


def _feed(core: _core.Serving, requests: RequestColumns) -> int:
    columns = {
        "arrival_ps": _integers(requests.arrival_ps, np.int64, "arrival_ps"),
        "input_tokens": _integers(requests.input_tokens, np.int32, "input_tokens"),
        "output_tokens": _integers(requests.output_tokens, np.int32, "output_tokens"),
        "block_ptr": _integers(requests.block_ptr, np.int64, "block_ptr"),
        "block_hash": _integers(requests.block_hash, np.uint64, "block_hash"),
        "session": _integers(requests.session, np.int64, "session"),
        "priority": _integers(getattr(requests, "priority", np.zeros(0, np.int32)), np.int32, "priority"),
    }
    try:
        core.feed(**columns)
    except ValueError as error:
        raise InputError(str(error), key="requests") from error
    return len(columns["arrival_ps"])


def _integers(values: Any, kind: type[np.integer[Any]], name: str) -> NDArray[Any]:
    column = np.asarray(values)
    if column.ndim != 1 or (column.size and not np.issubdtype(column.dtype, np.integer)):
        raise InputError(
            f"requests: {name} must be a 1-D array of integers", key=name, found=f"{column.dtype}{column.shape}"
        )
    limits = np.iinfo(kind)
    if column.size and (int(column.min()) < limits.min or int(column.max()) > limits.max):
        raise InputError(f"requests: {name} must be from {limits.min} to {limits.max}", key=name)
    return np.ascontiguousarray(column, kind)


def _result(core: _core.Serving, deployment: Deployment, columns: dict[str, NDArray[Any]], seed: int) -> Record:
    log, edges_ps, count = core.log, np.array(core.gap_lower_ps(), np.int64), len(columns["who"])
    return Record(
        rows="requests",
        who=columns.pop("who"),
        what=np.zeros(count, np.int32),
        start_ps=columns.pop("start_ps"),
        end_ps=columns.pop("end_ps"),
        size_bytes=np.zeros(count, np.int64),
        labels=(Label("", "request"),),
        optional=columns,
        tables={
            "replicas": replicas_of(deployment, core.totals),
            "links": {"bytes": np.array(core.link_bytes, np.float64)},
            "gaps": {"lower_ps": edges_ps[:-1], "upper_ps": edges_ps[1:], "count": np.array(core.gaps, np.int64)},
            "iterations": {name: np.array(getattr(log, name)) for name in TABLES.get("iterations").columns},
            "batches": {name: np.array(getattr(log, f"item_{name}")) for name in TABLES.get("batches").columns},
        },
        meta={
            "engine": "serving",
            "seed": seed,
            "events": core.events,
            "end_ps": core.now_ps,
            "overloaded": core.overloaded,
            "outcome": outcome_of(columns["status"], overloaded=core.overloaded),
        },
    )
