"""Schedules that were made for one network, played by the engines as rings and trees are."""

from __future__ import annotations

import gc
import json
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard import catalog, cluster, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.cluster.fault import DegradeLink, LinkDown
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.collective import ALGORITHMS, Case, CollectivePolicy, machine_of
from railyard.collective.algorithm import Schedule, Send
from railyard.collective.choice import choose_many
from railyard.collective.lowering.paths import shape_of
from railyard.collective.machine import Shape
from railyard.collective.synthesis import of_cluster, written
from railyard.collective.synthesis.collectives import ScheduleRequest, collectives
from railyard.collective.synthesis.msccl import messages, msccl_xml
from railyard.collective.synthesis.msccl_run import faults
from railyard.collective.synthesis.mscclpp import faults as plan_faults
from railyard.collective.synthesis.mscclpp import mscclpp_json
from railyard.collective.synthesis.network import build
from railyard.collective.synthesis.of_cluster import network_of
from railyard.collective.synthesis.schedule import faults as wrong
from railyard.collective.synthesis.search import synthesize
from railyard.engine.packet.plans import Grain, plan
from railyard.face.cli import guard
from railyard.graph import CollectiveKind, Communicators, Job, Kind, Label, Stream, TaskGraph
from railyard.work.training.prepare import keeps_of

RANKS = 16
SIZE = 64_000_000
GATHER, REDUCE = CollectiveKind.ALL_GATHER, CollectiveKind.ALL_REDUCE


@cache
def machine(fabric="roce"):
    network = NetworkSpec(topology=cluster.topologies.get("rail-optimized")(), fabric=FabricSpec(fabric))
    return cluster.build(ClusterSpec(accelerators=RANKS, server="hgx-h100", back_end=network), catalog.load())


def alone(kind):
    """One collective of all ranks."""
    return TaskGraph.of(
        RANKS,
        kind=Kind.COLLECTIVE,
        size_bytes=SIZE,
        collective=kind,
        stream=Stream.GRADIENT,
        labels=[Label("gradient", "test", "dp")],
        communicators=Communicators.of([range(RANKS)], "dp"),
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
    waits = set(zip(*(column.tolist() for column in sends.edges), strict=True))
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


# Schedules as MSCCL algorithms: what is written runs to the right end, and a wrong file is found.


def both(pairs):
    return [(a, b, rate, 1.0) for one, other, rate in pairs for a, b in ((one, other), (other, one))]


RING = build(both([(at, (at + 1) % 5, 2.0) for at in range(5)]), [])
STAR = build(both([(at, 4, 1.0) for at in range(4)]), [4])
"""Four ranks at one switch."""


def text(network, collective, cut=2):
    schedule = collectives.get(collective)(ScheduleRequest(network, 1e6, cut, 0.3))
    return msccl_xml(network, schedule, collective, cut)


@pytest.mark.parametrize("collective", list(collectives))
@pytest.mark.parametrize("cut", [1, 3])
def test_what_is_written_ends_as_the_collective_promises(collective, cut):
    found = text(RING, collective, cut)
    assert faults(found) == []
    algo = ElementTree.fromstring(found)
    assert (algo.attrib["ngpus"], algo.attrib["nchunksperloop"]) == ("5", str(5 * cut))
    for block in algo.iter("tb"):
        assert block.attrib["send"] == "-1" or block.attrib["recv"] == "-1"


@pytest.mark.parametrize("collective", ["all-gather", "all-to-all"])
def test_switches_are_passed_from_rank_to_rank(collective):
    found = text(STAR, collective)
    assert faults(found) == []
    assert len(list(ElementTree.fromstring(found))) == 4
    schedule = collectives.get("all-gather")(ScheduleRequest(STAR, 1e6, 1, 0.3))
    sent = messages(STAR, schedule)
    assert sorted((one.source, one.target) for one in sent) == [(a, b) for a in range(4) for b in range(4) if a != b]
    assert all(one.after == () for one in sent)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(3, 6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=5),
    st.sampled_from(list(collectives)),
)
def test_any_network_of_ranks(ranks, more, collective):
    pairs = {(at, (at + 1) % ranks) for at in range(ranks)} | {
        (min(a, b), max(a, b)) for a, b in more if a != b and max(a, b) < ranks
    }
    network = build(both([(a, b, 1.0) for a, b in sorted(pairs) if (b, a) not in pairs or a < b]), [])
    assert faults(text(network, collective)) == []


def test_a_file_that_was_changed_is_found():
    algo = ElementTree.fromstring(text(RING, "all-reduce"))
    step = next(one for one in algo.iter("step") if one.attrib["type"] == "rrc")
    step.attrib["type"] = "r"
    assert faults(ElementTree.tostring(algo, encoding="unicode"))
    algo = ElementTree.fromstring(text(RING, "all-gather"))
    next(iter(algo.iter("tb"))).attrib["send"] = "3"
    assert faults(ElementTree.tostring(algo, encoding="unicode"))


def test_the_command_writes_it(tmp_path):
    links, out = tmp_path / "links.csv", tmp_path / "ring.xml"
    rows = [f"{a},{b},12.5,0.7" for at in range(4) for a, b in ((at, (at + 1) % 4), ((at + 1) % 4, at))]
    links.write_text("\n".join(["source,destination,gb_per_s,latency_us", *rows]) + "\n")
    assert guard.run(["synthesize", "--links", str(links), "--msccl", str(out), "--quiet", "--json"]) == 0
    assert faults(out.read_text()) == []


# Schedules as execution plans of MSCCL++: what is written runs to the right end, and a wrong plan is found.

MSCCLPP_RING = build(both([(at, (at + 1) % 5, 2.0) for at in range(5)]), [])
MSCCLPP_STAR = build(both([(at, 4, 1.0) for at in range(4)]), [4])


def mscclpp_text(network, collective, cut=2):
    schedule = collectives.get(collective)(ScheduleRequest(network, 1e6, cut, 0.3))
    return mscclpp_json(network, schedule, collective, cut)


@pytest.mark.parametrize("network", [MSCCLPP_RING, MSCCLPP_STAR])
@pytest.mark.parametrize("collective", list(collectives))
@pytest.mark.parametrize("cut", [1, 3])
def test_mscclpp_what_is_written_ends_as_the_collective_promises(network, collective, cut):
    assert plan_faults(mscclpp_text(network, collective, cut)) == []


def test_two_ranks_by_hand():
    """Rank 0 waits until 1 has begun, puts its part at the same place of 1's output, signals; and the same back."""
    plan = json.loads(mscclpp_text(build(both([(0, 1, 1.0)]), []), "all-gather", 1))
    zero = plan["gpus"][0]
    send = next(block for block in zero["threadblocks"] if any(op["name"] == "put" for op in block["ops"]))
    assert [op["name"] for op in send["ops"]] == ["wait", "nop", "put", "nop", "signal", "flush"]
    put = send["ops"][2]
    assert put["src_buff"] == [{"type": "o", "index": 0, "size": 1}]
    assert put["dst_buff"] == [{"buffer_id": 0, "index": 0, "size": 1}]
    assert zero["remote_buffers"] == [{"rank": 1, "type": "o", "access_channel_types": ["port"]}]
    assert (zero["input_chunks"], zero["output_chunks"], zero["scratch_chunks"]) == (1, 2, 0)
    assert [gpu["channels"][0]["connected_to"] for gpu in plan["gpus"]] == [[1, 1], [0, 0]]


@settings(max_examples=20, deadline=None)
@given(
    st.integers(3, 6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=5),
    st.sampled_from(list(collectives)),
)
def test_mscclpp_any_network_of_ranks(ranks, more, collective):
    pairs = {(at, (at + 1) % ranks) for at in range(ranks)} | {
        (min(a, b), max(a, b)) for a, b in more if a != b and max(a, b) < ranks
    }
    network = build(both([(a, b, 1.0) for a, b in sorted(pairs) if (b, a) not in pairs or a < b]), [])
    assert plan_faults(mscclpp_text(network, collective)) == []


def changed(collective, change):
    plan = json.loads(mscclpp_text(MSCCLPP_RING, collective))
    change(plan)
    return plan_faults(json.dumps(plan))


def blocks(plan):
    return [block for gpu in plan["gpus"] for block in gpu["threadblocks"]]


def drop(name):
    def change(plan):
        block = next(one for one in blocks(plan) if any(op["name"] == name for op in one["ops"]))
        block["ops"].remove(next(op for op in block["ops"] if op["name"] == name))

    return change


@pytest.mark.parametrize("name", ["put", "re", "wait", "signal", "sem_release"])
def test_a_plan_that_lacks_an_operation_is_found(name):
    assert changed("all-reduce", drop(name))


def test_what_is_added_twice_or_put_elsewhere_is_found():
    def twice(plan):
        block = next(one for one in blocks(plan) if any(op["name"] == "re" for op in one["ops"]))
        block["ops"].append(next(op for op in block["ops"] if op["name"] == "re"))

    def elsewhere(plan):
        put = next(op for block in blocks(plan) for op in block["ops"] if op["name"] == "put")
        put["dst_buff"][0]["index"] += 1

    assert any("twice" in fault for fault in changed("all-reduce", twice))
    assert changed("all-gather", elsewhere)


def test_mscclpp_the_command_writes_it(tmp_path):
    links, out = tmp_path / "links.csv", tmp_path / "ring.json"
    rows = [f"{a},{b},12.5,0.7" for at in range(4) for a, b in ((at, (at + 1) % 4), ((at + 1) % 4, at))]
    links.write_text("\n".join(["source,destination,gb_per_s,latency_us", *rows]) + "\n")
    assert guard.run(["synthesize", "--links", str(links), "--mscclpp", str(out), "--quiet", "--json"]) == 0
    assert plan_faults(out.read_text()) == []
