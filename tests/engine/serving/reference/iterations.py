"""An iteration runs and ends, tokens come out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .blocks import Blocks
from .draws import MASK, mix
from .law import units
from .topics import ENTRY, ITERATED

if TYPE_CHECKING:
    from .state import Rep, Req


class Iterations(Blocks):
    def launch(self, rep: Rep, batch) -> None:
        decodes = [one for one in batch if one[2]]
        tokens = sum(one[1] for one in batch)
        pairs = sum(n * begin + n * (n + 1) // 2 for _, n, decode, begin, *_ in batch if not decode)
        kv = sum(begin + n for _, n, _, begin, *_ in decodes)
        tokens += sum(one for one, _ in rep.wasted)
        kv += sum(keys for _, keys in rep.wasted)
        wasted = len(rep.wasted)
        time = rep.law.time(tokens, len(batch) + wasted, len(decodes) + wasted, kv, pairs) + rep.extra
        rep.extra = 0
        if (decodes or wasted) and rep.drafts:
            time += units(rep.pool.speculative.draft_s) * rep.drafts
        start = max(self.now << 16, rep.clock)
        end = rep.clock = start + time
        if rep.pool.cost.pipeline_stages > 1:
            slowest = (time * math.floor(rep.pool.cost.stage_share * 2**32 + 0.5)) >> 32
            end = max(end, rep.last_end + slowest)
            rep.clock = start + slowest
            self.push(rep.clock >> 16, ENTRY, rep.number, rep.stamp)
        rep.last_end = end
        rep.flight.append({"items": batch, "start": start, "end": end, "collectives": rep.law.collectives(tokens)})
        self.push(end >> 16, ITERATED, rep.number, rep.stamp)

    def end(self, rep: Rep) -> None:
        self.touched.add(rep.number)
        batch = rep.flight.pop(0)
        places, blocks = len(rep.running), rep.cache.available()
        for req, _, _, _, emits, admitted, guesses in batch["items"]:
            req.in_flight -= 1
            # of two chunks of a prompt that are under way at a time, the later one counts from the end of the other
            part, end = batch["collectives"], batch["end"]
            if rep.pool.cost.pipeline_stages > 1 and req.iterated > batch["start"]:
                part = part * (end - req.iterated) // (end - batch["start"])
            req.out["collectives"] += part
            req.iterated = end
            req.emitted = req.refused = 0
            if emits:
                self.emit(rep, req, admitted, guesses, batch["end"])
        for one in rep.ended:
            before = rep.running[: [req.id for req in rep.running].index(one["id"])]
            one["place"] = sum(req.where == "running" for req in before)
        rep.running = [one for one in rep.running if one.where == "running" and one.home == rep.number]
        if rep.pool.ahead:
            rep.horizon = batch["start"] >> 16
            rep.freed_places, rep.freed_blocks = places - len(rep.running), rep.cache.available() - blocks

    def emit(self, rep: Rep, req: Req, admitted: bool, guesses: int, end: int) -> None:
        made = 1
        if guesses:
            made += 0 if admitted else self.accepted(rep, req, guesses)
            req.refused = 1 + guesses - made
            made = min(made, req.output - req.generated)
            if rep.pool.ahead and made > 1 and made == req.output - req.generated:
                blocks = req.private + len(req.held) * rep.cache.unit
                rep.ended.append({"id": req.id, "computed": req.computed, "blocks": blocks})
            req.computed += made - 1 - guesses
        req.emitted = made
        req.generated += made
        if req.out["first_token_ps"] < 0:
            req.out["first_token_ps"] = end >> 16
            req.out["collectives_prefill"] = req.out["collectives"]
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
