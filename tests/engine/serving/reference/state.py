"""What there is: requests, blocks, replicas."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from .law import Law


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
    priority: int = 0
    chunk: bool = False
    arrived: bool = False
    taking: int = -1
    emitted: int = 0
    refused: int = 0
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
        self.ended: list[dict[str, int]] = []  # that a schedule made ahead takes for running
        self.wasted: list[tuple[int, int]] = []  # their tokens in the iteration, and the keys they look at
        self.horizon: float = math.inf  # of a schedule made ahead: who came later is not known to it ...
        self.freed_places = self.freed_blocks = 0  # ... nor what came free

    def see_all(self) -> bool:
        blind = self.horizon < math.inf
        self.horizon, self.freed_places, self.freed_blocks = math.inf, 0, 0
        return blind
