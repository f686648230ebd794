"""Schedules as execution plans of MSCCL++: what is written runs to the right end, and a wrong plan is found."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.collective.synthesis.collectives import Ask, collectives
from railyard.collective.synthesis.mscclpp import mscclpp_json
from railyard.collective.synthesis.mscclpp_run import faults
from railyard.collective.synthesis.network import build
from railyard.face.cli import guard


def both(pairs):
    return [(a, b, rate, 1.0) for one, other, rate in pairs for a, b in ((one, other), (other, one))]


RING = build(both([(at, (at + 1) % 5, 2.0) for at in range(5)]), [])
STAR = build(both([(at, 4, 1.0) for at in range(4)]), [4])


def text(network, collective, cut=2):
    schedule = collectives.get(collective)(Ask(network, 1e6, cut, 0.3))
    return mscclpp_json(network, schedule, collective, cut)


@pytest.mark.parametrize("network", [RING, STAR])
@pytest.mark.parametrize("collective", list(collectives))
@pytest.mark.parametrize("cut", [1, 3])
def test_what_is_written_ends_as_the_collective_promises(network, collective, cut):
    assert faults(text(network, collective, cut)) == []


def test_two_ranks_by_hand():
    """Rank 0 waits until 1 has begun, puts its part at the same place of 1's output, signals; and the same back."""
    plan = json.loads(text(build(both([(0, 1, 1.0)]), []), "all-gather", 1))
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
def test_any_network_of_ranks(ranks, more, collective):
    pairs = {(at, (at + 1) % ranks) for at in range(ranks)} | {
        (min(a, b), max(a, b)) for a, b in more if a != b and max(a, b) < ranks
    }
    network = build(both([(a, b, 1.0) for a, b in sorted(pairs) if (b, a) not in pairs or a < b]), [])
    assert faults(text(network, collective)) == []


def changed(collective, change):
    plan = json.loads(text(RING, collective))
    change(plan)
    return faults(json.dumps(plan))


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


def test_the_command_writes_it(tmp_path):
    links, out = tmp_path / "links.csv", tmp_path / "ring.json"
    rows = [f"{a},{b},12.5,0.7" for at in range(4) for a, b in ((at, (at + 1) % 4), ((at + 1) % 4, at))]
    links.write_text("\n".join(["source,destination,gb_per_s,latency_us", *rows]) + "\n")
    assert guard.run(["synthesize", "--links", str(links), "--mscclpp", str(out), "--quiet", "--json"]) == 0
    assert faults(out.read_text()) == []
