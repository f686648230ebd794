"""What came of a serving run: columns by request and by replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.graph.columns import TABLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.engine.serving.deployment import Deployment

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
    """The core's totals, a row a replica, with the energy."""
    pool = deployment.pool_of_replica
    names = [name for name in TABLES.get("replicas").columns if name not in {"pool", "energy_j"}]
    found = {name: np.array(getattr(totals, name)) for name in names}

    def rate(name: str) -> NDArray[np.float64]:
        return np.array([getattr(one.cost, name) for one in deployment.pools], np.float64)[pool]

    energy = rate("idle_w") * found["up_ps"] * 1e-12 + rate("busy_w") * found["busy_ps"] * 1e-12
    energy += rate("joule_per_token") * found["tokens"] + rate("joule_per_kv_token") * found["kv_tokens"]
    energy += rate("joule_per_pair") * found["pairs"]
    return {"pool": np.asarray(pool, np.int32), **found, "energy_j": energy}
