"""The allocation itself, against linear programming, exact arithmetic and its own definition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.tables import drawn_seeds

from railyard import _core, engine
from railyard.engine.fluid import FluidEngine
from railyard.engine.lowering import core_of
from railyard.graph import Stream

from .hand import Entity, Graph, Links, entities, lowered
from .reference import Reference, water_fill


def rates(rows, capacity):
    return _core.max_min(core_of(entities(rows)), np.asarray(capacity, np.float64)).rate_bps


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


@pytest.mark.parametrize("seed", drawn_seeds(20, 60))
def test_equals_the_optimum_of_successive_linear_programs(seed):
    rows, capacity = random_case(seed)
    assert rates(rows, capacity) == pytest.approx(Programs(rows, capacity).rates(), rel=1e-6)


@pytest.mark.parametrize("seed", range(50))
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


# The engine, which recomputes only what an event touches, against a simulator that recomputes everything,
# exactly.

RANKS, LINKS = 5, 6


@st.composite
def rows_of_entities(draw):
    """A few entities over few links: much contention."""
    rows = []
    for _ in range(draw(st.integers(1, 6))):
        links = draw(st.lists(st.integers(0, LINKS - 1), max_size=3, unique=True))
        rows.append(
            Entity(
                {link: draw(st.sampled_from([1.0, 0.5, 1.75])) for link in links},
                volume=draw(st.sampled_from([0.0, 1e3, 12_345.0, 4e4])),
                latency=draw(st.sampled_from([0, 1_000, 777_777])),
                cap=draw(st.sampled_from([1e9, 2.5e9])) if not links else draw(st.sampled_from([np.inf, 3e8])),
                weight=draw(st.sampled_from([1.0, 2.0, 0.3])),
            )
        )
    return rows


@st.composite
def cases(draw):
    """Random acyclic graphs: explicit waits point backwards, and so does the order within streams."""
    rows = draw(rows_of_entities())
    graph = Graph(RANKS, groups=[[0, 1], [1, 2, 3], [0, 1, 2, 3, 4]])
    for i in range(draw(st.integers(1, 25))):
        deps = draw(st.lists(st.integers(0, i - 1), max_size=2, unique=True)) if i else []
        rank, kind = draw(st.integers(0, RANKS - 1)), draw(st.integers(0, 3))
        release, free = draw(st.sampled_from([0, 0, 333, 1_000_001])), Stream.FREE
        if kind == 0:
            took, stream = draw(st.sampled_from([0, 1, 50_000, 1_234_567])), draw(st.sampled_from([0, free]))
            graph.compute(rank, took, *deps, stream=stream, release=release)
        elif kind == 1:
            stream = draw(st.sampled_from([0, 2, free]))
            graph.collective(rank % 3, draw(st.integers(0, len(rows) - 1)), *deps, stream=stream, release=release)
        elif kind == 2:
            entity = draw(st.integers(0, len(rows) - 1))
            stream = draw(st.sampled_from([0, 3, free]))
            graph.transfer(rank, (rank + 1) % RANKS, entity, *deps, stream=stream, release=release)
        else:
            graph.read(rank, draw(st.integers(0, len(rows) - 1)), *deps)
        if draw(st.booleans()):
            graph.start(i, delay=draw(st.sampled_from([0, 1, 77_777])))
        if deps and graph.rows[i]["stream"] == free:
            graph.start(i, need=draw(st.integers(1, len(deps))))
    capacity = draw(st.lists(st.sampled_from([1e9, 5e8, 3.3e9]), min_size=LINKS, max_size=LINKS))
    return graph, rows, capacity


def assert_same(got, exact):
    """Equal but for the rounding up of every completion to a whole picosecond, which adds up along a path."""
    exact = np.array([float(value) for value in exact])
    assert (np.abs(got - exact) <= 200 + 1e-8 * exact).all(), (got, exact)


@settings(max_examples=200, deadline=None)
@given(cases())
def test_flow_equals_full_recomputation(case):
    graph, rows, capacity = case
    start, end = Reference(graph, rows, capacity).run()
    timeline = engine.get("flow").run(*lowered(graph, rows), Links(capacity))
    assert_same(timeline.start_ps, start)
    assert_same(timeline.end_ps, end)


@settings(max_examples=150, deadline=None)
@given(cases())
def test_no_contention_equals_full_recomputation_without_it(case):
    graph, rows, capacity = case
    start, end = Reference(graph, rows, capacity, contention=False).run()
    alone = FluidEngine("alone", "everything alone", contention=False, left_out=())
    timeline = alone.run(*lowered(graph, rows), Links(capacity))
    assert_same(timeline.start_ps, start)
    assert_same(timeline.end_ps, end)


def crowd(seed, flows=400, links=60):
    """Flows that come and go all the time over shared links, far beyond what the reference could play."""
    random = np.random.default_rng(seed)
    rows, graph = [], Graph(flows)
    for rank in range(flows):
        used = random.permutation(links)[: random.integers(1, 5)].tolist()
        volume = float(random.integers(1_000, 1_000_000))
        rows.append(Entity(dict.fromkeys(used, 1.0), volume, weight=float(random.choice([1.0, 2.0]))))
        before = graph.compute(rank, int(random.integers(0, 40_000_000)))
        for _ in range(3):
            before = graph.transfer(rank, (rank + 1) % flows, rank, before)
    return graph, rows, np.full(links, 1e10)


def fresh_rates(rows, flowing, capacity):
    """Max-min rates by repeated relaxation of the most loaded link, in plain floating point."""
    room, rate = capacity.copy(), {}
    growing = set(flowing)
    usage = {link: [i for i in flowing if link in rows[i].links] for link in range(len(capacity))}
    while growing:
        levels = {}
        for link, users in usage.items():
            weight = sum(rows[i].weight for i in users if i in growing)
            if weight > 0:
                levels[link] = max(room[link], 0) / weight
        link = min(levels, key=levels.get)
        for i in [i for i in usage[link] if i in growing]:
            rate[i] = levels[link] * rows[i].weight
            growing.remove(i)
            for used in rows[i].links:
                room[used] -= rate[i]
    return rate


@pytest.mark.parametrize("seed", range(3))
def test_bytes_of_a_crowd_match_rates_found_anew(seed):
    """In every interval between events, rates found from nothing must carry each flow exactly to its end."""
    graph, rows, capacity = crowd(seed, flows=120, links=25)
    timeline = engine.get("flow").run(*lowered(graph, rows), Links(capacity))
    sends = np.flatnonzero(timeline.graph.kind == 1)
    times = np.unique(np.concatenate([timeline.start_ps[sends], timeline.end_ps[sends]]))
    carried = np.zeros(len(graph.rows))
    for begin, end in pairwise(times):
        flowing = [t for t in sends if timeline.start_ps[t] <= begin and end <= timeline.end_ps[t]]
        by_row = {graph.rows[t]["entity"]: t for t in flowing}
        for row, rate in fresh_rates(rows, list(by_row), capacity).items():
            carried[by_row[row]] += rate * (end - begin) / 8e12
    wanted = np.array([rows[graph.rows[t]["entity"]].volume for t in sends])
    assert carried[sends] == pytest.approx(wanted, rel=1e-6)
