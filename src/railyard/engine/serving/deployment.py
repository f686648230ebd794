"""What serves: pools of replicas, routers, links between them, tiers of KV cache, outages, as plain columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from railyard.kit.errors import InputError, suggest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Role = Literal["both", "prefill", "decode"]
Policy = Literal["decode-first", "prefill-first"]
Preemption = Literal["recompute", "swap"]
LoadFrom = Literal["none", "storage", "peer"]
RouterKind = Literal["round-robin", "random", "least-loaded", "two-choices", "prefix", "session"]

ROLES: tuple[Role, ...] = ("both", "prefill", "decode")
POLICIES: tuple[Policy, ...] = ("decode-first", "prefill-first")
PREEMPTIONS: tuple[Preemption, ...] = ("recompute", "swap")
ROUTERS: tuple[RouterKind, ...] = ("round-robin", "random", "least-loaded", "two-choices", "prefix", "session")

LOADS: tuple[LoadFrom, ...] = ("none", "storage", "peer")

NEVER_PS = 2**63 - 1


def choice(value: str, allowed: Sequence[str], key: str) -> int:
    """The number of a word, or an error that says which words there are."""
    if value not in allowed:
        near = suggest(value, allowed)
        hint = f"did you mean `{near}`?" if near else None
        raise InputError(f"unknown {key} `{value}`", key=key, found=value, allowed=", ".join(allowed), hint=hint)
    return allowed.index(value)


def _i64() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


def _i32() -> NDArray[np.int32]:
    return np.zeros(0, np.int32)


def _f64() -> NDArray[np.float64]:
    return np.zeros(0, np.float64)


@dataclass(frozen=True, eq=False)
class Cost:
    """What one iteration of a replica costs, in seconds.

        T = host_s + host_per_seq_s * sequences + f(tokens) + g + attention_per_pair_s * pairs
        g = max(attention_floor_s, attention_per_sequence_s * decodes + attention_per_kv_token_s * kv_tokens,
                overlapped_per_kv_token_s[i] * kv_tokens - overlapped_s[i](tokens) for every line i)

    with f = compute_s + network_s, linear between the rows of the table and constant below the first, and g = 0 where
    nothing decodes. `kv_tokens` are the keys that the decoding sequences look at, the new one included; `pairs` the
    query and key pairs of the prefills: a chunk of q tokens after s others has q s + q (q + 1) / 2.

    Attributes:
        tokens: i64[k], ascending; the last is at least the pool's `max_batched_tokens`.
        compute_s: f64[k], of that many tokens.
        network_s: f64[k], collectives that nothing hides.
        attention_per_kv_token_s: Decode.
        attention_per_sequence_s: Decode.
        attention_floor_s: Decode attention takes at least this.
        attention_per_pair_s: Prefill.
        overlapped_per_kv_token_s: f64[lines], of attention that overlaps other work (on other accelerators), ...
        overlapped_s: f64[lines, k], ... which hides so much of it, over tokens as above.
        scale_out_bytes_per_token: Of the replica's own collectives over its NICs, all of these together.
        scale_out_bps: Rate at which these are sent in `network_s`, bit/s.
        scale_out_slack_s: f64[k] or empty: how much longer they may take until an iteration does, because other work
            hides them or scale-up is slower.
        joint_tokens: i64[j] or empty, of replicas in lockstep: tokens of all of them, ...
        joint_compute_s: f64[j], ... what these take together, on top of the slowest replica's own time, ...
        joint_network_s: f64[j], ... and the collectives among them.
        pipeline_stages: Iterations that may be under way at once.
        stage_share: The slowest stage's share of an iteration; a new one may start after it.
        idle_w: Power of a replica that is up, W.
        joule_per_token: On top, for each token of an iteration; ...
        joule_per_kv_token: ... each key that decodes look at; ...
        joule_per_pair: ... each query and key pair; ...
        busy_w: ... and while an iteration is under way, W.
    """

    tokens: NDArray[np.int64]
    compute_s: NDArray[np.float64]
    network_s: NDArray[np.float64]
    host_s: float = 0.0
    host_per_seq_s: float = 0.0
    attention_per_kv_token_s: float = 0.0
    attention_per_sequence_s: float = 0.0
    attention_floor_s: float = 0.0
    attention_per_pair_s: float = 0.0
    overlapped_per_kv_token_s: NDArray[np.float64] = field(default_factory=_f64)
    overlapped_s: NDArray[np.float64] = field(default_factory=_f64)
    scale_out_bytes_per_token: float = 0.0
    scale_out_bps: float = 0.0
    scale_out_slack_s: NDArray[np.float64] = field(default_factory=_f64)
    joint_tokens: NDArray[np.int64] = field(default_factory=_i64)
    joint_compute_s: NDArray[np.float64] = field(default_factory=_f64)
    joint_network_s: NDArray[np.float64] = field(default_factory=_f64)
    pipeline_stages: int = 1
    stage_share: float = 1.0
    idle_w: float = 0.0
    busy_w: float = 0.0
    joule_per_token: float = 0.0
    joule_per_kv_token: float = 0.0
    joule_per_pair: float = 0.0

    @classmethod
    def constant(cls, seconds: float, max_tokens: int = 2**20) -> Cost:
        """Every iteration takes the same time."""
        return cls(np.array([0, max_tokens]), np.full(2, seconds), np.zeros(2))


def accepted_tokens(acceptance: Any, drafts: Any) -> Any:
    """Tokens that an iteration yields of a sequence: the first always, each draft if all before it were right.

    Args:
        acceptance: Chance of each draft that it is right, given that those before it were; a number or rows.
        drafts: Guessed ahead; a number or rows.
    """
    share = np.minimum(acceptance, 1 - 1e-12)
    return (1 - share ** (drafts + 1)) / (1 - share)


def acceptance_of(length: float, drafts: int) -> float:
    """The chance of each draft with which an iteration yields `length` tokens of a sequence in the mean.

    The inverse of `accepted_tokens`: each later draft is as likely as the first, where those before it were right.

    Args:
        length: Of the model's own token and the drafts that are right, from 1 to `drafts + 1`.
        drafts: Guessed ahead.
    """
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if accepted_tokens(middle, drafts) < length else (low, middle)
    return 0.0 if length <= 1.0 else high


@dataclass(frozen=True)
class Speculative:
    """Speculative decoding: `draft_tokens` are guessed before each iteration, which checks them all at once.

    Attributes:
        draft_tokens: Guessed per sequence.
        acceptance: Chance of each that it is right, given that those before it were.
        draft_s: Time of one pass of the draft model over the batch, s.
    """

    draft_tokens: int
    acceptance: float
    draft_s: float = 0.0

    @property
    def yields(self) -> float:
        """Tokens of an iteration and sequence."""
        return float(accepted_tokens(self.acceptance, self.draft_tokens))


@dataclass(frozen=True)
class Autoscale:
    """A pool that follows the load: at each look, wanted = ceil(need / target), as Kubernetes' horizontal autoscaler.

    Attributes:
        min_replicas: At least; at most the pool's `replicas`.
        measure: `utilization`: requests of a replica over `max_sequences`; `queue`: requests that wait per replica.
        first_replicas: At the start; `min_replicas` where not given.
        tolerance: No change while the measure is within this share of the target.
        interval_ps: Between looks.
        cold_start_ps: From the decision to a replica that serves: machine, image, weights.
        hold_ps: How long the need must have been lower before replicas go.
        load: Whether after `cold_start_ps` the weights come over `Links`: from `storage`, or from a `peer` of the pool.
    """

    min_replicas: int
    target: float
    measure: Literal["utilization", "queue"] = "utilization"
    first_replicas: int | None = None
    tolerance: float = 0.1
    interval_ps: int = 15 * 10**12
    cold_start_ps: int = 60 * 10**12
    hold_ps: int = 300 * 10**12
    load: LoadFrom = "none"


@dataclass(frozen=True, eq=False)
class Pool:
    """Replicas that are alike.

    Attributes:
        replicas: How many; with `autoscale` the most.
        role: `both`, or one half of a split deployment.
        block_tokens: Tokens of a block of KV cache.
        kv_blocks: Blocks of a replica.
        max_sequences: Running at once.
        max_batched_tokens: Token budget of an iteration.
        prompt_tokens: Tokens of one request in an iteration at most, unless it is the only one in the replica; 0: no
            limit. vLLM calls it `long_prefill_token_threshold`.
        chunked: Whether a prompt may be spread over iterations.
        by_priority: Whether the queue goes by the requests' `priority`, the least first, and by arrival among equals,
            and the last in this order gives way when blocks are short; else it goes by arrival.
        ahead: Whether an iteration is put together when the one before it begins, as vLLM's asynchronous scheduling
            does: who comes later, and what comes free until then, is known one iteration later.
        lockstep: So many replicas, neighbours by number, begin and end every iteration together, as vLLM's
            data-parallel ranks do that exchange their tokens with experts: each has a queue and a cache of its own, the
            slowest's time is everybody's, and who has nothing to do takes part.
        policy: Who gets the budget first; `prefill-first`: decodes only run when no prompt can.
        prefix_cache: Whether blocks are kept for later requests with the same prefix.
        watermark: Share of the blocks that admission leaves free.
        preemption: What becomes of a request that must give way.
        swap_bytes: Host memory of a replica for preempted requests; without room they are computed again.
        host_kv_bytes: Host memory of a replica for evicted prefixes.
        swap_bps: Between a replica and its host, bit/s.
        speculative: Speculative decoding.
        autoscale: Whether the pool follows the load.
        weight_bytes: Of a replica that starts: what it loads.
        load_s: Time for that where neither a peer nor storage has a way to it.
    """

    name: str
    cost: Cost
    replicas: int = 1
    role: Role = "both"
    block_tokens: int = 16
    kv_blocks: int = 1 << 20
    max_sequences: int = 256
    max_batched_tokens: int = 8192
    prompt_tokens: int = 0
    chunked: bool = True
    by_priority: bool = False
    ahead: bool = False
    lockstep: int = 1
    policy: Policy = "decode-first"
    prefix_cache: bool = False
    watermark: float = 0.0
    preemption: Preemption = "recompute"
    kv_bytes_per_token: float = 0.0
    swap_bytes: float = 0.0
    host_kv_bytes: float = 0.0
    swap_bps: float = 0.0
    host_latency_s: float = 0.0
    speculative: Speculative | None = None
    autoscale: Autoscale | None = None
    weight_bytes: float = 0.0
    load_s: float = 0.0


@dataclass(frozen=True)
class Router:
    """Rule that chooses the replica of a request.

    Attributes:
        kind: `prefix` takes the replica with the least prefix_weight x (tokens to compute, those queued there included)
            + load_weight x requests that it has. `session` keeps a conversation where it began. `least-loaded` counts
            requests.
        prefix_weight: Cost of a token to compute.
        load_weight: Cost of a request that already exists.
        move: Whether a prefix that another replica of the pool has is moved, as a flow over `Links`, where that is
            faster than to compute it: at the rate that the flows under way leave, asked when the request is first in
            its queue. `prefix` counts it as the tokens that could be computed meanwhile.
    """

    kind: RouterKind = "round-robin"
    prefix_weight: float = 1.0
    load_weight: float = 64.0
    move: bool = False


@dataclass(frozen=True, eq=False)
class Links:
    """Directed links, and the ways between replicas over them.

    Replicas are numbered through all pools in order. Way w uses `link[ptr[w]:ptr[w+1]]`, each with `share` wire bytes
    per byte of KV cache, so that several NICs are several links with a part each. Where two replicas have several ways,
    transfers of the one that sends alternate between them.

    Attributes:
        rate_bps: f64[links], bit/s.
        from_replica: i32[ways]; -1: the store; -2: the storage that has the weights.
        to_replica: i32[ways]; -1: the store, which then is written over links.
        ptr: i64[ways + 1].
        link: i32[].
        share: f64[].
        latency_ps: i64[ways].
        collective_ptr: i64[replicas + 1]: the collectives of replica r use
            `collective_link[collective_ptr[r]:collective_ptr[r+1]]`. Empty: they and transfers do not meet.
        collective_link: i32[].
        collective_share: f64[], wire bytes per byte of all collectives of the replica.
    """

    rate_bps: NDArray[np.float64]
    from_replica: NDArray[np.int32]
    to_replica: NDArray[np.int32]
    ptr: NDArray[np.int64]
    link: NDArray[np.int32]
    share: NDArray[np.float64]
    latency_ps: NDArray[np.int64]
    collective_ptr: NDArray[np.int64] = field(default_factory=_i64)
    collective_link: NDArray[np.int32] = field(default_factory=_i32)
    collective_share: NDArray[np.float64] = field(default_factory=_f64)


@dataclass(frozen=True, eq=False)
class CrossTraffic:
    """Other traffic: flows that take their fair share of the links between two times.

    Attributes:
        from_ps: i64[flows].
        to_ps: i64[flows].
        ptr: i64[flows + 1].
        link: i32[].
        share: f64[], wire bytes per byte.
        cap_bps: f64[flows], what each asks for.
        weight: f64[flows].
    """

    from_ps: NDArray[np.int64] = field(default_factory=_i64)
    to_ps: NDArray[np.int64] = field(default_factory=_i64)
    ptr: NDArray[np.int64] = field(default_factory=_i64)
    link: NDArray[np.int32] = field(default_factory=_i32)
    share: NDArray[np.float64] = field(default_factory=_f64)
    cap_bps: NDArray[np.float64] = field(default_factory=_f64)
    weight: NDArray[np.float64] = field(default_factory=_f64)


@dataclass(frozen=True)
class Transfers:
    """How KV cache goes from prefill to decode.

    Attributes:
        overlap: Share of the bytes that may flow while the prefill runs, layer by layer.
    """

    overlap: float = 0.0


@dataclass(frozen=True)
class Store:
    """KV cache outside the replicas, shared by all. Whatever is computed is written to it.

    Where `Links` has a way to -1, writing is a flow, one batch of units after the other, and units are there once
    theirs has come through; else they are there at once. What a replica that fails has not yet written is lost.

    Attributes:
        capacity_bytes: The least recently written goes first.
        rate_bps: To each replica, bit/s; where `Links` has a way from -1, that way is used.
    """

    capacity_bytes: float = 0.0
    rate_bps: float = 0.0
    latency_s: float = 0.0


@dataclass(frozen=True, eq=False)
class Outages:
    """Outages of replicas. A failure loses the KV cache, and its requests start again elsewhere.

    Attributes:
        replica: i32[rows].
        from_ps: i64[rows].
        to_ps: i64[rows]; `NEVER_PS`: it does not come back.
        drain: bool[rows]: takes no new requests from `from_ps` on, finishes what it has, and is away for to - from.
        load: u8[rows], index into `LOADS`: where its weights come from once it is back; empty: none are loaded.
    """

    replica: NDArray[np.int32] = field(default_factory=_i32)
    from_ps: NDArray[np.int64] = field(default_factory=_i64)
    to_ps: NDArray[np.int64] = field(default_factory=_i64)
    drain: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    load: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))


def rolling_update(
    replicas: Sequence[int], start_ps: int, every_ps: int, away_ps: int, load: LoadFrom = "none"
) -> Outages:
    """One replica after the other drains, is away for `away_ps`, and loads; the next begins `every_ps` later."""
    count = len(replicas)
    begin = start_ps + every_ps * np.arange(count, dtype=np.int64)
    source = np.full(count, choice(load, LOADS, "load"), np.uint8)
    return Outages(np.asarray(replicas, np.int32), begin, begin + away_ps, np.ones(count, np.bool_), source)


@dataclass(frozen=True, eq=False)
class Deployment:
    """Everything that serves.

    Attributes:
        pools: Their replicas are numbered through.
        decode_router: From them to those that decode.
        links: None: transfers take no time.
        background: Other traffic on the links.
        transfers: How KV cache goes from prefill to decode.
        store: A remote tier of KV cache.
        stop_on_overload: End the run when the queue grows without bound.
    """

    pools: tuple[Pool, ...]
    router: Router = Router()
    decode_router: Router = Router("least-loaded")
    links: Links | None = None
    background: CrossTraffic = field(default_factory=CrossTraffic)
    transfers: Transfers = Transfers()
    store: Store = Store()
    outages: Outages = field(default_factory=Outages)
    stop_on_overload: bool = True

    @property
    def replicas(self) -> int:
        """Replicas of all pools."""
        return sum(pool.replicas for pool in self.pools)

    @property
    def pool_of_replica(self) -> NDArray[np.int32]:
        """Number of the pool of each replica."""
        return np.repeat(np.arange(len(self.pools), dtype=np.int32), [pool.replicas for pool in self.pools])
