"""Late ranks, slow accelerators, links that lose capacity."""

from __future__ import annotations

import pytest

from railyard import engine
from railyard.cluster.fault import AcceleratorDown, BitErrors, DegradeLink, Late, LinkDown, SlowAccelerator
from railyard.kit.errors import InputError

from .hand import Entity, Graph, Links
from .test_semantics import GIGABYTE_PER_S, play

US = 1_000_000


def computing(*durations):
    graph = Graph(2)
    for duration in durations:
        graph.compute(0, duration)
    return graph


def test_a_late_rank_lengthens_what_runs_then():
    timeline = play(computing(10 * US, 10 * US), faults=[Late(0, by_ps=3 * US, at_ps=4 * US)])
    assert timeline.end_ps.tolist() == [13 * US, 23 * US]


def test_a_rank_that_idles_is_late_with_its_next_computation():
    graph = Graph(2)
    send = graph.transfer(1, 0, 0)
    graph.compute(0, 10 * US, send)
    timeline = play(graph, [Entity({0: 1.0}, 5_000)], faults=[Late(0, by_ps=3 * US, at_ps=1 * US)])
    assert timeline.start_ps[1] == 5 * US
    assert timeline.end_ps[1] == 18 * US


def test_a_rank_that_computes_nothing_any_more_is_not_late_and_the_result_says_so():
    graph = Graph(2)
    graph.compute(0, US)
    graph.compute(1, 5 * US)
    timeline = play(graph, faults=[Late(0, by_ps=US, at_ps=2 * US), Late(1, by_ps=US, at_ps=9 * US)])
    assert timeline.makespan_ps == 5 * US
    assert len(timeline.meta["warnings"]) == 2
    assert "rank 0" in timeline.meta["warnings"][0]


def test_other_ranks_are_not_late():
    graph = Graph(2)
    graph.compute(0, US)
    graph.compute(1, US)
    assert play(graph, faults=[Late(1, by_ps=US)]).end_ps.tolist() == [US, 2 * US]


def test_a_slow_accelerator_slows_what_is_in_flight_and_recovers():
    """10 us of work: 4 us done, then 6 us at half speed of which 3 us get done by then, then 3 us at full speed."""
    fault = SlowAccelerator(0, factor=0.5, at_ps=4 * US, for_ps=6 * US)
    assert play(computing(10 * US), faults=[fault]).end_ps.tolist() == [13 * US]


def test_slow_for_good():
    assert play(computing(10 * US, 10 * US), faults=[SlowAccelerator(0, 0.8)]).end_ps.tolist() == [
        12_500_000,
        25 * US,
    ]


def test_overlapping_slowness_multiplies():
    faults = [SlowAccelerator(0, 0.5), SlowAccelerator(0, 0.5, at_ps=10 * US)]
    assert play(computing(10 * US), faults=faults).end_ps.tolist() == [30 * US]  # 5 us of work, then 5 at a quarter


def test_late_and_slow_together():
    faults = [SlowAccelerator(0, 0.5), Late(0, by_ps=3 * US, at_ps=2 * US)]
    assert play(computing(10 * US), faults=faults).end_ps.tolist() == [23 * US]


@pytest.mark.parametrize("name", ["flow", "analytic"])
def test_a_degraded_link_slows_what_flows_and_recovers(name):
    """4,000 bytes: 1 us at full rate, 4 us at a quarter of it, the rest at full rate."""
    graph = Graph(1)
    graph.transfer(0, 0, 0)
    fault = DegradeLink(0.25, link=0, at_ps=1 * US, for_ps=4 * US)
    timeline = play(graph, [Entity({0: 1.0}, 4_000)], faults=[fault], name=name)
    assert timeline.end_ps.tolist() == [7 * US]


@pytest.mark.parametrize("name", ["flow", "analytic"])
def test_a_link_that_is_all_but_down_holds_its_flows_until_it_is_up(name):
    graph = Graph(1)
    graph.transfer(0, 0, 0)
    graph.transfer(0, 0, 0)
    fault = DegradeLink(1e-9, tier="nic", at_ps=500_000, for_ps=2_000_000)
    timeline = play(graph, [Entity({0: 1.0}, 1_000)], faults=[fault], name=name)
    assert timeline.end_ps.tolist() == [3 * US, 4 * US]


def test_degraded_links_share_what_is_left():
    """Two flows on one link of 1 GB/s, one of them also on a link that drops to 0.25 GB/s: the other gets 0.75."""
    graph = Graph(2)
    graph.transfer(0, 1, 0)
    graph.transfer(1, 0, 1)
    rows = [Entity({0: 1.0, 1: 1.0}, 1_000), Entity({0: 1.0}, 3_000)]
    timeline = play(graph, rows, [GIGABYTE_PER_S] * 2, faults=[DegradeLink(0.25, link=1)])
    assert timeline.end_ps.tolist() == [4 * US, 4 * US]


@pytest.mark.parametrize(
    ("fault", "key"),
    [
        (lambda: Late(5, by_ps=1), "faults.0.rank"),
        (lambda: SlowAccelerator(-1, 0.5), "faults.0.rank"),
        (lambda: DegradeLink(0.5, link=9), "faults.0.link"),
        (lambda: DegradeLink(0.5, tier="nik"), "faults.0.tier"),
        (lambda: DegradeLink(0.5), "link"),
        (lambda: DegradeLink(-0.5, link=0), "factor"),
        (lambda: DegradeLink(0.0, link=0), "factor"),
        (lambda: DegradeLink(1.0, link=0), "factor"),
        (lambda: DegradeLink(1.5, link=0), "factor"),
        (lambda: SlowAccelerator(0, 0.0), "factor"),
        (lambda: SlowAccelerator(0, 1.0), "factor"),
        (lambda: SlowAccelerator(0, 1.5), "factor"),
        (lambda: SlowAccelerator(0, 0.5, at_ps=5, for_ps=0), "for"),
        (lambda: SlowAccelerator(0, 0.5, at_ps=-5), "at"),
        (lambda: LinkDown("leaf 0 - spine 1"), "faults.0.cable"),
        (lambda: AcceleratorDown(0), "faults.0"),
        (lambda: BitErrors(1e-9), "faults.0"),
        (lambda: Late(0, by_ps=-1), "by"),
    ],
)
def test_impossible_faults_are_refused(fault, key):
    with pytest.raises(InputError) as caught:
        play(computing(US), faults=[fault()])
    assert caught.value.problems[0].key == key


def test_a_bundle_loses_what_its_member_loses():
    """Two members of 1 GB/s each behind one bundle; one keeps a quarter."""

    class Bundled(Links):
        def __post_init__(self):
            super().__post_init__()
            self.bundle_of = self.bundle_of[:2]
            self.bundle_of[:] = 2

        @property
        def physical(self):
            return 2

        def with_bundles(self, rate_bps):
            rate_bps[2] = rate_bps[0] + rate_bps[1]
            return rate_bps

    from .hand import lowered

    graph = Graph(1)
    graph.transfer(0, 0, 0)
    links = Bundled([GIGABYTE_PER_S, GIGABYTE_PER_S, 2 * GIGABYTE_PER_S])
    columns = lowered(graph, [Entity({2: 1.0}, 2_500)])
    fault = DegradeLink(0.25, link=1)
    assert engine.get("flow").run(*columns, links).end_ps.tolist() == [1_250_000]
    assert engine.get("flow").run(*columns, links, faults=[fault]).end_ps.tolist() == [2 * US]
