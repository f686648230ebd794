"""An iteration is put together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .blocks import Blocks
from .law import units

if TYPE_CHECKING:
    from .state import Rep, Req


class Scheduler(Blocks):
    def schedule(self, rep: Rep) -> None:
        if not rep.up or len(rep.flight) >= rep.pool.cost.pipeline_stages or rep.clock >> 16 > self.now:
            return
        more = True
        while more:
            batch: list[tuple[Req, int, bool]] = []
            rep.preempted = False
            rep.wasted = []
            for req in self.holders(rep):
                req.taking = max(0, req.taking - 1)
            budget = rep.pool.max_batched_tokens
            first = rep.pool.policy == "decode-first"
            budget = self.from_running(rep, batch, budget, True, first)
            if not rep.preempted:
                budget = self.from_queue(rep, batch, budget)
            if not first and not batch:
                self.from_running(rep, batch, budget, False, True)
            rep.ended = []
            comes = any(req.taking > 0 for req in self.holders(rep))
            more = not batch and not rep.wasted and not rep.flight and (rep.see_all() or rep.preempted or comes)
        if batch or rep.wasted:
            self.launch(rep, batch)
        rep.see_all()

    def holders(self, rep: Rep) -> list[Req]:
        count = 0
        while count < len(rep.waiting) and rep.waiting[count].taking >= 0:
            count += 1
        return rep.waiting[:count]

    def late(self, rep: Rep, req: Req) -> int:
        return req.emitted if self.under_way(rep, req) else 0

    def under_way(self, rep: Rep, req: Req) -> bool:
        return rep.horizon < math.inf and req.iterated == rep.last_end

    def alone(self, rep: Rep) -> bool:
        known = [one for one in rep.waiting if one.queued <= rep.horizon]
        return len(rep.running) + rep.freed_places + len(known) < 2

    def wanted(self, rep: Rep, req: Req, begin: int, budget: int) -> int:
        rest = req.target - begin
        if req.decodes and not req.chunk:
            rest = min(1 + rep.drafts, rep.pool.kv_blocks * rep.pool.block_tokens - begin)
        if 0 < rep.pool.prompt_tokens < rest and not self.alone(rep):
            rest = rep.pool.prompt_tokens
        return min(rest, budget)

    def wanted_at_first(self, rep: Rep, req: Req, batch, begin: int, budget: int) -> int:
        rest = req.target - begin
        if rest == 1 and rep.drafts:
            prompts = [one for one in batch if not one[2] and not one[5]]
            room = begin + 1 + rep.drafts <= rep.pool.kv_blocks * rep.pool.block_tokens
            if not room or prompts or not (begin or batch):
                return 1
            return 1 + rep.drafts if rep.drafts < budget else 0
        if 0 < rep.pool.prompt_tokens < rest and not self.alone(rep):
            rest = rep.pool.prompt_tokens
        return 0 if not rep.pool.chunked and budget < rest <= rep.pool.max_batched_tokens else min(rest, budget)

    def from_running(self, rep: Rep, batch, budget: int, prompts: bool, decodes: bool) -> int:
        place = 0
        while place < len(rep.running) and budget > 0:
            budget = self.waste(rep, place, budget, decodes)
            if not budget:
                break
            req, before = rep.running[place], rep.running[:place]
            tokens = self.wanted(rep, req, req.computed, budget)
            if req.computed < req.target and (decodes if req.decodes else prompts):
                fits, budget = self.make_room(rep, req, tokens, batch, budget)
                if fits:
                    self.add(rep, req, tokens, batch)
                    budget -= tokens
                elif not (rep.pool.by_priority and req.where == "waiting"):
                    return budget
            place = sum(one in rep.running for one in [*before, req])
        return self.waste(rep, len(rep.running), budget, decodes)

    def waste(self, rep: Rep, place: int, budget: int, decodes: bool) -> int:
        """Computes those that have ended without its being known."""
        here = [one for one in rep.ended if one["place"] == place] if decodes else []
        rep.ended = [one for one in rep.ended if one not in here]
        for one in here:
            tokens = min(1 + rep.drafts, budget)
            if rep.pool.prompt_tokens and not self.alone(rep):
                tokens = min(tokens, rep.pool.prompt_tokens)
            missing = -(-(one["computed"] + tokens) // rep.pool.block_tokens) - one["blocks"]
            if tokens and missing <= rep.cache.available() - rep.freed_blocks:
                rep.freed_blocks += max(0, missing)
                rep.wasted.append((tokens, one["computed"] + tokens))
                budget -= tokens
        return budget

    def make_room(self, rep: Rep, req: Req, tokens: int, batch, budget: int) -> tuple[bool, int]:
        refused = req.refused if self.under_way(rep, req) else 0
        missing = self.missing(rep, req, req.computed + refused + tokens)
        while missing > rep.cache.available() - rep.freed_blocks:
            place = rep.running.index(req)
            if rep.pool.by_priority:
                here = [one[0] for one in batch]
                free = [one for one in rep.running[:place] if one.in_flight == (one in here)]
                free += [one for one in rep.running[place:] if one.in_flight == 0]
                gives = max(free, key=self.order, default=req)
            else:
                free = [one for one in rep.running[place + 1 :] if one.in_flight == 0]
                gives = free[-1] if free else req
            if rep.pool.ahead and rep.pool.role == "decode" and self.under_way(rep, gives):
                return False, budget
            if gives is req and (req.in_flight or (not rep.pool.by_priority and rep.running[-1] is not req)):
                return False, budget
            for one in [one for one in batch if one[0] is gives]:
                batch.remove(one)
                gives.in_flight -= 1
                gives.computed -= one[1]
                budget += one[1]
            self.preempt(rep, gives)
            if gives is req:
                return False, budget
        rep.cache.take(missing)
        req.private += missing
        return True, budget

    def order(self, req: Req) -> tuple[int, int, int]:
        return req.priority, req.out["sent_ps"], req.id

    def preempt(self, rep: Rep, req: Req) -> None:
        rep.running.remove(req)
        size = int(rep.pool.kv_bytes_per_token * req.computed)
        if rep.pool.preemption == "swap" and rep.swapped + size <= rep.pool.swap_bytes:
            req.swapped = size
            rep.swapped += size
            rep.extra += units(size * 8 / rep.pool.swap_bps)
            self.release(rep, req)
        else:
            self.publish(rep, req, self.late(rep, req))
            self.release(rep, req)
            req.computed = 0
        req.out["preemptions"] += 1
        req.where = "waiting"
        req.chunk = False
        rep.preempted = True
        self.queue_up(rep, req, len(self.holders(rep)))

    def queue_up(self, rep: Rep, req: Req, place: int) -> None:
        if rep.pool.by_priority:
            first = len(self.holders(rep))
            place = first + sum(self.order(one) < self.order(req) for one in rep.waiting[first:])
        rep.waiting.insert(place, req)

    def from_queue(self, rep: Rep, batch, budget: int) -> int:
        at = 0
        while at < len(rep.waiting) and budget > 0 and len(rep.running) + rep.freed_places < rep.pool.max_sequences:
            req = rep.waiting[at]
            unseen = req.queued > rep.horizon
            if req.taking > 0 or (unseen and rep.pool.by_priority):
                at += 1
            elif unseen:
                break
            elif req.arrived:
                if not self.take_arrived(rep, req):
                    break
            else:
                tokens = self.admit(rep, req, batch, budget)
                if tokens == 0:
                    break
                budget -= tokens
        return budget

    def admit(self, rep: Rep, req: Req, batch, budget: int) -> int:
        hits = self.hits(rep, req) if req.computed == 0 else []
        cached = len(hits) * self.hash_tokens
        begin = max(req.computed, cached)
        tokens = self.wanted_at_first(rep, req, batch, begin, budget)
        missing = self.missing(rep, req, begin + tokens) - len(hits) * rep.cache.unit
        whole = self.missing(rep, req, req.target) - len(hits) * rep.cache.unit
        if tokens == 0 or max(missing, whole) + self.reserve(rep) > self.room(rep, hits):
            return 0
        if req.computed == 0:
            req.computed = cached
            req.out["cached_tokens"] += cached
            self.hold(rep, req, hits)
        rep.cache.take(max(0, missing))
        req.private += max(0, missing)
        if req.swapped:
            rep.swapped -= req.swapped
            rep.extra += units(req.swapped * 8 / rep.pool.swap_bps)
            req.swapped = 0
        rep.waiting.remove(req)
        req.taking = -1
        rep.running.append(req)
        req.where = "running"
        for name in ("admitted_ps", "prefill_start_ps"):
            if req.out[name] < 0:
                req.out[name] = self.now
        self.add(rep, req, tokens, batch, admitted=True)
        return tokens

    def hits(self, rep: Rep, req: Req) -> list[int]:
        chain = req.chain[: (req.target - 1) // self.hash_tokens] if rep.cache.unit else []
        return chain[: rep.cache.hits(chain)]

    def hold(self, rep: Rep, req: Req, hits: list[int]) -> None:
        for one in hits:
            rep.cache.hold(one)
            req.held.append(one)
        req.published = len(hits)

    def reserve(self, rep: Rep) -> int:
        return int(rep.pool.watermark * rep.pool.kv_blocks) if rep.running or rep.flight else 0

    def room(self, rep: Rep, hits: list[int]) -> int:
        idle = sum(rep.cache.unit for one in hits if one in rep.cache.idle)
        return rep.cache.available() - rep.freed_blocks - idle

    def add(self, rep: Rep, req: Req, tokens: int, batch, admitted: bool = False) -> None:
        decode, begin = req.decodes, req.computed
        req.computed += tokens
        req.chunk = req.computed < req.target
        req.in_flight += 1
        batch.append((req, tokens, decode, begin, not req.chunk, admitted, max(0, req.computed - req.target)))
        self.publish(rep, req, self.late(rep, req))

    def take_arrived(self, rep: Rep, req: Req) -> bool:
        hits = self.hits(rep, req)
        missing = self.missing(rep, req, req.target) - len(hits) * rep.cache.unit
        left = self.reserve(rep)
        others = rep.running or rep.flight or self.holders(rep)
        left += -(-(1 + rep.drafts) // rep.pool.block_tokens) if rep.drafts and others else 0
        left += sum(self.missing(rep, one, one.target) for one in rep.running if one.chunk)
        if missing + left > self.room(rep, hits):
            return False
        self.hold(rep, req, hits)
        rep.cache.take(missing)
        req.private += missing
        rep.waiting.remove(req)
        rep.waiting.insert(len(self.holders(rep)), req)
        req.arrived, req.taking = False, 2 if rep.pool.ahead else 1
        return True
