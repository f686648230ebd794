"""The serving engine again, slow and plain: every iteration is a step.

Written from the documentation, in whole numbers of 2^-16 ps like the core, so that results can be compared bit by bit.
It has no links and no tiers: those have closed forms in their own tests.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import Any

OUTAGE, LANDED, ITERATED, ENTRY, RESTED = range(5)
MASK = 2**64 - 1


def mix(z: int) -> int:
    z = (z + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def units(seconds: float) -> int:
    return math.floor(seconds * 1e12 * 65536 + 0.5)


class Law:
    def __init__(self, cost):
        self.cost = cost

    def table(self, values, tokens: int) -> int:
        x = [int(one) for one in self.cost.tokens]
        upper = next(i for i, one in enumerate(x) if one >= tokens)
        if upper == 0:
            return units(float(values[0]))
        low, high = units(float(values[upper - 1])), units(float(values[upper]))
        return low + (high - low) * (tokens - x[upper - 1]) // (x[upper] - x[upper - 1])

    def network(self, tokens: int) -> int:
        return self.table(self.cost.network_s, tokens)

    def time(self, tokens: int, sequences: int, decodes: int, kv: int, pairs: int) -> int:
        c = self.cost
        total = units(c.host_s) + units(c.host_per_seq_s) * sequences + self.table(c.compute_s, tokens)
        total += self.network(tokens) + units(c.attention_per_pair_s) * pairs
        if decodes:
            attention = units(c.attention_per_sequence_s) * decodes + units(c.attention_per_kv_token_s) * kv
            beside = (
                units(float(each)) * kv - self.table(hidden, tokens)
                for each, hidden in zip(c.beside_per_kv_token_s, c.beside_s, strict=True)
            )
            total += max(units(c.attention_floor_s), attention, *beside)
        return total


@dataclass
class Req:
    id: int
    input: int
    output: int
    chain: list[int]
    session: int
    computed: int = 0
    generated: int = 0
    private: int = 0
    held: list[int] = field(default_factory=list)
    published: int = 0
    swapped: int = 0
    in_flight: int = 0
    iterated: int = 0
    where: str = "nowhere"
    home: int | None = None
    decoder: int = -1
    last: int = 0
    stamp: int = 0
    queued: int = 0
    out: dict[str, int] = field(default_factory=dict)

    @property
    def target(self) -> int:
        return self.input + self.generated

    @property
    def decodes(self) -> bool:
        return self.generated > 0 and self.target - self.computed == 1


class Cache:
    def __init__(self, blocks: int, unit: int):
        self.blank, self.unit = blocks, unit
        self.holders: dict[int, int] = {}
        self.idle: list[int] = []  # the one that was let go first in front

    def available(self) -> int:
        return self.blank + len(self.idle) * self.unit

    def hits(self, chain: list[int]) -> int:
        count = 0
        while self.unit and count < len(chain) and chain[count] in self.holders and chain[count] not in chain[:count]:
            count += 1
        return count

    def hold(self, one: int) -> None:
        self.holders[one] += 1
        if one in self.idle:
            self.idle.remove(one)

    def let_go(self, one: int) -> None:
        self.holders[one] -= 1
        if self.holders[one] == 0:
            self.idle.append(one)

    def take(self, count: int) -> None:
        while self.blank < count:
            del self.holders[self.idle.pop(0)]
            self.blank += self.unit
        self.blank -= count


class Rep:
    def __init__(self, number: int, pool):
        self.number, self.pool, self.law, self.up = number, pool, Law(pool.cost), True
        self.waiting: list[Req] = []
        self.running: list[Req] = []
        self.flight: list[dict[str, Any]] = []
        self.clock = self.last_end = self.extra = self.stamp = self.swapped = 0
        # one that prefills hands over after a token: it guesses none
        self.drafts = pool.speculative.draft_tokens if pool.speculative and pool.role != "prefill" else 0
        self.has: list[Req] = []
        self.preempted = False
        self.horizon: float = math.inf  # of a schedule made ahead: who came later is not known to it ...
        self.freed_places = self.freed_blocks = 0  # ... nor what came free

    def see_all(self) -> bool:
        blind = self.horizon < math.inf
        self.horizon, self.freed_places, self.freed_blocks = math.inf, 0, 0
        return blind


class Reference:
    def __init__(self, requests, deployment, seed: int = 0, users: int = 0, think_ps: int = 0):
        self.users, self.free, self.think = users, users, think_ps
        self.d, self.seed, self.rows = deployment, seed, requests
        self.hash_tokens = int(requests.block_tokens)
        self.reps: list[Rep] = []
        for pool in deployment.pools:
            for _ in range(pool.replicas):
                rep = Rep(len(self.reps), pool)
                rep.cache = Cache(pool.kv_blocks, self.hash_tokens // pool.block_tokens if pool.prefix_cache else 0)
                self.reps.append(rep)
        self.turn = [0, 0]
        self.heap: list[tuple[int, int, int, int, Any]] = []
        self.count = 0
        self.backlog: list[Req] = []
        self.finished: list[Req] = []
        self.touched: set[int] = set()  # replicas that something has happened to at this time
        self.now = 0

    # what happens

    def run(self) -> list[dict[str, int]]:
        outages = self.d.outages
        for row, at in enumerate(outages.from_ps):
            self.push(int(at), OUTAGE, 2 * row, None)
        arrivals = [self.request(i) for i in range(len(self.rows.arrival_ps))]
        self.times = [int(t) for t in self.rows.arrival_ps]
        self.coming = list(arrivals)
        while self.may_send() or (len(self.finished) < len(arrivals) and self.heap):
            later = [self.heap[0][0]] if self.heap else []
            sent = [max(self.now, self.times[self.coming[0].id])] if self.may_send() else []
            self.now = min(later + sent)
            assert self.now < 4 * 10**12, "it does not end"
            self.send()
            while self.heap and self.heap[0][0] == self.now:
                _, topic, target, _, what = heapq.heappop(self.heap)
                self.happen(topic, target, what)
            for rep in self.reps:
                if rep.number in self.touched:
                    self.schedule(rep)
            self.touched.clear()
        for req in arrivals:
            if req not in self.finished:
                req.out |= {"status": 2, "output_tokens": req.generated}
        return [req.out for req in arrivals]

    def may_send(self) -> bool:
        return bool(self.coming) and (self.users == 0 or self.free > 0)

    def send(self) -> None:
        while self.may_send() and self.times[self.coming[0].id] <= self.now:
            self.free -= 1
            self.arrive(self.coming.pop(0))

    def request(self, i: int) -> Req:
        r = self.rows
        chain = [int(h) for h in r.block_hash[r.block_ptr[i] : r.block_ptr[i + 1]]] if len(r.block_ptr) else []
        session = int(r.session[i]) if len(r.session) else -1
        req = Req(i, int(r.input_tokens[i]), int(r.output_tokens[i]), chain, session)
        names = ("sent_ps", "replica", "decode_replica", "admitted_ps", "prefill_start_ps", "first_token_ps", "done_ps")
        req.out = dict.fromkeys((*names, "transfer_start_ps", "transfer_end_ps"), -1)
        req.out |= dict.fromkeys(("cached_tokens", "preemptions", "requeued", "network", "network_prefill"), 0)
        return req

    def push(self, time: int, topic: int, target: int, what: Any) -> None:
        self.count += 1
        heapq.heappush(self.heap, (time, topic, target, self.count, what))

    def happen(self, topic: int, target: int, what: Any) -> None:
        if topic == OUTAGE:
            self.outage(target // 2, target % 2 == 1)
        elif topic == LANDED and what[0].stamp == what[1]:
            self.landed(what[0])
        elif topic == ITERATED and self.reps[target].stamp == what:
            self.end(self.reps[target])
        elif topic == ENTRY and self.reps[target].stamp == what:
            self.touched.add(target)
        elif topic == RESTED:
            self.free += 1
            self.send()

    def fits(self, req: Req, pool) -> bool:
        tokens = req.input + req.output - 1
        if not pool.chunked and req.input > pool.max_batched_tokens:
            return False
        return -(-tokens // pool.block_tokens) <= pool.kv_blocks

    def arrive(self, req: Req) -> None:
        req.out["sent_ps"] = self.now
        good = {pool.role for pool in self.d.pools if self.fits(req, pool)}
        if "both" in good or {"prefill", "decode"} <= good:
            self.route(req)
        else:
            self.leave(req, 1)

    # routing

    def load(self, rep: Rep) -> tuple[int, int, int]:
        prompts = sum(0 if q.decodes else max(0, q.target - q.computed) for q in rep.has if q.where != "sending")
        return len(rep.has), prompts, rep.number

    def choose(self, req: Req, router, roles, stream: int) -> Rep | None:  # noqa: PLR0911
        reps = [one for one in self.reps if one.pool.role in roles and one.up and self.fits(req, one.pool)]
        if not reps:
            return None
        draw = mix(mix(mix(self.seed) ^ (stream + 1)) ^ req.id)
        least = min(reps, key=self.load)
        if router.kind == "round-robin":
            self.turn[stream] += 1
            return reps[(self.turn[stream] - 1) % len(reps)]
        if router.kind == "random":
            return reps[draw % len(reps)]
        if router.kind == "two-choices":
            return min(reps[draw % len(reps)], reps[mix(draw) % len(reps)], key=self.load)
        if router.kind == "session" and req.session >= 0:
            return max(reps, key=lambda one: mix(mix(req.session) ^ one.number))
        if router.kind == "prefix":
            return min(reps, key=lambda one: self.price(req, one, router))
        return least

    def price(self, req: Req, rep: Rep, router) -> float:
        most = (req.target - 1) // self.hash_tokens if self.hash_tokens else 0
        cached = rep.cache.hits(req.chain[:most]) * self.hash_tokens
        has, prompts, _ = self.load(rep)
        return router.prefix_weight * (req.target - cached + prompts) + router.load_weight * has

    def route(self, req: Req) -> None:
        rep = self.choose(req, self.d.router, ("both", "prefill"), 0)
        if rep is None:
            self.backlog.append(req)
            return
        req.out["replica"] = rep.number
        req.out["decode_replica"] = rep.number if rep.pool.role == "both" else -1
        self.enqueue(req, rep)

    def enqueue(self, req: Req, rep: Rep) -> None:
        req.where, req.home, req.queued = "waiting", rep.number, self.now
        self.touched.add(rep.number)
        rep.has.append(req)
        rep.waiting.append(req)

    def forget(self, req: Req) -> None:
        if req.home is not None:
            rep = self.reps[req.home]
            rep.has.remove(req)
            req.home = None

    def leave(self, req: Req, status: int) -> None:
        if req.home is not None:
            self.publish(self.reps[req.home], req)
            self.release(self.reps[req.home], req)
            self.forget(req)
        req.where = "nowhere"
        req.out |= {"status": status, "output_tokens": req.generated}
        self.finished.append(req)
        if self.users:
            self.push(self.now + self.think, RESTED, 0, None)

    # blocks

    def missing(self, rep: Rep, req: Req, tokens: int) -> int:
        return max(0, -(-tokens // rep.pool.block_tokens) - req.private - len(req.held) * rep.cache.unit)

    def publish(self, rep: Rep, req: Req) -> None:
        while rep.cache.unit and req.published < len(req.chain):
            if (req.published + 1) * self.hash_tokens > req.computed:
                return
            one = req.chain[req.published]
            req.published += 1
            if one not in rep.cache.holders:
                rep.cache.holders[one] = 1
                req.held.append(one)
                req.private -= rep.cache.unit

    def release(self, rep: Rep, req: Req) -> None:
        for one in reversed(req.held):
            rep.cache.let_go(one)
        rep.cache.blank += req.private
        req.held, req.private, req.published = [], 0, 0

    # iterations

    def schedule(self, rep: Rep) -> None:
        if not rep.up or len(rep.flight) >= rep.pool.cost.pipeline_stages or rep.clock >> 16 > self.now:
            return
        while True:
            batch: list[tuple[Req, int, bool]] = []
            rep.preempted = False
            budget = rep.pool.max_batched_tokens
            first = rep.pool.policy == "decode-first"
            budget = self.from_running(rep, batch, budget, True, first)
            if not rep.preempted:
                budget = self.from_queue(rep, batch, budget)
            if not first and not batch:
                self.from_running(rep, batch, budget, False, True)
            if batch or rep.flight or not (rep.preempted or rep.see_all()):
                break
        if batch:
            self.launch(rep, batch)
        rep.see_all()

    def wanted(self, rep: Rep, req: Req, begin: int, budget: int) -> int:
        rest = req.target - begin
        if req.generated > 0 and rest == 1:
            return min(1 + rep.drafts, req.output - req.generated, budget)
        whole = not rep.pool.chunked and req.generated == 0
        return 0 if whole and rest > budget else min(rest, budget)

    def from_running(self, rep: Rep, batch, budget: int, prompts: bool, decodes: bool) -> int:
        place = 0
        while place < len(rep.running) and budget > 0:
            req = rep.running[place]
            place += 1
            if req.computed >= req.target or not (decodes if req.decodes else prompts):
                continue
            tokens = self.wanted(rep, req, req.computed, budget)
            if tokens == 0:
                continue
            missing = self.missing(rep, req, req.computed + tokens)
            while missing > rep.cache.available() - rep.freed_blocks:
                behind = rep.running[place:]
                free = [one for one in behind if one.in_flight == 0]
                if free:
                    self.preempt(rep, free[-1])
                    continue
                if not behind and req.in_flight == 0:
                    self.preempt(rep, req)
                return budget
            rep.cache.take(missing)
            req.private += missing
            self.add(rep, req, tokens, batch)
            budget -= tokens
        return budget

    def preempt(self, rep: Rep, req: Req) -> None:
        rep.running.remove(req)
        size = int(rep.pool.kv_bytes_per_token * req.computed)
        if rep.pool.preemption == "swap" and rep.swapped + size <= rep.pool.swap_bytes:
            req.swapped = size
            rep.swapped += size
            rep.extra += units(size * 8 / rep.pool.swap_bps)
            self.release(rep, req)
        else:
            self.publish(rep, req)
            self.release(rep, req)
            req.computed = 0
        req.out["preemptions"] += 1
        req.where = "waiting"
        rep.preempted = True
        rep.waiting.insert(0, req)

    def from_queue(self, rep: Rep, batch, budget: int) -> int:
        while rep.waiting and budget > 0 and len(rep.running) + rep.freed_places < rep.pool.max_sequences:
            req = rep.waiting[0]
            if req.queued > rep.horizon:
                break
            hits: list[int] = []
            if req.computed == 0 and rep.cache.unit:
                chain = req.chain[: (req.target - 1) // self.hash_tokens]
                hits = chain[: rep.cache.hits(chain)]
            cached = len(hits) * self.hash_tokens
            begin = max(req.computed, cached)
            tokens = self.wanted(rep, req, begin, budget)
            missing = self.missing(rep, req, begin + tokens) - len(hits) * rep.cache.unit
            idle = sum(rep.cache.unit for one in hits if one in rep.cache.idle)
            alone = not rep.running and not rep.flight
            reserve = 0 if alone else int(rep.pool.watermark * rep.pool.kv_blocks)
            if tokens == 0 or missing + reserve > rep.cache.available() - rep.freed_blocks - idle:
                break
            for one in hits:
                rep.cache.hold(one)
                req.held.append(one)
            if req.computed == 0:
                req.computed, req.published = cached, len(hits)
                req.out["cached_tokens"] += cached
            rep.cache.take(max(0, missing))
            req.private += max(0, missing)
            if req.swapped:
                rep.swapped -= req.swapped
                rep.extra += units(req.swapped * 8 / rep.pool.swap_bps)
                req.swapped = 0
            rep.waiting.pop(0)
            rep.running.append(req)
            req.where = "running"
            for name in ("admitted_ps", "prefill_start_ps"):
                if req.out[name] < 0:
                    req.out[name] = self.now
            self.add(rep, req, tokens, batch)
            budget -= tokens
        return budget

    def add(self, rep: Rep, req: Req, tokens: int, batch) -> None:
        decode, begin = req.decodes, req.computed
        req.computed += tokens
        req.in_flight += 1
        batch.append((req, tokens, decode, begin, req.computed >= req.target))
        if not decode:
            self.publish(rep, req)

    def launch(self, rep: Rep, batch) -> None:
        decodes = [one for one in batch if one[2]]
        tokens = sum(one[1] for one in batch)
        pairs = sum(n * begin + n * (n + 1) // 2 for _, n, decode, begin, _ in batch if not decode)
        kv = sum(begin + n for _, n, _, begin, _ in decodes)
        time = rep.law.time(tokens, len(batch), len(decodes), kv, pairs) + rep.extra
        rep.extra = 0
        if decodes and rep.drafts:
            time += units(rep.pool.speculative.draft_s) * rep.drafts
        start = max(self.now << 16, rep.clock)
        end = rep.clock = start + time
        if rep.pool.cost.pipeline_stages > 1:
            slowest = (time * math.floor(rep.pool.cost.stage_share * 2**32 + 0.5)) >> 32
            end = max(end, rep.last_end + slowest)
            rep.clock = start + slowest
            self.push(rep.clock >> 16, ENTRY, rep.number, rep.stamp)
        rep.last_end = end
        rep.flight.append({"items": batch, "start": start, "end": end, "network": rep.law.network(tokens)})
        self.push(end >> 16, ITERATED, rep.number, rep.stamp)

    def end(self, rep: Rep) -> None:
        self.touched.add(rep.number)
        batch = rep.flight.pop(0)
        places, blocks = len(rep.running), rep.cache.available()
        for req, tokens, decode, _, emits in batch["items"]:
            req.in_flight -= 1
            # of two chunks of a prompt that are under way at a time, the later one counts from the end of the other
            part, end = batch["network"], batch["end"]
            if rep.pool.cost.pipeline_stages > 1 and req.iterated > batch["start"]:
                part = part * (end - req.iterated) // (end - batch["start"])
            req.out["network"] += part
            req.iterated = end
            if emits:
                self.emit(rep, req, tokens, decode, batch["end"])
        rep.running = [one for one in rep.running if one.where == "running" and one.home == rep.number]
        if rep.pool.ahead:
            rep.horizon = batch["start"] >> 16
            rep.freed_places, rep.freed_blocks = places - len(rep.running), rep.cache.available() - blocks

    def emit(self, rep: Rep, req: Req, tokens: int, decode: bool, end: int) -> None:
        made = 1
        if decode and tokens > 1:
            made += self.accepted(rep, req, tokens - 1)
            req.computed += made - tokens
        req.generated += made
        if req.out["first_token_ps"] < 0:
            req.out["first_token_ps"] = end >> 16
            req.out["network_prefill"] = req.out["network"]
        if req.generated >= req.output:
            req.out["done_ps"] = end >> 16
            self.leave(req, 0)
        elif rep.pool.role == "prefill":
            self.hand_over(rep, req)

    def accepted(self, rep: Rep, req: Req, drafts: int) -> int:
        draw = mix(mix(mix(self.seed ^ 0x64726166) ^ req.id) ^ req.generated)
        count, chance = 0, 1.0
        while count < drafts:
            chance *= rep.pool.speculative.acceptance
            if draw >= (MASK if chance >= 1 else int(chance * 2**64)):
                break
            count += 1
        return count

    def hand_over(self, rep: Rep, req: Req) -> None:
        req.where = "sending"
        target = self.choose(req, self.d.decode_router, ("decode",), 1)
        assert target is not None, "the reference has no outages of decoding pools"
        req.out["decode_replica"] = target.number
        req.out["transfer_start_ps"] = self.now
        self.publish(rep, req)
        self.release(rep, req)
        self.forget(req)
        self.push(self.now, LANDED, req.id, (req, req.stamp))

    def landed(self, req: Req) -> None:
        req.out["transfer_end_ps"] = self.now
        self.enqueue(req, self.reps[req.out["decode_replica"]])

    # outages

    def outage(self, row: int, back: bool) -> None:
        rep = self.reps[int(self.d.outages.replica[row])]
        if back:
            rep.up = True
            rep.clock = self.now << 16
            waiting, self.backlog = self.backlog, []
            for req in waiting:
                self.route(req)
            return
        self.push(int(self.d.outages.to_ps[row]), OUTAGE, 2 * row + 1, None)
        rep.up = False
        rep.stamp += 1
        rep.clock = rep.last_end = self.now << 16
        rep.extra = rep.swapped = 0
        lost = sorted(rep.has, key=lambda one: one.id)
        rep.waiting, rep.running, rep.flight = [], [], []
        for req in lost:
            self.release(rep, req)
            self.forget(req)
        rep.cache = Cache(rep.pool.kv_blocks, rep.cache.unit)
        for req in lost:
            req.computed = req.swapped = req.in_flight = 0
            req.stamp += 1
            req.out["requeued"] += 1
            req.out |= dict.fromkeys(("decode_replica", "transfer_start_ps", "transfer_end_ps"), -1)
            self.route(req)
