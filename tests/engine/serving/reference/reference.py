"""The loop: requests come, events happen, requests leave."""

from __future__ import annotations

import heapq
from typing import Any

from .iterations import Iterations
from .routing import Routing
from .scheduler import Scheduler
from .state import Cache, Rep, Req
from .topics import ENTRY, ITERATED, LANDED, OUTAGE, RESTED


class Reference(Routing, Scheduler, Iterations):
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
        req.priority = int(r.priority[i]) if len(r.priority) else 0
        names = ("sent_ps", "replica", "decode_replica", "admitted_ps", "prefill_start_ps", "first_token_ps", "done_ps")
        req.out = dict.fromkeys((*names, "transfer_start_ps", "transfer_end_ps"), -1)
        req.out |= dict.fromkeys(("cached_tokens", "preemptions", "requeued", "collectives", "collectives_prefill"), 0)
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

    def arrive(self, req: Req) -> None:
        req.out["sent_ps"] = self.now
        good = {pool.role for pool in self.d.pools if self.fits(req, pool)}
        if "both" in good or {"prefill", "decode"} <= good:
            self.route(req)
        else:
            self.leave(req, 1)

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
        req.arrived = True
        self.enqueue(req, self.reps[req.out["decode_replica"]])

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
        rep.waiting, rep.running, rep.flight, rep.ended = [], [], [], []
        for req in lost:
            self.release(rep, req)
            self.forget(req)
        rep.cache = Cache(rep.pool.kv_blocks, rep.cache.unit)
        for req in lost:
            req.computed = req.swapped = req.in_flight = 0
            req.arrived, req.taking, req.chunk = False, -1, False
            req.stamp += 1
            req.out["requeued"] += 1
            req.out |= dict.fromkeys(("decode_replica", "transfer_start_ps", "transfer_end_ps"), -1)
            self.route(req)
