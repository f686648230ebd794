"""The engine, which recomputes only what an event touches, against a simulator that recomputes everything, exactly."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard import engine
from railyard.engine.fluid import FluidEngine
from railyard.graph import Stream

from .hand import Entity, Graph, Links, lowered
from .reference import Reference

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


@settings(max_examples=400, deadline=None)
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
