"""Blocks of a request: how many it lacks, which become units that others can use, how they come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .state import Rep, Req


class Blocks:
    def missing(self, rep: Rep, req: Req, tokens: int) -> int:
        return max(0, -(-tokens // rep.pool.block_tokens) - req.private - len(req.held) * rep.cache.unit)

    def publish(self, rep: Rep, req: Req, late: int = 0) -> None:
        while rep.cache.unit and req.published < len(req.chain):
            if (req.published + 1) * self.hash_tokens > min(req.computed, req.target - late):
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
