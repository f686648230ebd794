"""Engines on real clusters: lowering, closed forms, agreement of the two engines."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

from railyard import catalog, cluster, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.cluster.fault import DegradeLink
from railyard.collective import CollectivePolicy
from railyard.engine.analytic import fullest, slowdown
from railyard.engine.fluid import FluidEngine
from railyard.engine.lowering import lower
from railyard.graph import CollectiveKind, Communicators, Job, Kind, Label, TaskGraph

from .hand import Entity, Graph, Links, lowered

GIB = 1 << 30
RANKS = 64


@cache
def machine(topology="leaf-spine", fabric="ideal"):
    network = NetworkSpec(topology=cluster.topologies.get(topology)(), fabric=FabricSpec(fabric))
    return cluster.build(ClusterSpec(accelerators=RANKS, server="hgx-h100", back_end=network), catalog.load())


def graph_of(rows, groups=((0,),)):
    """Rows (kind, rank, peer, size, collective kind, stream)."""
    names = ("kind", "rank", "peer", "size_bytes", "collective", "stream")
    return TaskGraph.of(
        RANKS,
        **dict(zip(names, np.array(rows, np.int64).T, strict=True)),
        labels=[Label("gradient", "test", "dp")],
        communicators=Communicators.of(groups, "dp"),
    )


def collective(kind, size, group=0, stream=2):
    return (Kind.COLLECTIVE, group, -1, size, kind, stream)


def transfer(source, target, size, stream=3):
    return (Kind.TRANSFER, source, target, size, 0, stream)


EVERYBODY = (tuple(range(RANKS)),)
CASES = {
    "ring": (CollectiveKind.ALL_REDUCE, {"all-reduce": "ring"}),
    "tree": (CollectiveKind.ALL_REDUCE, {"all-reduce": "tree"}),
    "all-to-all": (CollectiveKind.ALL_TO_ALL, {"all-to-all": "pairwise"}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("topology", cluster.topologies.names())
def test_a_collective_takes_its_latency_and_the_time_of_its_busiest_link(topology, case):
    """From the bytes that every link carried, whatever the algorithm and the topology."""
    kind, algorithm = CASES[case]
    here = machine(topology, "roce")
    policy = CollectivePolicy(algorithm=algorithm)
    graph = graph_of([collective(kind, GIB)], EVERYBODY)
    timeline = engine.get("flow").simulate([Job(graph)], here, policy=policy)
    took, entities = timeline.end_ps[0], lower(graph, here, policy).entities
    busiest = (8e12 * timeline.table("links")["bytes"] / here.links.rate_bps).max()
    own_limit = 8e12 * entities.volume_bytes[0] / entities.rate_cap_bps[0]
    assert took == pytest.approx(timeline.column("latency_ps")[0] + max(busiest, own_limit), rel=1e-9)
    assert timeline.column("alone_ps")[0] <= took + 2  # less where its own hashed flows collide
    assert took == engine.get("analytic").simulate([Job(graph)], here, policy=policy).end_ps[0]


def test_a_ring_carries_what_a_ring_carries():
    """A rank sends 2 (n-1)/n of the buffer (Patarasuk and Yuan 2009); out of a server goes what one rank sends."""
    here = machine()
    graph = graph_of([collective(CollectiveKind.ALL_REDUCE, GIB)], EVERYBODY)
    timeline = engine.get("flow").simulate(
        [Job(graph)], here, policy=CollectivePolicy(algorithm={"all-reduce": "ring"})
    )
    tier = here.links.tiers.index("nic")
    carried = timeline.table("links")["bytes"]
    egress = carried[here.links.tier == tier].sum() / 2  # every byte goes up one NIC and down another
    payload = 2 * (RANKS - 1) / RANKS * GIB * here.servers
    assert egress == pytest.approx(payload / here.fabric.payload_efficiency, rel=0.02)


def test_both_engines_agree_where_nothing_contends():
    rows = [
        collective(CollectiveKind.ALL_GATHER, GIB, stream=0),
        collective(CollectiveKind.REDUCE_SCATTER, GIB, stream=0),
    ]
    rows += [collective(CollectiveKind.ALL_REDUCE, 4 * GIB, stream=0)]
    for server in range(0, RANKS, 16):
        rows.append(transfer(server, server + 8, GIB // 4, stream=0))
    graph = graph_of(rows, EVERYBODY)
    both = [engine.get(name).simulate([Job(graph)], machine()).makespan_ps for name in ("flow", "analytic")]
    assert both[0] == pytest.approx(both[1], rel=0.03)


def test_incast_shares_the_last_link():
    """Seven servers send to one rank: its NIC's link is shared, and the last byte comes when it has carried all."""
    here = machine()
    rows = [transfer(server * 8, 0, GIB) for server in range(1, 8)]
    timeline = engine.get("flow").simulate([Job(graph_of(rows))], here)
    alone = timeline.column("alone_ps").max()
    busiest = (8e12 * timeline.table("links")["bytes"] / here.links.rate_bps).max()
    assert timeline.makespan_ps == pytest.approx(timeline.column("latency_ps").max() + busiest, rel=1e-3)
    assert timeline.makespan_ps > 6 * alone


def test_equal_requests_are_lowered_once():
    rows = [transfer(0, 8, GIB), transfer(0, 8, GIB), transfer(0, 16, GIB), transfer(0, 8, GIB // 2)]
    rows += [collective(CollectiveKind.ALL_REDUCE, GIB)] * 3
    low = lower(graph_of(rows, EVERYBODY), machine())
    assert len(low.entities) == 4
    assert low.entity.tolist() == [1, 1, 2, 3, 0, 0, 0]


def test_what_the_fabric_leaves_out_is_said():
    here = machine("leaf-spine", "roce")
    timeline = engine.get("flow").simulate([Job(graph_of([transfer(0, 8, GIB)]))], here)
    assert set(here.fabric.left_out) <= set(timeline.meta["left_out"])


def test_a_degraded_tier_slows_what_crosses_it():
    here = machine("leaf-spine", "roce")
    graph = graph_of([transfer(0, 8, GIB)])
    fault = DegradeLink(0.5, tier="nic")
    healthy = engine.get("flow").simulate([Job(graph)], here).makespan_ps
    degraded = engine.get("flow").simulate([Job(graph)], here, faults=[fault]).makespan_ps
    assert degraded == pytest.approx(2 * healthy, rel=0.01)


# The engine `analytic`: alone as alone, and beside others as the mean of what meets.

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


# Closed forms of sharing: what a link leaves, and how full hashing makes the fullest of equal links.


def drawn(flows, links, sets, seed=5, draws=3_000):
    random = np.random.default_rng(seed)
    return np.mean([random.multinomial(flows, [1 / links] * links, size=sets).max() for _ in range(draws)])


def every_way(flows, links):
    """The mean maximum over all placements of so many flows on so many links."""
    return np.mean([np.bincount(way, minlength=links).max() for way in product(range(links), repeat=flows)])


@pytest.mark.parametrize(("flows", "links"), [(2, 2), (3, 2), (7, 2), (3, 3), (5, 4), (6, 3)])
def test_few_flows_as_every_placement_of_them(flows, links):
    assert fullest(float(flows), float(links), 1.0) == pytest.approx(every_way(flows, links), rel=0.012)


@pytest.mark.parametrize(
    ("flows", "links", "sets"), [(16, 2, 1), (3, 8, 1), (32, 8, 16), (64, 32, 8), (128, 16, 4), (4, 8, 32), (500, 3, 7)]
)
def test_many_flows_as_drawn(flows, links, sets):
    assert fullest(float(flows), float(links), float(sets)) == pytest.approx(drawn(flows, links, sets), rel=0.02)


def test_two_flows_on_two_links_meet_half_of_the_time():
    assert fullest(2.0, 2.0, 1.0) == pytest.approx(1.5, rel=0.002)


def test_one_link_takes_all_and_one_flow_is_alone():
    assert fullest(np.array([7.0, 1.0, 0.3]), np.array([1.0, 5.0, 5.0]), 9.0).tolist() == pytest.approx([7.0, 1.0, 1.0])


def test_hundreds_of_flows_on_a_link_do_not_underflow():
    assert fullest(40_000.0, 20.0, 1.0) == pytest.approx(drawn(40_000, 20, 1), rel=0.003)


def test_rows_of_any_shape_come_back_in_their_places():
    grid = fullest(np.array([[8.0], [16.0]]), np.array([2.0, 4.0, 2.0]), 1.0)
    assert grid.shape == (2, 3)
    assert (grid[:, 0] == grid[:, 2]).all()
    assert grid[1, 1] == fullest(16.0, 4.0, 1.0)


def test_what_fits_is_not_slowed():
    assert slowdown(np.array([0.61 + 0.39, 1.8])).tolist() == [1.0, 1.8]
