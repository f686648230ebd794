"""The allocation itself, against linear programming, exact arithmetic and its own definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from railyard import _core

from .hand import Entity, entities
from .reference import water_fill


def rates(rows, capacity):
    return _core.max_min(entities(rows).core(), np.asarray(capacity, np.float64)).rate_bps


def random_case(seed):
    """Up to 30 flows over up to 15 links, with shares, weights and caps that span orders of magnitude."""
    random = np.random.default_rng(seed)
    capacity = 10 ** random.uniform(9, 12, random.integers(1, 16))
    rows = []
    for _ in range(random.integers(1, 31)):
        links = random.permutation(len(capacity))[: random.integers(1, 1 + min(6, len(capacity)))]
        shares = random.choice([1.0, 0.5, 0.125, 1.75, 1 / 3], len(links))
        cap = np.inf if random.random() < 0.7 else 10 ** random.uniform(8, 11)
        weight = 1.0 if random.random() < 0.5 else 10 ** random.uniform(-1, 1)
        rows.append(Entity(dict(zip(links.tolist(), shares.tolist(), strict=True)), 1.0, cap=cap, weight=weight))
    return rows, capacity


class Programs:
    """Raise the common level as far as it goes, fix whoever cannot go higher, repeat (Nace and Pioro 2008)."""

    def __init__(self, rows, capacity):
        self.scale = capacity.max()
        self.room = capacity / self.scale * (1 + 1e-11)
        self.weight = np.array([row.weight for row in rows])
        self.top = np.array([row.cap for row in rows]) / self.scale / self.weight
        self.usage = np.zeros((len(capacity), len(rows)))
        for i, row in enumerate(rows):
            for link, share in row.links.items():
                self.usage[link, i] = share * row.weight
        self.level = np.full(len(rows), np.nan)

    def rates(self):
        while np.isnan(self.level).any():
            free = np.isnan(self.level)
            common = self.highest_common(free)
            for i in np.flatnonzero(free):
                if self.highest_of(i, common, free) <= common * (1 + 1e-7):
                    self.level[i] = common
        return self.level * self.weight * self.scale

    def bounds(self, free, least):
        fixed = [(level * (1 - 1e-12), level * (1 + 1e-12)) for level in self.level]
        return [(least, top) if f else pair for f, top, pair in zip(free, self.top, fixed, strict=True)]

    def highest_common(self, free):
        """Variables: the levels, and one more that is below all free ones."""
        n = len(self.level)
        matrix = np.hstack([self.usage, np.zeros((len(self.room), 1))])
        below = np.hstack([-np.eye(n)[free], np.ones((free.sum(), 1))])
        room = np.concatenate([self.room, np.zeros(free.sum())])
        return solve(np.append(np.zeros(n), -1.0), np.vstack([matrix, below]), room, [*self.bounds(free, 0), (0, None)])

    def highest_of(self, one, common, free):
        bounds = self.bounds(free, common * (1 - 1e-10))
        return solve(-np.eye(len(self.level))[one], self.usage, self.room, bounds)


def solve(goal, matrix, room, bounds):
    solved = linprog(goal, matrix, room, bounds=bounds, method="highs-ds")
    assert solved.status == 0, solved.message
    return -solved.fun


@pytest.mark.parametrize("seed", range(200))
def test_equals_the_optimum_of_successive_linear_programs(seed):
    rows, capacity = random_case(seed)
    assert rates(rows, capacity) == pytest.approx(Programs(rows, capacity).rates(), rel=1e-6)


@pytest.mark.parametrize("seed", range(100))
def test_equals_progressive_filling_in_exact_arithmetic(seed):
    rows, capacity = random_case(1000 + seed)
    exact = water_fill([(row.links, row.cap, row.weight) for row in rows], capacity)
    assert rates(rows, capacity) == pytest.approx([float(rate) for rate in exact], rel=1e-9)


def test_textbook_parking_lot():
    """One long flow over three links, one short flow on each (Bertsekas and Gallager 1992, 6.5.2): all get half."""
    long, shorts = Entity({0: 1, 1: 1, 2: 1}, 1.0), [Entity({i: 1}, 1.0) for i in range(3)]
    assert rates([long, *shorts], [10.0, 10.0, 10.0]) == pytest.approx([5.0] * 4)
    assert rates([long, *shorts], [10.0, 4.0, 10.0]) == pytest.approx([2.0, 8.0, 2.0, 8.0])


def test_weights_and_caps():
    pair = [Entity({0: 1}, 1.0, weight=3), Entity({0: 1}, 1.0)]
    assert rates(pair, [8.0]) == pytest.approx([6.0, 2.0])
    assert rates([Entity({0: 1}, 1.0, cap=1.0), Entity({0: 1}, 1.0)], [8.0]) == pytest.approx([1.0, 7.0])


def test_a_dead_link_gives_nothing_and_takes_nothing():
    assert rates([Entity({0: 1}, 1.0), Entity({1: 1}, 1.0), Entity({0: 1, 1: 1}, 1.0)], [0.0, 6.0]) == pytest.approx(
        [0.0, 6.0, 0.0]
    )


def test_thousands_of_flows_on_one_link():
    rows = [Entity({0: 1, i + 1: 1}, 1.0) for i in range(5000)]
    capacity = np.full(5001, 1e9)
    capacity[1:11] = 1e4  # ten of the flows are held back elsewhere
    got = rates(rows, capacity)
    assert got[:10] == pytest.approx(1e4)
    assert got[10:] == pytest.approx((1e9 - 1e5) / 4990, rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_order_of_flows_does_not_matter(seed):
    rows, capacity = random_case(seed)
    order = np.random.default_rng(seed).permutation(len(rows))
    assert rates([rows[i] for i in order], capacity) == pytest.approx(rates(rows, capacity)[order], rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_flow_is_at_its_cap_or_highest_on_a_full_link(seed):
    """The definition of max-min fairness, link by link."""
    rows, capacity = random_case(seed)
    got = rates(rows, capacity)
    level = got / [row.weight for row in rows]
    load = np.zeros(len(capacity))
    for row, rate in zip(rows, got, strict=True):
        for link, share in row.links.items():
            load[link] += share * rate
    assert (load <= capacity * (1 + 1e-9)).all()
    full = load >= capacity * (1 - 1e-8)
    users = [[i for i, row in enumerate(rows) if link in row.links] for link in range(len(capacity))]
    top = [max(level[used], default=0) for used in users]
    for i, row in enumerate(rows):
        held_back = any(full[link] and level[i] >= top[link] * (1 - 1e-8) for link in row.links)
        assert held_back or got[i] == pytest.approx(row.cap, rel=1e-9)
