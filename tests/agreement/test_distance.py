"""Two sites from 1 to 1,000 km apart: flow and packet engine within 10 %, and what credits, slots and pauses leave."""

from __future__ import annotations

import numpy as np
import pytest
from tests.agreement import yard

from railyard import engine
from railyard.cluster import notes_of
from railyard.cluster.reach import headroom_bytes
from railyard.cluster.topology import LeafSpine, MultiSite
from railyard.collective import CollectivePolicy
from railyard.engine.background import Bursts, Flows, _entities, until
from railyard.engine.packet.engine import PacketEngine
from railyard.graph import CollectiveKind as Kind
from railyard.graph import Job

PACKETS = PacketEngine(samples=0)
ALL = tuple(range(16))
KM = (1, 10, 80, 1000)


def sites(fabric, km, *, links=None, overrides=(), **network):
    topology = MultiSite(sites=2, distance_m=1e3 * km, links=links, oversubscription=1.0, inner=LeafSpine())
    return yard.machine(16, fabric, topology, overrides=overrides, **network)


def milliseconds(own, cluster, case):
    kind, algorithm, size, members = case
    graph = yard.graph(16, [yard.collective(kind, size)], [members])
    protocol = {"all-gather": "simple"}  # two steps in flight; of LL128's eight packets lose up to 23 % at 10 km
    policy = CollectivePolicy(algorithm={yard.word(kind): algorithm}, protocol=protocol)
    return own.simulate([Job(graph)], cluster, policy=policy).makespan_ps / 1e9


EXCHANGE, TURN, GATHER = (
    (Kind.ALL_TO_ALL, "pairwise", 64 * yard.MIB, ALL),
    (Kind.ALL_REDUCE, "ring", 64 * yard.MIB, ALL),
    (Kind.ALL_GATHER, "ring", 256 * yard.MIB, ALL),
)
CASES = [
    *(
        (fabric, case)
        for fabric in ("infiniband", "spectrum-x", "uec", "scheduled")
        for case in (EXCHANGE, TURN, GATHER)
    ),
    ("roce", (Kind.ALL_TO_ALL, "pairwise", 64 * yard.MIB, (0, 8))),  # one flow a NIC: with more, hashes decide
]


@pytest.mark.parametrize("km", KM)
@pytest.mark.parametrize(("fabric", "case"), CASES)
def test_engines_agree_at_every_distance(fabric, case, km):
    cluster = sites(fabric, km)
    flow, packet = (milliseconds(own, cluster, case) for own in (engine.get("flow"), PACKETS))
    assert packet == pytest.approx(flow, rel=0.1)


def test_an_exchange_is_no_faster_than_light():
    """Four servers on two sites: half of the next ones are near, and the data waits for the far ones all the same."""
    topology = MultiSite(sites=2, distance_m=1e6, oversubscription=1.0, inner=LeafSpine())
    graph = yard.graph(32, [yard.collective(Kind.ALL_TO_ALL, 4096)], [np.arange(32)])
    policy = CollectivePolicy(algorithm={"all-to-all": "pairwise"})
    line = engine.get("flow").simulate([Job(graph)], yard.machine(32, "uec", topology), policy=policy)
    assert line.makespan_ps / 1e9 > 1e6 * 1.468 / 299_792_458 * 1e3


@pytest.mark.parametrize(("km", "gbps"), [(10, 8.887), (80, 1.117), (1000, 0.08942)])
def test_a_lane_s_credits_by_hand(km, gbps):
    """128 KiB less 16 KiB, told of late, over 2 x (5.13 us a km + 0.35 us)."""
    links = sites("infiniband", km).links
    assert links.rate_bps[links.of_tier("inter-site")] / 1e9 == pytest.approx(gbps, rel=1e-3)


def test_credits_do_not_grow_with_the_rate_but_with_the_latency():
    links = sites("infiniband", 80).links
    faster = links.scaled(np.full(len(links), 2.0), latency=0.5)
    long_links = links.of_tier("inter-site")
    assert faster.rate_bps[long_links] == pytest.approx(2 * links.rate_bps[long_links])
    assert links.scaled(np.full(len(links), 2.0)).rate_bps[long_links] == pytest.approx(links.rate_bps[long_links])
    assert links.degraded(long_links, 0.25)[long_links] == pytest.approx(links.rate_bps[long_links])


@pytest.mark.parametrize(("km", "share"), [(20, 1.0), (40, 1.0), (120, 1 / 3)])
def test_boxes_for_long_links_hold_the_credits_of_their_reach(km, share):
    """MetroX: 40 km at 100 Gb/s; beyond, what 40 km hold goes over the longer round trip."""
    cluster = sites("infiniband", km, links=2, border_switch="MetroX-3")
    links = cluster.links
    assert links.reach_bps[links.of_tier("inter-site")].min() / 100e9 == pytest.approx(share, rel=0.005)
    flow, packet = (milliseconds(own, cluster, EXCHANGE) for own in (engine.get("flow"), PACKETS))
    assert packet == pytest.approx(flow, rel=0.1)


def test_slots_of_the_library_bound_a_ring_by_hand():
    """1,000 km: 30 steps of 4 MiB twice round, two of them on the way: 30 round trips less the last way back."""
    one_way_ms = 1000e3 * 5.13e-6 + 0.006
    took = milliseconds(engine.get("flow"), sites("uec", 1000), (Kind.ALL_REDUCE, "ring", yard.GIB, ALL))
    assert took == pytest.approx(59 * one_way_ms, rel=0.01)


def test_a_credit_of_a_scheduled_fabric_goes_there_and_back_first():
    ports = sites("scheduled", 80).back_end.port_of_rank[:, 0]
    near, far = (sites("scheduled", km).back_end.path_latency_ps(ports[[0]], ports[[8]])[0] for km in (1, 80))
    assert far - near == pytest.approx(3 * 79e3 * 5130, rel=1e-6)


def test_headroom_grows_with_distance():
    """800 Gb/s over 80 km: 82.08 MB fly, beside three frames and a pause."""
    assert headroom_bytes(800e9, 80_000.0) == 82_080_000 + 3 * 9216 + 64
    plan = sites("roce", 80).plans["back_end"]
    assert plan.headroom_needed_bytes == headroom_bytes(800e9, 80_000.0)
    assert plan.headroom_left_bytes == 173_000_000 // 2 // 4  # four long links share half of Tomahawk 5's buffer


@pytest.mark.parametrize(("km", "links", "times"), [(100, 4, 1.234), (300, 2, 1.385), (1000, 4, 3.902)])
def test_incasts_beyond_too_little_headroom_are_sent_again(km, links, times):
    """1 + (needed / had - 1) / 16: 102.6, 307.8 and 1,026 MB needed, 21.6 or 43.3 had; none on `spectrum-x`."""
    plan = sites("roce", km, links=links).plans["back_end"]
    assert 1 / plan.crowded_share == pytest.approx(times, rel=2e-3)
    assert sites("roce", km, links=links, border_switch="7800R4").plans["back_end"].crowded_share == 1
    assert sites("spectrum-x", km, links=links).plans["back_end"].crowded_share == 1


def test_an_incast_of_another_site_takes_so_many_times_as_long_in_flow():
    burst = Bursts("incast", 8, 8_000_000, 10**9)
    both = [sites("roce", 1000, links=4, border_switch=border) for border in (None, "7800R4")]
    bursts = [tuple(until(cluster, (burst,), 1)) for cluster in both]
    short, full = (_entities(cluster, Flows.of(one)) for cluster, one in zip(both, bursts, strict=True))
    moving = [entities.even_ps - entities.latency_ps for entities in (short, full)]
    assert (moving[0] / moving[1]).max() == pytest.approx(3.902, rel=0.01)
    assert (moving[0] / moving[1]).min() == pytest.approx(1.0, rel=0.01)  # those of the receiver's site


def test_warnings_say_what_distance_takes():
    assert "credits leave 1.12 of 400 Gb/s" in " ".join(notes_of(sites("infiniband", 80)))
    assert "82.1 MB of headroom, tomahawk-5 leaves it 21.6 MB" in " ".join(notes_of(sites("roce", 80)))
    assert not list(notes_of(sites("roce", 80, border_switch="7800R4")))
    assert not list(notes_of(sites("uec", 80)))
    assert "not priced" in " ".join(notes_of(sites("uec", 5000)))
