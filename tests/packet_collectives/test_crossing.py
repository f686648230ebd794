"""`cluster.background` packet by packet: the load between switches by hand, and what both sides wait for."""

from __future__ import annotations

import pytest
from tests.agreement import yard

from railyard import engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.spec import Background
from railyard.cluster.topology import LeafSpine
from railyard.engine.packet.engine import PacketEngine
from railyard.engine.packet.placing import crossing, sent_share
from railyard.graph import CollectiveKind as Kind
from railyard.graph import Job

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
    assert not busy.meta["warnings"]


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
    assert f"background of 30% on {where} is capacity that is not there" in found.meta["warnings"][0]


def test_the_flow_engine_warns_of_it():
    for given, told in ((Background("back_end", 0.3), True), (None, False)):
        found = exchange(machine("uec", *([given] if given else [])), engine.get("flow"))
        assert any("`cluster.background`" in one for one in found.meta["warnings"]) == told
