"""What came of a serving run: columns by request and by replica."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.engine.serving.deployment import Deployment

STATUS = ("done", "dropped", "unfinished")
"""Words for the `status` column: served; longer than any replica's cache; still there when the run ended."""

COLUMNS: dict[str, tuple[type[np.generic], int]] = {
    "replica": (np.int32, -1),
    "decode_replica": (np.int32, -1),
    "sent_ps": (np.int64, -1),
    "admitted_ps": (np.int64, -1),
    "prefill_start_ps": (np.int64, -1),
    "first_token_ps": (np.int64, -1),
    "done_ps": (np.int64, -1),
    "cached_tokens": (np.int64, 0),
    "loaded_tokens": (np.int64, 0),
    "moved_tokens": (np.int64, 0),
    "preemptions": (np.int32, 0),
    "requeued": (np.int32, 0),
    "transfer_start_ps": (np.int64, -1),
    "transfer_end_ps": (np.int64, -1),
    "network_prefill_ps": (np.int64, 0),
    "network_ps": (np.int64, 0),
    "output_tokens": (np.int64, 0),
    "status": (np.uint8, 2),
}
"""Type of each column by request, and its value for a request of which nothing is known."""


@dataclass(frozen=True, eq=False)
class Replicas:
    """Totals, one row a replica.

    Attributes:
        pool: Number of its pool.
        busy_ps: Time with an iteration under way (of the slowest stage, where there are several).
        loads: Times that its weights came over links.
        load_ps: How long that took, in all.
        slowed_ps: Of `busy_ps`, what collectives lost to transfers over the same NICs.
        up_ps: Time that it was there.
        iterations: Iterations.
        input_tokens: Computed by prefills, recomputed ones included.
        output_tokens: That came out.
        cached_tokens: Not computed, being in the replica's own cache.
        loaded_tokens: Not computed, being loaded from host memory or the store.
        moved_tokens: Not computed, being moved from another replica.
        preemptions: Of its requests.
        kv_peak_blocks: Most blocks held at once.
        kv_used_blocks: Held at the end.
        tokens: Of all iterations together, drafts included.
        kv_tokens: Keys that decodes looked at.
        pairs: Query and key pairs of prefills.
        energy_j: idle_w x up + busy_w x busy + the costs by token, key and pair.
    """

    pool: NDArray[np.int32]
    busy_ps: NDArray[np.int64]
    loads: NDArray[np.int64]
    load_ps: NDArray[np.int64]
    slowed_ps: NDArray[np.int64]
    up_ps: NDArray[np.int64]
    iterations: NDArray[np.int64]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    loaded_tokens: NDArray[np.int64]
    moved_tokens: NDArray[np.int64]
    preemptions: NDArray[np.int64]
    kv_peak_blocks: NDArray[np.int64]
    kv_used_blocks: NDArray[np.int64]
    tokens: NDArray[np.int64]
    kv_tokens: NDArray[np.float64]
    pairs: NDArray[np.float64]
    energy_j: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ServingRun:
    """What came of a run. Times are ps from the trace's zero; -1 where something did not happen.

    Attributes:
        replica: i32[n], that prefilled it (last, where it was requeued).
        decode_replica: i32[n], that decoded it.
        sent_ps: i64[n], its arrival; of a closed loop, when a user sent it.
        admitted_ps: i64[n], when it left the queue for the first time.
        prefill_start_ps: i64[n], start of its first iteration.
        first_token_ps: i64[n], end of the iteration that brought its first token.
        done_ps: i64[n], its last one's.
        cached_tokens: i64[n], not computed, being in the replica's cache.
        loaded_tokens: i64[n], loaded from tiers below it.
        moved_tokens: i64[n], moved from another replica.
        preemptions: i32[n], how often it had to give way.
        requeued: i32[n], how often it lost its replica.
        transfer_start_ps: i64[n], when its KV cache began to travel from prefill to decode.
        transfer_end_ps: i64[n], when all of it was there.
        network_prefill_ps: i64[n], collectives that nothing hid in its iterations up to the first token.
        network_ps: i64[n], and in all of them.
        output_tokens: i64[n], that came out.
        status: u8[n], index into `STATUS`.
        replicas: Totals by replica.
        link_bytes: f64[links], on the wire.
        gap_lower_ps: i64[bins + 1], edges of the bins of `gap_count`.
        gap_count: i64[bins], gaps between two tokens of a request, over all requests.
        log: Iterations of the logged replicas, column by column.
        end_ps: When the last thing happened.
        overloaded: The run was ended, because the queue grew without bound.
        meta: Seed, events.
    """

    replica: NDArray[np.int32]
    decode_replica: NDArray[np.int32]
    sent_ps: NDArray[np.int64]
    admitted_ps: NDArray[np.int64]
    prefill_start_ps: NDArray[np.int64]
    first_token_ps: NDArray[np.int64]
    done_ps: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    loaded_tokens: NDArray[np.int64]
    moved_tokens: NDArray[np.int64]
    preemptions: NDArray[np.int32]
    requeued: NDArray[np.int32]
    transfer_start_ps: NDArray[np.int64]
    transfer_end_ps: NDArray[np.int64]
    network_prefill_ps: NDArray[np.int64]
    network_ps: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    status: NDArray[np.uint8]
    replicas: Replicas
    link_bytes: NDArray[np.float64]
    gap_lower_ps: NDArray[np.int64]
    gap_count: NDArray[np.int64]
    log: dict[str, NDArray[Any]]
    end_ps: int
    overloaded: bool
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """`finished`, `overload`, or `stuck`: requests were left that no replica will ever serve."""
        if self.overloaded:
            return "overload"
        return "stuck" if bool((self.status == STATUS.index("unfinished")).any()) else "finished"


def replicas_of(deployment: Deployment, totals: Any) -> Replicas:
    """The core's totals, with the energy."""
    pool = deployment.pool_of_replica
    names = [name for name in Replicas.__dataclass_fields__ if name not in {"pool", "energy_j"}]
    found = {name: np.array(getattr(totals, name)) for name in names}

    def rate(name: str) -> NDArray[np.float64]:
        return np.array([getattr(one.cost, name) for one in deployment.pools], np.float64)[pool]

    energy = rate("idle_w") * found["up_ps"] * 1e-12 + rate("busy_w") * found["busy_ps"] * 1e-12
    energy += rate("joule_per_token") * found["tokens"] + rate("joule_per_kv_token") * found["kv_tokens"]
    energy += rate("joule_per_pair") * found["pairs"]
    return Replicas(pool=pool, energy_j=energy, **found)
