"""The engine `analytic`: alone as alone, and beside others as the mean of what meets."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import engine
from railyard.cluster.fault import DegradeLink
from railyard.engine.fluid import FluidEngine

from .hand import Entity, Graph, Links, lowered

RATE = 8e9  # in bit/s: 1,000 bytes take 1 us alone
US = 1_000_000
ALONE = FluidEngine("alone", "everything alone", contention=False, left_out=())


def ends(graph, rows, capacity=(RATE,), **options):
    """In us."""
    return (engine.get("analytic").run(*lowered(graph, rows), Links(capacity), **options).end_ps / US).tolist()


def side_by_side(count=2):
    graph = Graph(count)
    for rank in range(count):
        graph.transfer(rank, (rank + 1) % count, rank)
    return graph


def test_one_after_another_keeps_the_times_of_alone_to_the_picosecond():
    graph, rows = Graph(2), [Entity({0: 0.7, 1: 1.0}, 1_237, latency=333), Entity({0: 1.0}, 911.5)]
    first = graph.transfer(0, 1, 0)
    graph.transfer(1, 0, 1, first)
    made = lowered(graph, rows), Links([RATE, 1.7 * RATE])
    shared, alone = (each.run(*made[0], made[1]) for each in (engine.get("analytic"), ALONE))
    assert shared.meta["digest"] == alone.meta["digest"]


def test_two_equal_flows_take_twice_as_long():
    assert ends(side_by_side(), [Entity({0: 1.0}, 1_000)] * 2) == [2.0, 2.0]


def test_the_longer_of_two_is_slowed_while_the_shorter_runs():
    """As max-min fairness: the short one ends at 2 us, the long one 1 us later than alone."""
    assert ends(side_by_side(), [Entity({0: 1.0}, 1_000), Entity({0: 1.0}, 3_000)]) == pytest.approx([2.0, 4.0])


def test_latency_meets_nobody():
    rows = [Entity({0: 1.0}, 1_000), Entity({0: 1.0}, 1_000, latency=US // 2)]
    assert ends(side_by_side(), rows) == pytest.approx([1.5, 2.0])


def test_who_asks_for_less_than_its_share_is_not_slowed():
    """0.2 of the link for 5 us, beside a flow that would have all of it: that one gets 0.8."""
    rows = [Entity({0: 1.0}, 1_000), Entity({0: 1.0}, 1_000, cap=0.2 * RATE)]
    assert ends(side_by_side(), rows) == pytest.approx([1.25, 5.0])


def test_weights_decide_whose_share_is_fair():
    """Weights 3 to 1 and demands 0.7 and 0.9: the first is below its three quarters, the second gets 0.3."""
    rows = [Entity({0: 1.0}, 7_000, cap=0.7 * RATE, weight=3.0), Entity({0: 1.0}, 3_000, cap=0.9 * RATE)]
    assert ends(side_by_side(), rows) == pytest.approx([10.0, 10.0])


def test_other_links_do_not_meet():
    assert ends(side_by_side(), [Entity({0: 1.0}, 1_000), Entity({1: 1.0}, 2_500)], (RATE, RATE)) == [1.0, 2.5]


def test_repetitions_of_one_request_are_slowed_alike():
    """3 us of a flow beside 1 us twice, of another the first only: its two are on average as long as on flow."""
    graph = Graph(2)
    graph.transfer(0, 1, 0)
    for _ in range(2):
        graph.transfer(1, 0, 1)
    assert ends(graph, [Entity({0: 1.0}, 1_000), Entity({0: 1.0}, 3_000)]) == pytest.approx([2.0, 3.5, 7.0])


def test_flows_that_may_start_at_any_time_meet_their_own_kind():
    """Four equal requests that do not queue share one link: as long as all of them."""
    graph = Graph(2)
    for _ in range(4):
        graph.transfer(0, 1, 0, stream=engine_free())
    assert ends(graph, [Entity({0: 1.0}, 1_000)]) == [4.0] * 4


def engine_free():
    from railyard.graph import Stream

    return int(Stream.FREE)


def test_bytes_on_links_and_times_alone_are_those_of_flow():
    made = lowered(side_by_side(3), [Entity({0: 1.0, 1: 0.5}, 1_000 * n) for n in (1, 2, 5)]), Links([RATE, RATE])
    flow, shared = (engine.get(name).run(*made[0], made[1]) for name in ("flow", "analytic"))
    assert np.allclose(flow.table("links")["bytes"], shared.table("links")["bytes"])
    assert flow.column("alone_ps").tolist() == shared.column("alone_ps").tolist()
    assert shared.makespan_ps == pytest.approx(8 * US, rel=1e-3)


def test_a_lone_stream_on_a_degraded_link_is_as_long_as_on_flow():
    graph = Graph(1)
    graph.transfer(0, 0, 0)
    fault = DegradeLink(0.4, link=0)
    assert ends(graph, [Entity({0: 1.0}, 1_000)], faults=[fault]) == [2.5]
