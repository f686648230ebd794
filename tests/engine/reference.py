"""A simulator to read: one event after another, every rate found anew from nothing at every event."""

from __future__ import annotations

import math
from fractions import Fraction

from railyard.graph import Kind, Stream


def water_fill(flows, capacity):
    """Weighted max-min rates by progressive filling, in exact arithmetic.

    `flows` is a list of (links: {link: share}, cap, weight); a rate grows with its weight until its cap or one of its
    links is full.
    """
    room = [Fraction(c) for c in capacity]
    rate = [None] * len(flows)
    while None in rate:
        growing = [i for i, r in enumerate(rate) if r is None]
        level, full = min(_limits(flows, growing, room), key=lambda limit: limit[0])
        stop = [full] if isinstance(full, int) else [i for i in growing if full[0] in flows[i][0]]
        for i in stop:
            rate[i] = level * Fraction(flows[i][2])
            for link, share in flows[i][0].items():
                room[link] -= Fraction(share) * rate[i]
    return rate


def _limits(flows, growing, room):
    """(level, flow at its cap | (link that is full,)) of everything that could end the growth."""
    for i in growing:
        if math.isfinite(flows[i][1]):
            yield Fraction(flows[i][1]) / Fraction(flows[i][2]), i
    for link in {link for i in growing for link in flows[i][0]}:
        weight = sum(Fraction(flows[i][0][link]) * Fraction(flows[i][2]) for i in growing if link in flows[i][0])
        yield max(room[link], Fraction(0)) / weight, (link,)


class Reference:
    """Plays a graph made by `hand.Graph` with rows of `hand.Entity`; times are fractions of a picosecond."""

    def __init__(self, graph, rows, capacity, contention=True):
        self.graph, self.rows, self.capacity, self.contention = graph, rows, capacity, contention
        self.waits = [set(row["deps"]) for row in graph.rows]
        last = {}
        for i, row in enumerate(graph.rows):
            for rank in self._members(row) if row["stream"] != Stream.FREE else ():
                if (rank, row["stream"]) in last:
                    self.waits[i].add(last[rank, row["stream"]])
                last[rank, row["stream"]] = i

    def _members(self, row):
        return self.graph.groups[row["rank"]] if row["kind"] == Kind.COLLECTIVE else [row["rank"]]

    def run(self):
        """(starts, ends) of all tasks."""
        n = len(self.graph.rows)
        start, end, begin = [None] * n, [None] * n, [None] * n
        timers, flowing, now = {}, {}, Fraction(0)  # task -> time; task -> bits left
        while None in end:
            for i in range(n):
                if start[i] is None and begin[i] is None and self._ready(i, end):
                    begin[i] = max(now, self.graph.rows[i]["release"]) + self.graph.rows[i]["delay"]
                if start[i] is None and begin[i] is not None and now >= begin[i]:
                    start[i] = now
                    row = self.graph.rows[i]
                    fixed = row["duration"] if row["kind"] == Kind.COMPUTE else self.rows[row["entity"]].latency
                    timers[i] = now + fixed
            rates = self._rates(flowing)
            dues = dict(timers)
            dues.update({i: now + bits * 10**12 / rates[i] for i, bits in flowing.items() if rates[i] > 0})
            later = [time for time in begin if time is not None and time > now]
            then = min([*dues.values(), *later])
            flowing = {i: bits - rates[i] * (then - now) / 10**12 for i, bits in flowing.items()}
            now = then
            for i in [i for i, due in dues.items() if due == now]:
                if i in flowing:
                    del flowing[i]
                elif self.graph.rows[i]["entity"] >= 0:
                    del timers[i]
                    flowing[i] = Fraction(self.rows[self.graph.rows[i]["entity"]].volume) * 8
                    if flowing[i] > 0:
                        continue
                    del flowing[i]
                else:
                    del timers[i]
                end[i] = now
        return start, end

    def _ready(self, task, end):
        row = self.graph.rows[task]
        if row["need"] is not None:
            return sum(end[j] is not None for j in row["deps"]) >= row["need"]
        return all(end[j] is not None for j in self.waits[task])

    def _rates(self, flowing):
        flows = []
        for i in flowing:
            row = self.rows[self.graph.rows[i]["entity"]]
            flows.append((row.links, row.cap, row.weight))
        if self.contention:
            return dict(zip(flowing, water_fill(flows, self.capacity), strict=True))
        return {i: water_fill([flow], self.capacity)[0] for i, flow in zip(flowing, flows, strict=True)}
