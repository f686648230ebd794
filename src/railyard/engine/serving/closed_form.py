"""A deployment in closed form: requests as they come, iterations summed and not played.

An iteration of B sequences that decode takes T(B, keys) by the replica's cost; prompts in it make it longer by
D(tokens), and everybody in it waits for that. So a request that decodes from t0 on ends at

    t1 = t0 + (output - 1) T(B, keys) / yield + what its replica computes of prompts in t0..t1

with B the mean number of sequences at its replica in t0..t1, which follows from all t0 and t1: the equations are solved
by going round. Prompts of a replica queue (Lindley's recursion, solved by running maxima), those that wait together are
computed together, up to an iteration's budget. Where sequences or keys fill a replica, a request is let in when another
one ends. Routers by load deal each request to the replica that then has the fewest.

Left out: preemption, prefixes that are cached, what `prefix` and `session` routers see next to load, links shared by
transfers beyond the mean load of each. Autoscaling, outages, tiers of caches, and three pools have no closed form here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

import railyard._core as _core
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.engine.serving.deployment import Deployment, Links, Pool, Router
    from railyard.graph.request_table import RequestTable

    F = NDArray[np.float64]
    Numbers = NDArray[np.int64]


_DEALS = 2
"""Times that requests are dealt to replicas, by what is known of their ends then."""

_ROUNDS = 4
"""Goings round after each."""

_GOLDEN = 0.6180339887498949
"""Golden ratio: places of requests in a running iteration follow the most even sequence (Weyl) in place of draws."""

_FULLEST = 0.98
"""Load of a link, at most: beyond it transfers would wait forever, which they do not in a finite run."""

_SOON = 1e-9
"""Seconds; an iteration that begins when the one before it ends is behind it."""

_FAR = 1e7
"""Seconds between the replicas of a pool on one axis: longer than any run, as the engine's clock ends at 9.2e6."""


@dataclass(frozen=True, eq=False)
class PoolTotals:
    """What the replicas of a pool did, all together.

    Attributes:
        busy_s: In iterations, over all replicas; of a pipeline that of its slowest stage.
        tokens: Computed, of prompts and answers.
        kv_tokens: Keys that decoding looked at.
        pairs: Query and key pairs of prompts.
    """

    busy_s: float
    prompt_s: float
    iterations: float
    tokens: float
    kv_tokens: float
    pairs: float


@dataclass(frozen=True, eq=False)
class ExpectedTimes:
    """What is expected of each request, in the order of arrival, seconds.

    Attributes:
        ttft_s: From the arrival at the engine to the first token.
        tpot_s: Mean time per output token; NaN for answers of one.
        done_s: When it ends, from the start of the run.
    """

    ttft_s: F
    tpot_s: F
    done_s: F
    pools: tuple[PoolTotals, ...]


def unknown_of(deployment: Deployment) -> str:
    """What of a deployment has no closed form; empty where all has."""
    if any(pool.autoscale is not None for pool in deployment.pools):
        return "autoscaling"
    if len(deployment.outages.replica):
        return "outages"
    if deployment.store.capacity_bytes or any(pool.host_kv_bytes for pool in deployment.pools):
        return "tiers of caches"
    if len(deployment.pools) > 2:
        return "pools of three roles"
    return ""


def expected(requests: RequestTable, deployment: Deployment) -> ExpectedTimes:
    """What a deployment makes of requests.

    Args:
        requests: As they reach the engine.
        deployment: Of pools that answer alone, or of disaggregated prefill and decode.

    Raises:
        InputError: Something of the deployment has no closed form.
    """
    unknown = unknown_of(deployment)
    if unknown:
        raise InputError(f"there is no closed form of {unknown}")
    asked = _Requests.of(requests)
    by_role = {pool.role: pool for pool in deployment.pools}
    if "both" in by_role:
        return _colocated(asked, by_role["both"], deployment.router)
    return _disaggregated(asked, by_role["prefill"], by_role["decode"], deployment)


@dataclass(frozen=True, eq=False)
class _Requests:
    """Requests: arrivals, lengths of prompts, tokens behind the first; each f64[n]."""

    arrival_s: F
    prompt: F
    steps: F

    @classmethod
    def of(cls, requests: RequestTable) -> _Requests:
        lengths = (requests.input_tokens, requests.output_tokens - 1)
        return cls(np.asarray(requests.arrival_ps * 1e-12, np.float64), *(each.astype(np.float64) for each in lengths))

    @cached_property
    def pairs(self) -> F:
        """Query and key pairs of each prompt."""
        return self.prompt * (self.prompt + 1.0) / 2.0

    @cached_property
    def context(self) -> F:
        """Keys that a decoding request looks at, mean over its answer."""
        return self.prompt + 1.0 + self.steps / 2.0

    def take(self, rows: Numbers) -> _Requests:
        """The requests with these numbers, in this order."""
        return _Requests(self.arrival_s[rows], self.prompt[rows], self.steps[rows])


class _IterationLaw:
    """A replica's iteration as a function of what is in it."""

    def __init__(self, pool: Pool) -> None:
        self.cost = cost = pool.cost
        self.tokens = np.asarray(cost.tokens, np.float64)
        self.seconds = np.asarray(cost.compute_s) + np.asarray(cost.network_s)
        guess = pool.speculative
        self.drafts = guess.draft_tokens if guess else 0
        self.draft_s = guess.draft_tokens * guess.draft_s if guess else 0.0
        self.yields = guess.yields if guess else 1.0
        self.stages = max(cost.pipeline_stages, 1)
        self.share = cost.stage_share if self.stages > 1 else 1.0
        self.meets = (1.0 + (self.stages - 1) * self.share) / self.stages
        self.budget = float(pool.max_batched_tokens)
        self.lockstep = pool.lockstep

        self.empty_s = float(cost.host_s + self.of(np.zeros(1))[0])
        self.prompt_rate = self.budget / float(cost.host_s + self.of(np.array([self.budget]))[0])

    def of(self, tokens: F) -> F:
        """Time of so many tokens of any kind."""
        found = np.interp(tokens, self.tokens, self.seconds)
        if len(self.cost.joint_tokens):
            joint = np.asarray(self.cost.joint_compute_s) + np.asarray(self.cost.joint_network_s)
            found = found + np.interp(self.lockstep * tokens, self.cost.joint_tokens, joint)
        return np.asarray(found)

    def decode_s(self, batch: F, keys: F) -> F:
        """Time of an iteration of sequences that decode, with the keys of all of them."""
        cost, tokens = self.cost, batch * (1 + self.drafts)
        attention = cost.attention_per_sequence_s * batch + cost.attention_per_kv_token_s * keys
        attention = np.maximum(cost.attention_floor_s, attention)
        for each, hidden in zip(cost.overlapped_per_kv_token_s, cost.overlapped_s, strict=True):
            attention = np.maximum(attention, each * keys - np.interp(tokens, cost.tokens, hidden))
        seconds = cost.host_s + cost.host_per_seq_s * batch + self.of(tokens) + self.draft_s
        return np.asarray(seconds + attention)

    def prompts_s(self, prompt: F, pairs: F, batch: F, waiting: F) -> tuple[F, F]:
        """How much a prompt lengthens iterations in which sequences decode, and how many of these it takes.

        Args:
            prompt: Tokens of each.
            pairs: Of each.
            batch: Sequences that decode at the same time.
            waiting: Tokens of prompts ahead of it, which are computed with it.
        """
        decoding = batch * (1 + self.drafts)
        room = np.maximum(self.budget - decoding, 1.0)
        together = np.minimum(prompt + waiting, room)
        longer = (self.of(decoding + together) - self.of(decoding)) / together * prompt
        more = self.cost.host_per_seq_s + self.cost.attention_per_pair_s * pairs
        # Alone a prompt takes as many iterations as it has chunks; with others it takes its part of one.
        count = np.where(waiting > 0, prompt / together, np.ceil(prompt / room))
        return np.asarray(longer + more), np.asarray(count)


def _dealt(router: Router, asked_s: F, there_s: F, end_s: F, replicas: int) -> Numbers:
    """The replica of each request, that with the fewest where the router goes by load.

    Args:
        router: That deals them.
        asked_s: When it does, ascending.
        there_s: From when on a request counts at its replica.
        end_s: Until when.
        replicas: How many there are.
    """
    count = len(asked_s)
    if replicas == 1 or router.kind == "round-robin":
        return np.arange(count) % replicas
    if router.kind == "random":
        return np.random.Generator(np.random.PCG64(0)).integers(0, replicas, count)
    return np.asarray(_core.serving_dealt(asked_s, there_s, end_s, replicas))


class _ByReplica:
    """Requests of a pool in order of their replica, then of their arrival there: sums over those of the same replica.

    Each replica has its own range of one time axis, so that one search finds the place of a time among its own.
    All columns are in this order; `back` restores that of the requests.
    """

    def __init__(self, replica: Numbers, ready_s: F) -> None:
        self.order = np.lexsort((ready_s, replica))
        self.replica = replica[self.order]
        self.begin = np.searchsorted(self.replica, self.replica)
        self.back = np.empty_like(self.order)
        self.back[self.order] = np.arange(len(replica))
        self.apart = self.replica * _FAR

    def queue_s(self, ready_s: F, service_s: F) -> F:
        """Wait of each request for those before it (Lindley 1952)."""
        total = np.concatenate([[0.0], np.cumsum(service_s)])
        before = total[:-1] - total[self.begin]
        free = np.maximum.accumulate(ready_s - before + self.apart) - self.apart + before
        return np.asarray(np.maximum(free - ready_s, 0.0))

    def let_in(self, ready_s: F, end_s: F, slots: int) -> F:
        """Admission of each: at once, or when as many have ended as are more than there are places."""
        at = np.arange(len(ready_s)) - slots
        late = at >= self.begin
        if not late.any():
            return ready_s
        ends = np.sort(end_s + self.apart, kind="stable")
        free = np.where(late, ends[np.maximum(at, 0)] - self.apart, -np.inf)
        return np.asarray(np.maximum(ready_s, free))

    def present(self, starts_s: F, ends_s: F, at_s: F) -> F:
        """How many that come from another request are at the replica of each request at a time."""
        counts = [
            np.searchsorted(np.sort(side + self.apart, kind="stable"), at_s + self.apart, side="right")
            for side in (starts_s, ends_s)
        ]
        return np.asarray(np.maximum(counts[0] - counts[1], 0), np.float64)

    def between(self, at_s: F, what: F, starts_s: F, ends_s: F) -> F:
        """The sum of what happens at the replica of each request between two times.

        Args:
            at_s: When it happens, at the replica of the request that it belongs to.
            what: How much.
            starts_s: Of each span.
            ends_s: Of each span, which it includes.
        """
        key = at_s + self.apart
        order = np.argsort(key, kind="stable")
        total, key = np.concatenate([[0.0], np.cumsum(what[order])]), key[order]
        last, first = (np.searchsorted(key, side + self.apart, side="right") for side in (ends_s, starts_s))
        return np.asarray(total[last] - total[first])

    def areas(self, starts_s: F, ends_s: F, weights: tuple[F, ...]) -> list[F]:
        """For each request, the integral of the weights of all that are at its replica, over its span."""
        count, time = len(starts_s), np.concatenate([starts_s, ends_s])
        order = np.argsort(time + np.concatenate([self.apart, self.apart]), kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(2 * count)
        # Between the last end of a replica and the first start of the next nobody is there, so that nothing is added.
        lasts = np.diff(time[order], append=0.0)
        found = []
        for weight in weights:
            there = np.cumsum(np.concatenate([weight, -weight])[order])
            total = np.concatenate([[0.0], np.cumsum(there * lasts)])
            found.append(total[place[count:]] - total[place[:count]])
        return found


def _slots(pool: Pool, asked: _Requests) -> int:
    """Sequences that a replica holds at once: as many as fit of those that are met there, the long ones more often."""
    while_there = float(np.average(asked.context, weights=asked.steps + 1.0))
    room = pool.kv_blocks * pool.block_tokens / while_there
    return max(int(min(pool.max_sequences, room)), 1)


@dataclass(frozen=True, eq=False)
class _Pace:
    """For each request: sequences at its replica while it decodes, their keys, and the time of an iteration."""

    batch: F
    keys: F
    iteration_s: F


def _pace(seats: _ByReplica, law: _IterationLaw, asked: _Requests, start_s: F, end_s: F) -> _Pace:
    span = np.maximum(end_s - start_s, 1e-9)
    there, keys = seats.areas(start_s, np.maximum(end_s, start_s), (np.ones_like(start_s), asked.context))
    batch = np.maximum(there / span, 1.0)
    keys = np.maximum(keys / span, asked.context)
    each = 1.0 + (batch - 1.0) / law.stages  # the others are in one of the iterations under way, whichever
    seconds = law.decode_s(each, keys * each / batch)
    slow = np.maximum(1.0, np.minimum(batch, law.stages) * law.share) if law.stages > 1 else 1.0
    return _Pace(batch, keys, np.asarray(seconds * slow))


def _colocated(asked: _Requests, pool: Pool, router: Router) -> ExpectedTimes:
    """Prompts and answers on the same replicas."""
    law, slots = _IterationLaw(pool), _slots(pool, asked)
    end_s = asked.arrival_s + (asked.steps + 1.0) / law.yields * law.decode_s(np.ones_like(asked.steps), asked.context)
    for _ in range(_DEALS):
        seats = _ByReplica(_dealt(router, *(asked.arrival_s,) * 2, end_s, pool.replicas), asked.arrival_s)
        mine = asked.take(seats.order)
        first_s, last_s, found = _mixed_batches(seats, law, mine, end_s[seats.order], slots)
        end_s = last_s[seats.back]
    return _found(asked, (first_s - mine.arrival_s)[seats.back], first_s[seats.back], end_s, (found,))


def _mixed_batches(
    seats: _ByReplica, law: _IterationLaw, asked: _Requests, end_s: F, slots: int
) -> tuple[F, F, PoolTotals]:
    """Prompts and answers of requests that have their replicas: first tokens, ends, and what that takes."""
    wave = (seats.order * _GOLDEN) % 1.0
    empty, rate = law.empty_s, law.prompt_rate
    wait_s, first_s = np.zeros_like(end_s), asked.arrival_s + empty
    pace = _Pace(np.ones_like(end_s), asked.context, law.decode_s(np.ones_like(end_s), asked.context))
    for number in range(_ROUNDS):
        let_in = seats.let_in(asked.arrival_s, end_s, slots)
        busy = seats.present(first_s, end_s, let_in)
        running = np.where(busy > 0, pace.iteration_s, empty)
        prompt_s, count = law.prompts_s(asked.prompt, asked.pairs, busy, wait_s * rate)
        ready_s = let_in + np.where(busy > 0, wave * running, 0.0)  # the iteration under way ends first
        wait_s = seats.queue_s(ready_s, law.share * (prompt_s + count * running))
        begun_s = ready_s + wait_s
        first_s = begun_s + count * running + prompt_s
        lost = law.meets * seats.between(begun_s, prompt_s, first_s - _SOON, end_s)
        pace = _pace(seats, law, asked, first_s, end_s)
        end_s = _nearer(number, end_s, first_s, asked.steps / law.yields * pace.iteration_s + lost)
    return first_s, end_s, _totals(law, asked, pace, prompt_s, count)


def _nearer(number: int, end_s: F, first_s: F, length_s: F) -> F:
    """The ends of the next round: as they come out, in the last rounds half of the way there, so that they settle."""
    found = first_s + length_s
    return found if number < _ROUNDS // 2 else np.asarray(0.5 * (np.maximum(end_s, first_s) + found))


def _disaggregated(asked: _Requests, ahead: Pool, behind: Pool, deployment: Deployment) -> ExpectedTimes:
    """Prompts and answers on replicas of their own."""
    law, none = _IterationLaw(ahead), np.zeros_like(asked.prompt)
    out_s = asked.arrival_s + law.empty_s
    for _ in range(_DEALS):
        replica = _dealt(deployment.router, *(asked.arrival_s,) * 2, out_s, ahead.replicas)
        seats = _ByReplica(replica, asked.arrival_s)
        mine, wait_s = asked.take(seats.order), none
        for _ in range(_ROUNDS):
            prompt_s, count = law.prompts_s(mine.prompt, mine.pairs, none, wait_s * law.prompt_rate)
            taken_s = prompt_s + count * law.empty_s
            wait_s = seats.queue_s(mine.arrival_s, law.share * taken_s)
        out_s = (mine.arrival_s + wait_s + taken_s)[seats.back]
    busy_s = law.share * float(taken_s.sum())
    sums = (float(count.sum()), float(asked.prompt.sum()), 0.0, float(asked.pairs.sum()))
    way_s = none if deployment.links is None else _way_s(asked, ahead, deployment.links, deployment.transfers.overlap)
    there_s = out_s + way_s
    end_s, totals = _answers(asked, behind, deployment.decode_router, (out_s, there_s))
    return _found(asked, there_s - asked.arrival_s, there_s, end_s, (PoolTotals(busy_s, busy_s, *sums), totals))


def _answers(asked: _Requests, pool: Pool, router: Router, sent: tuple[F, F]) -> tuple[F, PoolTotals]:
    """Answers whose prompts come from elsewhere, sent and there at these times: when each ends."""
    (out_s, there_s), law, slots = sent, _IterationLaw(pool), _slots(pool, asked)
    order = np.argsort(out_s, kind="stable")
    replica = np.empty(len(order), np.int64)
    end_s = there_s + asked.steps / law.yields * law.decode_s(np.ones_like(there_s), asked.context)
    for _ in range(_DEALS):
        replica[order] = _dealt(router, out_s[order], there_s[order], end_s[order], pool.replicas)
        seats = _ByReplica(replica, there_s)
        mine, ready_s, last_s = asked.take(seats.order), there_s[seats.order], end_s[seats.order]
        wave = (seats.order * _GOLDEN) % 1.0
        start_s, pace = ready_s, _pace(seats, law, mine, ready_s, last_s)
        for number in range(_ROUNDS):
            let_in = seats.let_in(ready_s, last_s, slots)
            busy = seats.present(start_s, last_s, let_in)
            start_s = let_in + np.where((busy > 0) & (let_in == ready_s), wave * pace.iteration_s, 0.0)
            pace = _pace(seats, law, mine, start_s, last_s)
            last_s = _nearer(number, last_s, start_s, mine.steps / law.yields * pace.iteration_s)
        end_s = last_s[seats.back]
    nothing = np.zeros_like(there_s)
    return end_s, _totals(law, mine, pace, nothing, nothing)


def _way_s(asked: _Requests, ahead: Pool, links: Links, overlap: float) -> F:
    """Seconds that the keys and values of each request take to the pool that decodes, each link under its mean load."""
    ways = np.flatnonzero((links.from_replica >= 0) & (links.to_replica >= ahead.replicas))
    if not len(ways):
        return np.zeros_like(asked.prompt)
    bits = 8.0 * ahead.kv_bytes_per_token * asked.prompt * (1.0 - overlap)
    per_s = bits.sum() / max(float(asked.arrival_s[-1] - asked.arrival_s[0]), 1e-9)
    row = np.repeat(np.arange(len(links.ptr) - 1), np.diff(links.ptr))
    mine = np.isin(row, ways)
    link, share, row = links.link[mine], links.share[mine], row[mine]
    load = np.bincount(link, share, len(links.rate_bps)) * per_s / len(ways) / links.rate_bps
    each = share / (links.rate_bps * (1.0 - np.minimum(load, _FULLEST)))[link]
    slowest = np.zeros(len(links.ptr) - 1)
    np.maximum.at(slowest, row, each)
    return np.asarray(bits * slowest[ways].mean() + links.latency_ps[ways].mean() * 1e-12)


def _found(asked: _Requests, ttft_s: F, first_s: F, end_s: F, pools: tuple[PoolTotals, ...]) -> ExpectedTimes:
    with np.errstate(invalid="ignore", divide="ignore"):
        tpot = np.where(asked.steps > 0, np.maximum(end_s - first_s, 0.0) / asked.steps, np.nan)
    return ExpectedTimes(ttft_s, tpot, np.where(asked.steps > 0, end_s, first_s), pools)


def _totals(law: _IterationLaw, asked: _Requests, pace: _Pace, prompt_s: F, count: F) -> PoolTotals:
    """What answers take, and the prompts where they are computed there too.

    Every request takes its part of each iteration that it is in; of a pipeline's iterations several are under way.
    """
    steps = asked.steps / law.yields
    part = steps / (1.0 + (pace.batch - 1.0) / law.stages)
    prompts = float(prompt_s.sum())
    there = bool(np.any(count > 0))
    return PoolTotals(
        busy_s=law.share * (float((part * pace.iteration_s).sum()) + prompts),
        prompt_s=law.share * prompts,
        iterations=float(part.sum()),
        tokens=float(steps.sum()) * (1 + law.drafts) + (float(asked.prompt.sum()) if there else 0.0),
        kv_tokens=float((steps * asked.context).sum()),
        pairs=float(asked.pairs.sum()) if there else 0.0,
    )
