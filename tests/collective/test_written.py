"""Schedules that were made for one network, played by the engines as rings and trees are."""

from __future__ import annotations

import gc
from functools import cache

import numpy as np
import pytest

from railyard import catalog, cluster, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.cluster.fault import DegradeLink, LinkDown
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.collective import ALGORITHMS, Case, CollectivePolicy, machine_of
from railyard.collective.choice import choose_many
from railyard.collective.lowering.paths import shape_of
from railyard.collective.machine import Shape
from railyard.collective.pattern import Schedule, Send
from railyard.collective.synthesis import of_cluster, written
from railyard.collective.synthesis.msccl import msccl_xml
from railyard.collective.synthesis.of_cluster import network_of
from railyard.collective.synthesis.schedule import faults as wrong
from railyard.collective.synthesis.search import synthesize
from railyard.engine.packet.plans import Grain, plan
from railyard.graph import CollectiveKind, Communicators, Job, Kind, Label, TaskGraph
from railyard.work.training.conditions import keeps_of

RANKS = 16
SIZE = 64_000_000
GATHER, REDUCE = CollectiveKind.ALL_GATHER, CollectiveKind.ALL_REDUCE


@cache
def machine(fabric="roce"):
    network = NetworkSpec(topology=cluster.topologies.get("rail-optimized")(), fabric=FabricSpec(fabric))
    return cluster.build(ClusterSpec(accelerators=RANKS, server="hgx-h100", back_end=network), catalog.load())


def alone(kind):
    """One collective of all ranks."""
    none = np.zeros(1, np.int32)
    return TaskGraph(
        ranks=RANKS,
        kind=np.array([Kind.COLLECTIVE], np.uint8),
        rank=none,
        peer=none - 1,
        duration_ps=none.astype(np.int64),
        size_bytes=np.array([SIZE]),
        count=none + 1,
        collective=np.array([kind], np.uint8),
        stream=np.array([2], np.uint8),
        label=none,
        dep_ptr=np.zeros(2, np.int64),
        labels=[Label("gradient", "test", "dp")],
        communicators=Communicators(np.array([0, RANKS]), np.arange(RANKS, dtype=np.int32), ["dp"]),
    )


def took_us(name, kind, on, faults=()):
    word = kind.name.lower().replace("_", "-")
    policy = CollectivePolicy(algorithm={word: name}, protocol={word: "simple"})
    record = engine.get(on).simulate([Job(alone(kind))], machine(), policy=policy, faults=faults)
    return record.end_ps[0] / 1e6, record


RELAYED = Schedule(
    GATHER,
    4,
    4,
    (
        (Send(0, 1, (0,)), Send(1, 0, (1,)), Send(2, 3, (2,)), Send(3, 2, (3,))),
        (Send(1, 3, (0,)), Send(0, 2, (1,)), Send(3, 1, (2,)), Send(2, 0, (3,))),
        (Send(3, 2, (0,)), Send(2, 3, (1,)), Send(1, 0, (2,)), Send(0, 1, (3,))),
    ),
    (0, 1, 2, 3),
)
"""Two domains of two: every chunk goes to the neighbour, over the network from there, and to the neighbour again."""


def test_a_byte_that_is_stored_on_its_journey_by_hand():
    """A quarter of the bytes: scale-up, NIC, scale-up, one after another; the NIC is busy for the middle one alone."""
    shape = Shape.grid(2, 2)
    case = Case(machine_of(machine()), shape, GATHER)
    RELAYED.run()
    network, _ = written._ports(case)
    assert written.fill(RELAYED, case) == pytest.approx(2 * 0.25 / (network.bytes_per_us[0] * 1e6), rel=1e-9)
    steps = written.longest(RELAYED, shape)
    assert (steps.scale_up, steps.scale_out) == (2, 1)


def test_messages_of_an_edge_follow_one_another_and_share_their_ranks_link():
    made = written.make("msccl:test-relayed", "for a test", (GATHER,), lambda *_: RELAYED, lambda *_: None)
    sends = plan(made.name, GATHER, Shape.grid(2, 2), Grain(in_flight=2))
    assert sends.share == pytest.approx(0.25)
    assert sends.lanes == pytest.approx(1.0)  # one neighbour in each domain
    waits = set(zip(sends.dep_rows.tolist(), sends.dep_idx.tolist(), sends.dep_at.tolist(), strict=True))
    # the second message from 0 to 1, number 11, waits for the first, 0, to have left and for chunk 3, number 7
    assert {(11, 0, 0), (11, 7, 1)} <= waits
    assert (4, 0, 1) in waits


@pytest.mark.parametrize("kind", [GATHER, REDUCE])
def test_a_ring_that_is_written_down_is_a_ring(kind):
    shape = shape_of(machine(), np.arange(RANKS, dtype=np.int32))
    ring = ALGORITHMS.get("ring")
    schedule = ring.schedule(kind, shape)
    made = written.make(f"msccl:test-ring-{kind.name}", "for a test", (kind,), lambda *_: schedule, lambda *_: None)
    for on, close in (("flow", 0.12), ("packet", 0.12)):
        own, record = took_us(made.name, kind, on)
        rings, other = took_us("ring", kind, on)
        if on == "flow":
            assert record.table("links")["bytes"] == pytest.approx(other.table("links")["bytes"])
        assert own == pytest.approx(rings, rel=close)


def searched_for(kind, faults=(), most=500):
    here = machine()
    word = kind.name.lower().replace("_", "-")
    keeps = keeps_of(here, faults)
    network = network_of(here, np.arange(RANKS), kind, keeps=keeps)
    found = synthesize(network, word, SIZE, most_sends=most, enough=1.1)
    assert wrong(network, found.schedule, word) == []
    return written.of_text(msccl_xml(network, found.schedule, word, found.cut), "test"), found


DEGRADED = {
    "as it is": (),
    "a NIC at half its rate": (DegradeLink(factor=0.5, cable="server 1 NIC 3 - leaf 3"),),
    "a link lost": (LinkDown(cable="server 1 NIC 3 - leaf 3"),),
}


@pytest.mark.parametrize("state", DEGRADED)
def test_the_engines_reach_what_was_predicted(state):
    """Within a third above the prediction, with what it leaves out: launches, queues, messages that share a NIC.

    Never below the bound. Where a NIC is slow or dead the library's ring waits for it, and the schedule goes around.
    """
    faults = DEGRADED[state]
    made, found = searched_for(GATHER, faults, most=8_000)
    assert found.schedule.finish_us <= 1.3 * found.lower_bound_us
    for on in ("flow", "packet"):
        took, record = took_us(made.name, GATHER, on, faults)
        assert found.lower_bound_us < took <= 1.35 * found.schedule.finish_us
        if state == "a link lost":  # over which a ring would wait for ever
            lost = next(iter(faults[0].effects(ClusterPlaces.of(machine())))).link
            assert on == "packet" or record.table("links")["bytes"][lost].sum() == 0
        else:
            assert took < took_us("ring", GATHER, on, faults)[0]


def test_nobody_chooses_a_schedule_unasked():
    made, _ = searched_for(GATHER)
    shape = shape_of(machine(), np.arange(RANKS, dtype=np.int32))
    chosen = choose_many(GATHER, np.array([6.4e7]), shape, machine_of(machine()), CollectivePolicy(selector="best"))
    assert made.name not in {candidate for candidate, _ in chosen.candidates}


def test_what_was_made_for_one_run_is_unknown_to_the_next():
    """Its name is found while it is kept, by no list, and not at all afterwards."""
    made = written.make("msccl:test-kept", "for a test", (GATHER,), lambda *_: RELAYED, lambda *_: None)
    assert ALGORITHMS.get("msccl:test-kept") is made
    assert written.make("msccl:test-kept", "another", (GATHER,), lambda *_: RELAYED, lambda *_: None) is made
    policy = CollectivePolicy(algorithm={"all-gather": made.name}, written=(made,))
    assert "msccl:test-kept" not in ALGORITHMS.names()
    del made
    gc.collect()
    assert ALGORITHMS.get(policy.algorithm["all-gather"]) is policy.written[0]
    del policy
    gc.collect()
    assert "msccl:test-kept" not in ALGORITHMS


def test_members_of_a_part_of_the_cluster():
    shape = Shape.grid(2, 1)
    assert of_cluster.members_of(machine(), shape).tolist() == [0, 8]
