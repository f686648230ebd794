"""What runs when: streams, collectives, transfers, and who let whom start."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard import engine
from railyard.cluster import Entities
from railyard.cluster.fault import Late
from railyard.engine.lowering import LoweredGraph
from railyard.graph import MergedJobs, Stream
from railyard.kit.errors import InputError

from .hand import Entity, Graph, Links, entities, lowered
from .test_max_min import LINKS, cases, crowd

GIGABYTE_PER_S = 8e9  # in bit/s: 1,000 bytes take 1 us alone


def play(graph, rows=(), capacity=(GIGABYTE_PER_S,), name="flow", **options):
    return engine.get(name).run(*lowered(graph, rows), Links(capacity), **options)


def test_a_stream_is_a_queue_and_streams_run_side_by_side():
    graph = Graph(2)
    graph.compute(0, 10)
    graph.compute(0, 5)
    graph.compute(0, 7, stream=1)
    graph.compute(1, 3)
    timeline = play(graph)
    assert timeline.start_ps.tolist() == [0, 10, 0, 0]
    assert timeline.end_ps.tolist() == [10, 15, 7, 3]
    assert timeline.column("blocker").tolist() == [-1, 0, -1, -1]
    assert timeline.makespan_ps == 15


def test_a_collective_waits_for_its_last_member_and_releases_all_at_once():
    graph = Graph(3, groups=[[0, 1, 2]])
    arrivals = [graph.compute(rank, duration) for rank, duration in enumerate([10, 30, 20])]
    together = graph.collective(0, 0, stream=0)
    after = [graph.compute(rank, 1) for rank in range(3)]
    timeline = play(graph, [Entity({0: 1.0}, 1_000, latency=500)])
    assert timeline.start_ps[together] == 30
    assert timeline.end_ps[together] == 30 + 500 + 1_000_000
    assert timeline.column("blocker")[together] == arrivals[1]
    assert (timeline.start_ps[after] == timeline.end_ps[together]).all()
    assert (timeline.column("blocker")[after] == together).all()


def test_a_collective_occupies_its_stream_on_every_member():
    graph = Graph(3, groups=[[0, 1], [1, 2]])
    first, second = graph.collective(0, 0), graph.collective(1, 0)
    timeline = play(graph, [Entity({}, 1_000, cap=GIGABYTE_PER_S)])
    assert timeline.start_ps[second] == timeline.end_ps[first] == 1_000_000


def test_a_transfer_occupies_the_stream_of_its_source_only():
    graph = Graph(2)
    there, back = graph.transfer(0, 1, 0), graph.transfer(1, 0, 1)
    again = graph.transfer(0, 1, 0)
    timeline = play(graph, [Entity({0: 1.0}, 1_000), Entity({1: 1.0}, 1_000)], [GIGABYTE_PER_S] * 2)
    assert timeline.start_ps[back] == 0
    assert timeline.start_ps[again] == timeline.end_ps[there]


def test_explicit_waits_cross_ranks_and_streams():
    graph = Graph(2)
    work = graph.compute(0, 1_000)
    send = graph.transfer(0, 1, 0, work)
    use = graph.compute(1, 10, send)
    timeline = play(graph, [Entity({0: 1.0}, 1_000, latency=7)])
    assert timeline.start_ps[send] == 1_000
    assert timeline.start_ps[use] == timeline.end_ps[send] == 1_000 + 7 + 1_000_000
    assert timeline.column("blocker")[use] == send


def test_latency_uses_no_bandwidth():
    """The second flow shares the link only after its latency; until then the first has it to itself."""
    graph = Graph(2)
    graph.transfer(0, 1, 0)
    graph.transfer(1, 0, 1)
    rows = [Entity({0: 1.0}, 1_000), Entity({0: 1.0}, 1_000, latency=500_000)]
    timeline = play(graph, rows)
    assert timeline.end_ps.tolist() == [1_500_000, 2_000_000]


def test_two_flows_share_and_the_longer_speeds_up_when_the_shorter_ends():
    graph = Graph(2)
    graph.transfer(0, 1, 0)
    graph.transfer(1, 0, 1)
    timeline = play(graph, [Entity({0: 1.0}, 1_000), Entity({0: 1.0}, 3_000)])
    assert timeline.end_ps.tolist() == [2_000_000, 4_000_000]


def test_nothing_and_no_volume_take_no_time():
    assert play(Graph(4)).makespan_ps == 0
    graph = Graph(1, groups=[[0]])
    graph.collective(0, 0)
    graph.compute(0, 0, 0)
    assert play(graph, [Entity({0: 1.0}, 0.0)]).end_ps.tolist() == [0, 0]


def test_completions_are_rounded_up():
    graph = Graph(1)
    graph.transfer(0, 0, 0)
    assert play(graph, [Entity({0: 1.0}, 1.0)], [3e12]).end_ps.tolist() == [3]  # 8 bits at 3 bits/ps are 2.67 ps


def test_lockstep_one_late_rank_of_ten_thousand_costs_a_fifth_of_a_gpu_second():
    """9,999 ranks wait 20 us each for the one that is late: 0.2 GPU-seconds in one collective."""
    ranks, late_ps = 10_000, 20_000_000
    graph = Graph(ranks, groups=[list(range(ranks))])
    for rank in range(ranks):
        graph.compute(rank, 1_000_000_000)
    together = graph.collective(0, 0, stream=0)
    faults = [Late(rank=1234, by_ps=late_ps)]
    timeline = play(graph, [Entity({0: 1.0}, 1_000)], faults=faults)
    waited = timeline.start_ps[together] - timeline.end_ps[:ranks]
    assert waited.sum() * 1e-12 == pytest.approx(0.2, rel=1e-3)
    assert timeline.column("blocker")[together] == 1234


def test_what_the_timeline_says_of_itself():
    graph = Graph(1)
    graph.transfer(0, 0, 0)
    columns, low = lowered(graph, [Entity({0: 1.0}, 1_000, latency=5)])
    low.entities.even_ps[:] = 1_000_005
    timeline = engine.get("flow").run(columns, low, Links([GIGABYTE_PER_S]), seed=7)
    assert timeline.column("alone_ps").tolist() == [1_000_005]
    assert timeline.column("latency_ps").tolist() == [5]
    assert timeline.table("links")["bytes"].tolist() == [1_000.0]
    assert (timeline.meta["engine"], timeline.meta["seed"]) == ("flow", 7)
    assert timeline.meta["digest"] == timeline.digest()
    assert timeline.meta["left_out"]


@pytest.mark.parametrize("column", ["start_ps", "end_ps", "blocker", "bytes"])
def test_columns_are_views_that_cannot_be_written(column):
    graph = Graph(1)
    graph.compute(0, 1)
    record = play(graph)
    values = record.table("links")[column] if column == "bytes" else record.column(column)
    assert not values.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        values[:] = 0


def test_columns_outlive_their_result():
    graph = Graph(1)
    graph.compute(0, 12_345)
    ends = [play(graph).end_ps for _ in range(50)]
    assert np.concatenate(ends).tolist() == [12_345] * 50


def test_tasks_of_the_free_stream_run_at_the_same_time_and_share_links():
    """Two transfers of one rank and one entity: 1,000 bytes each over a link of 1 GB/s, half the rate for each."""
    graph = Graph(2)
    graph.compute(0, 700, stream=Stream.FREE)
    graph.compute(0, 300, stream=Stream.FREE)
    graph.transfer(0, 1, 0, 1, stream=Stream.FREE)
    graph.transfer(0, 1, 0, 1, stream=Stream.FREE)
    timeline = play(graph, [Entity({0: 1.0}, 1_000)])
    assert timeline.start_ps.tolist() == [0, 0, 300, 300]
    assert timeline.end_ps.tolist() == [700, 300, 2_000_300, 2_000_300]
    assert timeline.column("blocker").tolist() == [-1, -1, 1, 1]


def test_nothing_starts_before_its_release_and_then_nobody_blocked_it():
    """Four ranks that start at 0, 17, 1,003 and 250,000 ps; the transfer's release is before its dependency's end."""
    graph = Graph(4)
    for rank, release in enumerate((0, 17, 1_003, 250_000)):
        graph.compute(rank, 100 + rank, release=release)
    graph.transfer(2, 3, 0, 2, release=900)
    graph.transfer(2, 3, 0, 2, release=2_000, stream=4)
    timeline = play(graph, [Entity({}, 1_000, cap=GIGABYTE_PER_S)])
    assert timeline.start_ps.tolist() == [0, 17, 1_003, 250_000, 1_105, 2_000]
    assert timeline.end_ps.tolist() == [100, 118, 1_105, 250_103, 1_001_105, 1_002_000]
    assert timeline.column("blocker").tolist() == [-1, -1, -1, -1, 2, -1]


def test_a_task_may_need_some_of_what_it_waits_for_and_start_later_still():
    """Ends at 40, 10 and 25 ps: the second of them is at 25, 7 ps later the task starts; the third changes nothing."""
    graph = Graph(4)
    ends = [graph.compute(rank, took) for rank, took in enumerate((40, 10, 25))]
    second = graph.start(graph.compute(3, 100, *ends, stream=Stream.FREE), need=2, delay=7)
    late = graph.start(graph.compute(3, 1, ends[1], stream=Stream.FREE, release=30), delay=5)
    timeline = play(graph)
    assert timeline.start_ps[[second, late]].tolist() == [32, 35]
    assert timeline.column("blocker")[[second, late]].tolist() == [2, -1]
    assert timeline.end_ps[second] == 132


@pytest.mark.parametrize(("stream", "need"), [(Stream.COMPUTE, 1), (Stream.FREE, 0), (Stream.FREE, 3)])
def test_a_task_of_a_queue_waits_for_all_and_no_task_for_more(stream, need):
    graph = Graph(1)
    first = [graph.compute(0, 1), graph.compute(0, 1)]
    graph.start(graph.compute(0, 1, *first, stream=stream), need=need)
    graph.start(graph.compute(0, 1, *first, stream=Stream.FREE), need=1)
    with pytest.raises(InputError, match="need out of range"):
        play(graph)


# What holds for every run: bytes, bounds, reproducibility.

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
    first = FLOW.run(MergedJobs.of(columns), LoweredGraph(entities(rows), entity), Links(capacity))
    second = FLOW.run(
        MergedJobs.of(columns), LoweredGraph(entities([rows[i] for i in order]), place[entity]), Links(capacity)
    )
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
