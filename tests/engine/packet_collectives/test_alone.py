"""What a slice adds to a communication, measured alone: of which ones, how finely, how much it is."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from tests.agreement import yard

from railyard import engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.spec import Background
from railyard.cluster.topology import LeafSpine
from railyard.collective import Shape
from railyard.engine.lowering import lower
from railyard.engine.packet.engine import PacketEngine
from railyard.engine.packet.legs import JOIN, in_turn, legs_of
from railyard.engine.packet.lowering import Lowering, _longest
from railyard.engine.packet.placing import crossing, sent_share
from railyard.engine.packet.plan import GATE, Planner, Slicing, TaskFlows
from railyard.engine.packet.plans import Grain, plan
from railyard.engine.packet.records import AT_SENDER
from railyard.engine.packet.samples import some_tasks
from railyard.engine.packet.slices import IdleNetwork, Measure, measured, repeated
from railyard.graph import CollectiveKind, Job, TaskGraph
from railyard.graph import CollectiveKind as Kind

NONE = np.empty(0, np.int64)
EVEN_PS = (300, 700, 500)
LATENCY_PS, SLOPE_PS = 900, 40


class Bench(IdleNetwork):
    """A network on which a slice of n takes a n-th of the whole, a latency that nothing divides, and what n adds."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, float]] = []
        self.times: dict[int, int] = {}

    def surplus_ps(self, graph: object, task: int, slicing: Slicing, measure: Measure) -> float:
        self.asked.append((task, measure.factor))
        self.times[task] = measure.times
        return super().surplus_ps(graph, task, slicing, measure)

    def _took_ps(self, graph: object, task: int, slicings: list[Slicing]) -> list[tuple[float, float]]:
        whole = 10_000 * (task + 1)
        times = [whole / one.factor + LATENCY_PS + SLOPE_PS * (one.factor - 1) / one.factor for one in slicings]
        return [(took, one.factor * (took - LATENCY_PS)) for took, one in zip(times, slicings, strict=True)]


def block(task: int, size_bytes: int, label: str = "") -> TaskFlows:
    one = np.zeros(1, np.int64)
    return TaskFlows(
        tasks=np.array([task]), rows=1, source=one, target=one, size_bytes=np.array([size_bytes]), delay_ps=one,
        path_key=np.zeros(1, np.uint32), connection=np.zeros(1, np.uint64), klass=0, ptr=np.zeros(2, np.int64),
        before=NONE, at=NONE.astype(np.uint8), last=one, start_ps=0, surplus_ps=-1.0, nic_share=1.0, label=label,
    )  # fmt: skip


def found(blocks: list[TaskFlows], budget_hops: float, slicing: Slicing) -> tuple[list[float], Bench]:
    volume = SimpleNamespace(even_ps=np.array(EVEN_PS))
    lowering = SimpleNamespace(lowered=SimpleNamespace(entity=np.arange(3), entities=volume), graph=None)
    bench = Bench()
    return [one.surplus_ps for one in measured(bench, lowering, blocks, slicing, budget_hops)], bench


SIZE, SLICE = 4096 * 80, Slicing(factor=40.0)
WHOLE = 80 * 40 * 4.5
"""Packet-hops of one whole communication."""
THREE = [block(task, SIZE, label) for task, label in enumerate("abc")]


def test_what_grows_with_the_slice_is_drawn_on_to_the_whole():
    """By slices of 2 and 8, or by the whole: 900 of latency and 39 of the slope, and nothing of the whole's own."""
    for factor in (1.0, 2.0, 13.0):
        surplus = Bench().surplus_ps(None, 0, SLICE, Measure(factor, 5))
        assert surplus == pytest.approx(LATENCY_PS + SLOPE_PS * 39 / 40, rel=1e-9)


@pytest.mark.parametrize(
    ("budget", "factors"),
    [
        (5 * WHOLE, {0: 1.0, 1: 1.0, 2: 1.0}),  # each takes its own, a quarter, and 45 / 40 for slices of 40
        (0.07 * WHOLE, {}),  # no more than a slice of each takes
        # 1 less (3 + 6 + 4) / 40 for slices, by the roots of 300, 700 and 500; a slice of n takes 3/2 of an n-th
        (1 * WHOLE, {0: 8.49, 1: 5.56, 2: 6.57}),
    ],
)
def test_the_budget_goes_to_those_that_count(budget: float, factors: dict[int, float]):
    _, bench = found(THREE, budget, SLICE)
    assert dict(bench.asked) == pytest.approx(factors, rel=0.01)


def test_one_that_gets_half_of_what_it_takes_gets_all():
    """Of two, the other one a hundred times as large: the small one is measured whole."""
    _, bench = found([block(0, SIZE, "a"), block(1, 100 * SIZE, "b")], 24 * WHOLE, SLICE)
    assert dict(bench.asked)[0] == 1
    assert dict(bench.asked)[1] > 1


def test_those_alike_are_measured_once_and_scaled_by_their_bytes():
    surplus, bench = found([block(0, SIZE), block(1, SIZE + SIZE // 50), block(2, 2 * SIZE)], 20 * WHOLE, SLICE)
    assert [task for task, _ in bench.asked] == [0, 2]
    assert surplus[1] == pytest.approx(1.02 * surplus[0], rel=1e-3)


@pytest.mark.parametrize(("slicing", "runs"), [(Slicing(), False), (Slicing(coarser=3.0), True)])
def test_a_run_of_everything_as_it_is_needs_no_measuring(slicing: Slicing, runs: bool):
    _, bench = found(THREE, 1e9, slicing)
    assert bool(bench.asked) == runs


@pytest.mark.parametrize(
    ("sizes", "budget", "times"),
    [
        ((1, 1, 1), 1, {0: 3, 1: 6, 2: 4}),  # a third of 1 is 13.3 slices of 40, by 300, 700 and 500
        (
            (1, 4, 1),
            3,
            {0: 5, 1: 6, 2: 9},
        ),  # 40 slices, of which each of the second counts four: by 300, 700 / 2 and 500
        ((1, 1, 1), 9, {0: 16, 1: 16, 2: 16}),  # no more
        ((1, 1, 1), 0.4, {1: 2, 2: 2}),  # no fewer: the first ones warm senders up
    ],
)
def test_slices_of_what_takes_long_are_measured_most_often(
    sizes: tuple[int, ...], budget: float, times: dict[int, int]
):
    blocks = [block(task, SIZE * size, label) for task, (size, label) in enumerate(zip(sizes, "abc", strict=True))]
    assert found(blocks, budget * WHOLE, SLICE)[1].times == times


def test_a_task_again_and_again():
    graph = TaskGraph.__new__(TaskGraph)
    names = ("kind", "rank", "peer", "duration_ps", "size_bytes", "count", "collective", "stream", "label")
    columns = {name: np.array([1, 0]) for name in names} | {"size_bytes": np.array([7, 9])}
    for name, value in {**columns, "ranks": 2, "labels": (), "communicators": None}.items():
        object.__setattr__(graph, name, value)
    chain = repeated(graph, 1, 3)
    assert chain.size_bytes.tolist() == [9, 9, 9]
    assert (chain.dep_ptr.tolist(), chain.dep_idx.tolist()) == ([0, 0, 1, 2], [0, 1])


def test_the_flows_of_one_of_several_tasks():
    two = TaskFlows(
        tasks=np.array([4, 6]), rows=2, source=np.arange(4), target=np.arange(4) + 10, size_bytes=np.arange(4) + 20,
        delay_ps=np.arange(4) + 30, path_key=np.arange(4, dtype=np.uint32), connection=np.arange(4, dtype=np.uint64),
        klass=0, ptr=np.zeros(3, np.int64), before=NONE, at=NONE.astype(np.uint8), last=np.array([1]), start_ps=0,
        surplus_ps=0, nic_share=1.0, label="",
    )  # fmt: skip
    second = some_tasks(two, np.array([1]))
    assert (second.tasks.tolist(), second.source.tolist(), second.size_bytes.tolist()) == ([6], [2, 3], [22, 23])
    assert (second.delay_ps.tolist(), second.connection.tolist(), second.last.tolist()) == ([32, 33], [2, 3], [1])


# `cluster.background` packet by packet: the load between switches by hand, and what both sides wait for.

PACKETS = PacketEngine(samples=0)
RANKS = 24


def machine(fabric, *background, oversubscription=1.0):
    topology = LeafSpine(ports_per_leaf=8, oversubscription=oversubscription)
    spec = NetworkSpec(topology, FabricSpec(fabric))
    return build(ClusterSpec(RANKS, "hgx-h100", spec, background=background), yard.known())


def exchange(cluster, own=PACKETS, mib=8):
    return own.simulate(
        [Job(yard.graph(RANKS, [yard.collective(Kind.ALL_TO_ALL, mib << 20)], [range(RANKS)]))], cluster
    )


@pytest.mark.parametrize("oversubscription", [1.0, 2.0])
def test_permutations_load_the_links_between_switches_as_written(oversubscription):
    """Of 23 others 16 are on other leafs: 20 and 12.5 % between switches of 1:1 take 32.5 % x 23/16 of every NIC."""
    cluster = machine(
        "uec", Background("back_end", 0.2), Background("back_end", 0.125), oversubscription=oversubscription
    )
    assert sent_share(cluster) == pytest.approx(0.2 + 0.125)
    (one,) = crossing(cluster, 10**9)
    wire_bps = 8 * one.size_bytes / cluster.fabric.payload_efficiency / (one.every_ps * 1e-12)
    assert wire_bps / 400e9 == pytest.approx(0.325 * 23 / 16 / oversubscription, rel=1e-6)
    assert one.ports == RANKS


def test_more_flows_than_are_worth_it_become_larger_ones():
    cluster = machine("uec", Background("back_end", 0.3))
    short, long = (crossing(cluster, span_ps)[0] for span_ps in (10**9, 10**13))
    assert long.size_bytes > short.size_bytes
    assert long.size_bytes / long.every_ps == pytest.approx(short.size_bytes / short.every_ps, rel=1e-6)
    assert 10**13 / long.every_ps * RANKS < 100_001


def test_packets_of_others_are_sent_and_both_sides_shown():
    """30 % between switches are 43 % of a NIC, more than an all-to-all leaves while it waits for busy receivers."""
    quiet = exchange(machine("uec"))
    busy = exchange(machine("uec", Background("back_end", 0.3)))
    assert "background" not in quiet.parts["flows"].tables
    table = busy.parts["flows"].table("background")
    rows = table["row"]
    assert len(rows) % RANKS == 0
    assert busy.makespan_ps > 1.1 * quiet.makespan_ps
    assert (busy.parts["flows"].duration_ps[rows] > 1.1 * table["alone_ps"]).any()
    (nic,) = busy.meta["warnings"]
    assert nic.startswith("cx7-400g does not place packets out of order on Ethernet")


def test_what_is_sent_as_packets_leaves_the_links_their_rate():
    """One transfer across, before the first burst of others: as fast as without them; half would take twice as long."""
    took = []
    for background in ((), (Background("back_end", 0.001),), (Background("back_end", 0.5, "leaf-spine"),)):
        graph = yard.graph(RANKS, [yard.transfer(0, 16, 64 << 10)])
        took.append(PACKETS.simulate([Job(graph)], machine("spectrum-x", *background)).makespan_ps)
    assert took[0] == took[1] == took[2]


@pytest.mark.parametrize(
    ("fabric", "given", "where"),
    [("uec", Background("back_end", 0.3, "nic"), "back_end nic"), ("ideal", Background("back_end", 0.3), "back_end")],
)
def test_what_is_not_sent_is_said_to_be_lost_capacity(fabric, given, where):
    found = exchange(machine(fabric, given), mib=1)
    assert "background" not in found.parts["flows"].tables
    assert any(f"background of 30% on {where} only reduces capacity" in line for line in found.meta["warnings"])


def test_the_flow_engine_warns_of_it():
    for given, told in ((Background("back_end", 0.3), True), (None, False)):
        found = exchange(machine("uec", *([given] if given else [])), engine.get("flow"))
        assert any("`cluster.background`" in one for one in found.meta["warnings"]) == told


# Pieces over one link follow one another; groups are posted before they are sent; what a relay costs.

MEMBERS = np.arange(8)


def ends_ps(legs, work, row):
    """When a leg ends, by the longest way to it."""
    before = legs.edges.before[(legs.edges.after == row) & (legs.edges.before != GATE)]
    return work[row] + max((ends_ps(legs, work, int(other)) for other in before), default=0.0)


@pytest.mark.parametrize(("latency", "chunks", "expected"), [(2.0, 1, [7, 12, 17]), (2.0, 5, [3, 8, 13])])
def test_three_pieces_over_one_link(latency, chunks, expected):
    """5 ps a piece: each begins when the one before has left, and is passed on when its first chunk has come."""
    planner = Planner()
    ids = planner.sends(0, 1, np.full(3, 1 / 3))
    planner.wait(ids[1:], ids[:-1], at=AT_SENDER)
    legs = legs_of(yard.machine(64), planner.build(), MEMBERS, pxn=True)
    moving = np.full(3, 5.0)
    found, work, origin = in_turn(legs, np.ones(3, np.bool_), moving, latency + moving / chunks)
    assert [ends_ps(found, work, row) for row in range(3)] == expected
    assert origin.tolist() == [0, 1, 2, 0, 1]
    assert _longest(found, work) == max(expected)


def test_pieces_of_a_tree_inside_a_domain_wait_for_one_another():
    shape = Shape.grid(2, 8)
    sends = plan("nvls-tree", CollectiveKind.ALL_REDUCE, shape, Grain(pieces=4))
    into = sends.target < 0
    waits = (sends.edges.at == AT_SENDER) & into[sends.edges.after]
    # 16 ranks send to their switch twice, 4 pieces each, all but the first of which wait
    assert into.sum() == 16 * 2 * 4
    assert waits.sum() == 16 * 2 * 3


@pytest.mark.parametrize(("name", "posted"), [("pairwise", [31]), ("hierarchical-all-to-all", [7, 3])])
def test_groups_are_posted_before_anything_is_sent(name, posted):
    """31 peers at once; or 7 of the domain, then 3 on the rail."""
    sends = plan(name, CollectiveKind.ALL_TO_ALL, Shape.grid(4, 8), Grain())
    joins = np.flatnonzero(sends.steps == 0)
    assert sorted(set(sends.posted[joins].tolist()) - {0.0}) == sorted(float(one) for one in posted)
    assert not sends.posted[sends.steps > 0].any()
    groups = np.flatnonzero(sends.posted > 0)
    started = np.isin(np.arange(len(sends)), sends.edges.after[np.isin(sends.edges.before, groups)])
    assert started[sends.steps > 0].all()


def test_a_pass_through_a_domain_s_switch_is_counted_once():
    """NCCL's 25 us stand for the sum and the multicast of an all-reduce: four ways to and from the switch."""
    cluster = yard.machine(64, "ideal", LeafSpine())
    policy = yard.forced(CollectiveKind.ALL_REDUCE, "nvls-tree")
    graph = yard.graph(64, [yard.collective(CollectiveKind.ALL_REDUCE, 1 << 12)], [np.arange(64)])
    lowering = Lowering(graph, cluster, lower(graph, cluster, policy), policy, graph.duration_ps)
    assert 4 * lowering.classes[0].tempo.pass_ps == pytest.approx(25e6)


def test_a_relay_costs_what_scale_up_is_slower_than_the_nic():
    """A send to another rail alone: NVLink is faster than the NIC, so that the way to the peer is hidden."""
    cluster = yard.machine(64, "ideal", LeafSpine())
    took = []
    for target in (8, 9):  # the same rail, the next one
        graph = yard.graph(64, [yard.transfer(0, target, 1 << 22)])
        took.append(engine.get("packet").simulate([Job(graph)], cluster).makespan_ps)
    assert took[1] == pytest.approx(took[0], rel=1e-3)


def test_joins_move_nothing():
    planner = Planner()
    planner.joins([0, 1], posted=3)
    legs = legs_of(yard.machine(64), planner.build(), MEMBERS, pxn=True)
    assert (legs.kind == JOIN).all()
    assert not legs.share.any()
