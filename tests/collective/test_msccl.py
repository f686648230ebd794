"""Schedules as MSCCL algorithms: what is written runs to the right end, and a wrong file is found."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.collective.synthesis.collectives import Ask, collectives
from railyard.collective.synthesis.msccl import messages, msccl_xml
from railyard.collective.synthesis.msccl_run import faults
from railyard.collective.synthesis.network import build
from railyard.face.cli import guard


def both(pairs):
    return [(a, b, rate, 1.0) for one, other, rate in pairs for a, b in ((one, other), (other, one))]


RING = build(both([(at, (at + 1) % 5, 2.0) for at in range(5)]), [])
STAR = build(both([(at, 4, 1.0) for at in range(4)]), [4])
"""Four ranks at one switch."""


def text(network, collective, cut=2):
    schedule = collectives.get(collective)(Ask(network, 1e6, cut, 0.3))
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
    schedule = collectives.get("all-gather")(Ask(STAR, 1e6, 1, 0.3))
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
