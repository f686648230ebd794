"""What runs when: streams, collectives, transfers, and who let whom start."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import engine
from railyard.cluster.fault import Late
from railyard.graph import Stream
from railyard.kit.errors import InputError

from .hand import Entity, Graph, Links, lowered

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
