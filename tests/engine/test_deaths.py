"""Dead links in the flow engine: until when traffic stands still, by which paths it goes on, what hangs."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import catalog, cluster, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.cluster.fault import DegradeLink, HostDown, LinkDown, NicDown, SwitchDown
from railyard.cluster.topology import DualPlane, LeafSpine
from railyard.collective import CollectivePolicy
from railyard.graph import Job, Kind, Label, TaskGraph
from railyard.kit.errors import Hung, InputError

MS = 10**9
LOADED = catalog.load()
PLANES = DualPlane(inner=LeafSpine(ports_per_leaf=8))
FLAT = LeafSpine(ports_per_leaf=8, spines=4)


def machine(fabric="roce", topology=PLANES, **overrides):
    network = NetworkSpec(topology, FabricSpec(fabric, overrides))
    return cluster.build(ClusterSpec(32, "hgx-h100", network), LOADED)


def transfers(pairs, size_bytes=10**9):
    """One transfer for each pair, all at once."""
    source, target = np.array(pairs, np.int32).T
    count = len(pairs)
    graph = TaskGraph(
        ranks=32,
        kind=np.full(count, Kind.TRANSFER, np.uint8),
        rank=source,
        peer=target,
        duration_ps=np.zeros(count, np.int64),
        size_bytes=np.full(count, size_bytes, np.int64),
        count=np.ones(count, np.int32),
        collective=np.zeros(count, np.uint8),
        stream=np.full(count, 12, np.uint8),
        label=np.zeros(count, np.uint16),
        dep_ptr=np.zeros(count + 1, np.int64),
        labels=(Label("step", "send"),),
    )
    return [Job(graph)]


def play(machine, pairs, *faults, size_bytes=10**9):
    one = CollectivePolicy(connections=1)  # else a transfer has parts on both planes
    return engine.get("flow").simulate(transfers(pairs, size_bytes), machine, faults=faults, policy=one)


def test_traffic_stands_still_until_the_first_try_after_routes_know():
    """7 ms until routes know, tries every 3 ms: 9 ms after the death at 2 ms it goes on, at the same rate."""
    here = machine(reroute_ps=7 * MS, retransmit_ps=3 * MS, qps=1)
    well = play(here, [(0, 8)])
    used = int(np.flatnonzero(well.table("links")["bytes"])[0])
    plane = 0 if used < here.back_end.link_offset + here.back_end.wiring.links // 2 else 1
    dead = play(here, [(0, 8)], SwitchDown(f"plane {plane} leaf 0", at_ps=2 * MS))
    assert int(dead.end_ps[0] - well.end_ps[0]) == pytest.approx(9 * MS, abs=2)
    other = play(here, [(0, 8)], SwitchDown(f"plane {1 - plane} leaf 0", at_ps=2 * MS))
    assert other.end_ps[0] == well.end_ps[0]
    moved, whole = dead.table("links")["bytes"], well.table("links")["bytes"][used]
    assert 0 < moved[used] < whole
    assert np.sort(moved[moved > 0])[0] + np.sort(moved)[-1] == pytest.approx(whole)


def test_what_is_dead_before_the_run_is_known_to_routes():
    """As in the engine `packet`: a flow that is hashed anew from the start never stands still."""
    here = machine(reroute_ps=7 * MS, retransmit_ps=3 * MS, qps=1)
    well = play(here, [(0, 8)])
    for plane in (0, 1):
        dead = play(here, [(0, 8)], SwitchDown(f"plane {plane} leaf 0"))
        assert dead.end_ps[0] == well.end_ps[0]


def test_queue_pairs_of_a_message_wait_for_those_that_stand_still_and_share_what_is_left():
    """Three of four queue pairs are hashed onto plane 0, whose link they fill: 4/3 of the time where all share a plane.

    At 2 ms a leaf dies, at 11 ms they go on, all four on the plane that is left, with 4/3 of what was left in time.
    """
    here = machine(reroute_ps=7 * MS, retransmit_ps=3 * MS)
    well = play(here, [(0, 8)])
    nic = well.table("links")["bytes"][here.links.of_tier("nic")]
    assert np.sort(nic)[-4:] / nic.sum() * 2 == pytest.approx([0.25, 0.25, 0.75, 0.75])
    for plane in (0, 1):
        known = play(here, [(0, 8)], SwitchDown(f"plane {plane} leaf 0"))
        assert known.end_ps[0] == pytest.approx(well.end_ps[0] * 4 / 3, rel=1e-3)
        dead = play(here, [(0, 8)], SwitchDown(f"plane {plane} leaf 0", at_ps=2 * MS))
        assert dead.end_ps[0] == pytest.approx(11 * MS + (well.end_ps[0] - 2 * MS) * 4 / 3, rel=1e-3)


def test_bytes_are_conserved_over_a_reroute():
    here = machine(reroute_ps=MS, retransmit_ps=0)
    pairs = [(rank, (rank + 8) % 32) for rank in range(32)]
    well = play(here, pairs).table("links")["bytes"]
    dead = play(here, pairs, SwitchDown("plane 0 spine 0", at_ps=2 * MS)).table("links")["bytes"]
    nics = here.links.of_tier("nic")
    assert dead[nics].sum() == pytest.approx(well[nics].sum(), rel=1e-9)


def test_a_sprayed_fabric_stops_and_then_has_what_is_left_of_its_links():
    """One of four spines: 1 ms without anything, then 3 / 4 of the uplinks; 8 NICs of a leaf on 8 links up."""
    here = machine("uec", FLAT, reroute_ps=MS)
    pairs = [(rank, rank + 16) for rank in range(8)]
    well, dead = play(here, pairs), play(here, pairs, SwitchDown("spine 0", at_ps=2 * MS))
    assert here.back_end.bundles is not None
    rest_ps = int(well.end_ps.max()) - 2 * MS
    assert int(dead.end_ps.max()) == pytest.approx(3 * MS + rest_ps * 4 / 3, abs=10)


def test_what_is_back_before_routes_know_goes_on_by_itself():
    here = machine(reroute_ps=70 * MS, retransmit_ps=3 * MS)
    well = play(here, [(0, 8)])
    dead = play(here, [(0, 8)], NicDown(0, 0, at_ps=2 * MS, for_ps=4 * MS))
    assert int(dead.end_ps[0] - well.end_ps[0]) == pytest.approx(6 * MS, abs=2)


def test_what_flaps_stalls_each_time():
    here = machine(reroute_ps=70 * MS, retransmit_ps=0)
    well = play(here, [(0, 8)])
    dead = play(here, [(0, 8)], NicDown(0, 0, at_ps=2 * MS, for_ps=MS, every_ps=3 * MS, times=4))
    assert int(dead.end_ps[0] - well.end_ps[0]) == pytest.approx(4 * MS, abs=5)


def test_a_dead_nic_hangs_what_needs_it_and_says_since_when():
    with pytest.raises(Hung) as caught:
        play(machine(), [(0, 8), (1, 9)], NicDown(1, 0, at_ps=2 * MS))
    assert caught.value.since_ps == 2 * MS
    assert "rank 0" in caught.value.what
    assert play(machine(), [(1, 9)], NicDown(1, 0, at_ps=2 * MS)).end_ps[0] > 0


def test_flows_that_share_nothing_with_the_dead_keep_their_times_to_the_last_digit():
    here = machine(topology=FLAT)
    pairs = [(rank, rank + 16) for rank in range(16)]
    well = play(here, pairs)
    cable = "server 0 NIC 5 - leaf 0"
    dead = play(here, pairs, LinkDown(cable, at_ps=2 * MS, for_ps=MS))
    same = dead.end_ps == well.end_ps
    assert same.sum() >= 8
    assert not same[5]


@pytest.mark.parametrize(
    ("fault", "key", "hint"),
    [
        (SwitchDown("leaf 9"), "faults.0.switch", None),
        (SwitchDown("plane 0 laef 1"), "faults.0.switch", "plane 0 leaf 1"),
        (SwitchDown("server 0 NIC 1"), "faults.0.switch", None),
        (LinkDown("plane 0 leaf 0 - plane 1 spine 0"), "faults.0.cable", None),
        (LinkDown("plane 0 leaf 0"), "faults.0.cable", None),
        (NicDown(4, 0), "faults.0.host", None),
        (NicDown(0, 8), "faults.0.nic", None),
        (NicDown(0, 0, port=2), "faults.0.port", None),
        (HostDown(17), "faults.0.host", None),
        (DegradeLink(0.5, cable="plane 0 leaf 0 - leaf 1"), "faults.0.cable", None),
    ],
)
def test_a_place_that_is_not_there_is_named_with_the_nearest(fault, key, hint):
    with pytest.raises(InputError) as caught:
        play(machine(), [(0, 8)], fault)
    problem = caught.value.problems[0]
    assert problem.key == key
    if hint is not None:
        assert hint in problem.hint
