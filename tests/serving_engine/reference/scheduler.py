"""An iteration is put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .blocks import Blocks
from .law import units

if TYPE_CHECKING:
    from .state import Rep, Req


class Scheduler(Blocks):
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
