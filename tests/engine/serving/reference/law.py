"""Time of an iteration, in whole units of 2^-16 ps."""

from __future__ import annotations

import math


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

    def collectives(self, tokens: int) -> int:
        return self.table(self.cost.network_s, tokens)

    def time(self, tokens: int, sequences: int, decodes: int, kv: int, pairs: int) -> int:
        c = self.cost
        total = units(c.host_s) + units(c.host_per_seq_s) * sequences + self.table(c.compute_s, tokens)
        total += self.collectives(tokens) + units(c.attention_per_pair_s) * pairs
        if decodes:
            attention = units(c.attention_per_sequence_s) * decodes + units(c.attention_per_kv_token_s) * kv
            beside = (
                units(float(each)) * kv - self.table(hidden, tokens)
                for each, hidden in zip(c.overlapped_per_kv_token_s, c.overlapped_s, strict=True)
            )
            total += max(units(c.attention_floor_s), attention, *beside)
        return total
