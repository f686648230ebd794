"""What holds for every run: bytes, bounds, reproducibility."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard import engine
from railyard.engine.lowering import Entities, Lowered
from railyard.graph import Merged

from .hand import Graph, Links, entities, lowered
from .test_differential import LINKS, cases, crowd

FLOW = engine.get("flow")


@settings(max_examples=100, deadline=None)
@given(cases())
def test_bytes_are_conserved_on_every_link_at_every_rate(case):
    """The probe integrates rates over time; what it finds must be the bytes that were to be carried."""
    graph, rows, capacity = case
    columns, low = lowered(graph, rows)
    timeline = FLOW.run(columns, low, Links(capacity), probes=engine.Probes(samples=64))
    wire = np.zeros(LINKS)
    for entity in low.entity[low.entity >= 0]:
        for link, share in rows[entity].links.items():
            wire[link] += share * rows[entity].volume
    assert timeline.table("links")["bytes"] == pytest.approx(wire)
    time_ps, utilization = timeline.table("link_series").values()
    interval_s = (time_ps[1] if len(time_ps) > 1 else 1 << 20) * 1e-12
    carried = utilization.sum(axis=0, dtype=np.float64) * capacity * interval_s / 8
    slack = 1e-12 * len(graph.rows) * np.array(capacity) / 8  # every end is rounded up to a picosecond
    assert (np.abs(carried - wire) <= 1e-5 * wire + slack).all()
    assert (utilization <= 1 + 1e-5).all()


@settings(max_examples=100, deadline=None)
@given(cases())
def test_nothing_is_faster_than_its_latency_and_its_narrowest_link(case):
    graph, rows, capacity = case
    timeline = FLOW.run(*lowered(graph, rows), Links(capacity))
    for task, row in enumerate(graph.rows):
        took = timeline.end_ps[task] - timeline.start_ps[task]
        if row["entity"] < 0:
            assert took == row["duration"]
            continue
        entity = rows[row["entity"]]
        rate = min([entity.cap, *(capacity[link] / share for link, share in entity.links.items())])
        assert took >= entity.latency + 8e12 * entity.volume / rate - 1e-2


@settings(max_examples=60, deadline=None)
@given(cases())
def test_starts_follow_what_they_wait_for(case):
    graph, rows, capacity = case
    timeline = FLOW.run(*lowered(graph, rows), Links(capacity))
    for task, row in enumerate(graph.rows):
        assert sum(timeline.end_ps[dep] <= timeline.start_ps[task] for dep in row["deps"]) >= (
            row["need"] or len(row["deps"])
        )
        blocker = timeline.column("blocker")[task]
        free = timeline.end_ps[blocker] if blocker >= 0 else row["release"]
        assert timeline.start_ps[task] == free + row["delay"]


@settings(max_examples=60, deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_entities_changes_no_bit(case, random):
    graph, rows, capacity = case
    columns, entity = graph.build()
    order = list(range(len(rows)))
    random.shuffle(order)
    place = np.append(np.argsort(order), -1).astype(np.int32)
    first = FLOW.run(Merged.of(columns), Lowered(entities(rows), entity), Links(capacity))
    second = FLOW.run(Merged.of(columns), Lowered(entities([rows[i] for i in order]), place[entity]), Links(capacity))
    assert np.array_equal(first.end_ps, second.end_ps)
    assert np.array_equal(first.column("blocker"), second.column("blocker"))


def test_the_same_run_twice_is_the_same_bit_by_bit():
    graph, rows, capacity = crowd(5)
    jitter = engine.Jitter(sigma=0.1, rank_sigma=0.05)
    runs = [FLOW.run(*lowered(graph, rows), Links(capacity), seed=3, jitter=jitter) for _ in range(2)]
    assert runs[0].digest() == runs[1].digest()
    assert runs[0].digest() != FLOW.run(*lowered(graph, rows), Links(capacity), seed=4, jitter=jitter).digest()


def test_the_bits_of_a_run_are_those_of_every_machine():
    """A golden fingerprint: integer times, no C library in what orders events, no fused multiply-add."""
    graph, rows, capacity = crowd(11, flows=100, links=20)
    timeline = FLOW.run(*lowered(graph, rows), Links(capacity), seed=1, jitter=engine.Jitter(0.1, 0.1))
    assert timeline.digest()[:16] == "7722a697dbe4dde6"


def durations(ranks, tasks, **options):
    graph = Graph(ranks)
    for rank in range(ranks):
        for _ in range(tasks):
            graph.compute(rank, 1_000_000)
    timeline = FLOW.run(*lowered(graph, []), Links([1.0]), **options)
    return (timeline.end_ps - timeline.start_ps).reshape(ranks, tasks) / 1e6


def test_jitter_has_the_asked_mean_and_spread():
    """40,000 draws: five standard errors, false alarm below 1e-6."""
    took = durations(200, 200, seed=9, jitter=engine.Jitter(sigma=0.1))
    assert took.mean() == pytest.approx(1, abs=5 * 0.1 / 200)
    assert took.std() == pytest.approx(0.1, abs=5 * 0.1 / np.sqrt(2 * 40_000))
    assert took.mean(axis=1).std() < 0.02  # no rank is slower than the others for good


def test_rank_jitter_stays_with_the_rank():
    took = durations(2_000, 3, seed=9, jitter=engine.Jitter(rank_sigma=0.05))
    assert (took == took[:, :1]).all()
    assert took[:, 0].std() == pytest.approx(0.05, abs=5 * 0.05 / np.sqrt(2 * 2_000))


def test_a_further_task_shifts_nobody_elses_jitter():
    small, large = durations(3, 50, jitter=engine.Jitter(0.2)), durations(4, 50, jitter=engine.Jitter(0.2))
    assert np.array_equal(small, large[:3])


def test_more_bandwidth_never_makes_the_last_flow_end_later():
    for seed in range(5):
        graph, rows, capacity = crowd(seed, flows=80, links=15)
        slow = FLOW.run(*lowered(graph, rows), Links(capacity)).makespan_ps
        assert FLOW.run(*lowered(graph, rows), Links(2 * capacity)).makespan_ps <= slow


def test_stacked_tables_keep_their_rows():
    graph, rows, _ = crowd(1, flows=20, links=8)
    del graph
    both = Entities.stacked([entities(rows[:7]), entities([]), entities(rows[7:])])
    whole = entities(rows)
    for name in Entities.__dataclass_fields__:
        assert np.array_equal(getattr(both, name), getattr(whole, name)), name
