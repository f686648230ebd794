"""Which replica a request goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .draws import mix

if TYPE_CHECKING:
    from .state import Rep, Req


class Routing:
    def fits(self, req: Req, pool) -> bool:
        tokens = req.input + req.output - 1
        if not pool.chunked and req.input > pool.max_batched_tokens:
            return False
        return -(-tokens // pool.block_tokens) <= pool.kv_blocks

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
        self.queue_up(rep, req, len(rep.waiting))

    def forget(self, req: Req) -> None:
        if req.home is not None:
            rep = self.reps[req.home]
            rep.has.remove(req)
            req.home = None
