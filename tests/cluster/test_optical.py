"""Leafs and servers joined by optical circuits: which, over how many hops, the bill, a reconfiguration."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from railyard import engine
from railyard.catalog import load
from railyard.cluster.bill import bill_of
from railyard.cluster.build import build
from railyard.cluster.fabric.fabric import FabricSpec
from railyard.cluster.fault.kinds import NicDown, Reconfiguration
from railyard.cluster.notes import notes_of
from railyard.cluster.spec import ClusterSpec, NetworkSpec
from railyard.cluster.topology import Dragonfly, DualPlane, LeafSpine
from railyard.cluster.topology.optical import Optical, _hops
from railyard.graph import CollectiveKind, Communicators, Job, Kind, Label, TaskGraph
from railyard.kit.errors import InputError

MS = 10**9


def sent(ranks, peer):
    """A send of 1 MiB from rank 0."""
    return TaskGraph.of(
        ranks,
        kind=np.array([Kind.TRANSFER]),
        rank=np.zeros(1, np.int64),
        peer=np.array([peer]),
        size_bytes=np.array([1 << 20]),
        stream=np.array([3]),
        labels=[Label("send", "test", "pp")],
    )


def cluster(leafs, circuits="mesh", ports=16, **given):
    topology = Optical(circuits, ports_per_leaf=ports, **given)
    spec = NetworkSpec(topology=topology, fabric=FabricSpec("uec"))
    return build(ClusterSpec(accelerators=leafs * ports, server="hgx-h100", back_end=spec), load())


@pytest.mark.parametrize(
    ("leafs", "circuits", "up", "counts"),
    [
        (2, "mesh", 16, [0, 16]),
        (5, "mesh", 16, [0, 4, 4, 4, 4]),
        (6, "mesh", 16, [0, 3, 3, 4, 3, 3]),  # 15 evenly, the last to the leaf opposite
        (8, "mesh", 16, [0, 3, 2, 2, 2, 2, 2, 3]),
        (9, "mesh", 4, [0, 1, 0, 1, 0, 0, 1, 0, 1]),  # one and three on, and back
        (6, "ring", 16, [0, 8, 0, 0, 0, 8]),
    ],
)
def test_circuits(leafs, circuits, up, counts):
    assert Optical(circuits)._counts(leafs, up).tolist() == counts


def test_hops_between_leafs():
    assert _hops(np.array([0, 1, 0, 1, 0, 0, 1, 0, 1])).tolist() == [0, 1, 2, 1, 2, 2, 1, 2, 1]
    assert _hops(np.array([0, 8, 0, 0, 0, 8])).tolist() == [0, 1, 2, 3, 2, 1]


def test_paths_are_shortest_and_spread():
    """Six leafs in a ring: three circuits to the opposite leaf, either way round; every port reaches every other."""
    made = cluster(6, "ring")
    network = made.back_end
    ports = np.unique(network.port_of_rank)
    far = network.path_latency_ps(ports[[0, 0, 0]], ports[[16, 32, 48]])
    assert np.diff(far).tolist() == [far[1] - far[0]] * 2
    assert made.back_end.wiring.bisection_bps == 2 * 8 * 400e9  # the ring is cut twice, eight circuits each


def test_bill_of_circuits():
    """Eight leafs with 16 uplinks are 64 circuits and 128 fibres: one switch of 384 ports, or of 128."""
    for switch, boxes in (("polatis-384", 1), ("palomar", 1)):
        bill = bill_of(cluster(8, switch=switch))
        assert [(row.name, row.count) for row in bill.of("optical-switch")] == [(switch, boxes)]
    bill = bill_of(cluster(9, switch="palomar"))
    assert bill.count("optical-switch") == 2  # 144 fibres
    assert not [row for row in bill.of("switch") if row.tier != "leaf"]
    optics = {row.name for row in bill.of("optic")}
    assert optics == {"optic-800g-2xfr4"}  # parallel fibres would take more ports of the optical switch


def test_the_dark_of_a_reconfiguration():
    """A send across leafs that starts in the dark waits for the light; one inside a leaf does not notice."""
    made = cluster(4)
    dark = (Reconfiguration(at_ps=0, for_ps=20 * MS),)
    for peer, waits in ((16, True), (8, False)):
        graph = sent(64, peer)
        for name in ("flow", "packet"):
            clear, dim = (
                engine.get(name).simulate([Job(graph)], made, faults=faults).makespan_ps for faults in ((), dark)
            )
            assert (dim >= 20 * MS) == waits, (name, peer)
            assert dim == clear or 20 * MS <= dim < 40 * MS + 2 * clear


def exchange(groups, size):
    """An all-to-all in each group of ranks of 16 servers."""
    return TaskGraph.of(
        128,
        kind=np.full(len(groups), Kind.COLLECTIVE),
        rank=np.arange(len(groups)),
        size_bytes=np.full(len(groups), size),
        collective=CollectiveKind.ALL_TO_ALL,
        stream=np.full(len(groups), 3),
        labels=[Label("forward", "experts", "ep")],
        communicators=Communicators.of(groups, "ep"),
    )


def servers(count=16, fabric="uec", **given):
    named = FabricSpec(fabric) if isinstance(fabric, str) else fabric
    spec = NetworkSpec(topology=Optical(**given), fabric=named)
    return build(ClusterSpec(accelerators=8 * count, server="hgx-h100", back_end=spec), load())


def test_a_server_sends_by_the_nic_that_has_the_circuit():
    """Six circuits of eight servers lead 1, 2, 3 places on and back; the leaf has two NICs of every server.

    Ports 0 to 31 are those of the leaf; server s has ports 32 + 6 s to 37 + 6 s on circuits: 1, 2 and 3 places on, then
    3, 2 and 1 back. So the circuit from server 0 to server 1 is that of ports 32 and 43.
    """
    wiring = servers(nics=6, region=8).back_end.wiring
    assert wiring.port_of[1].tolist() == [2, 3, 38, 39, 40, 41, 42, 43]
    assert [int(wiring.circuits.servers.peer[port]) for port in range(32, 38)] == [43, 48, 53, 64, 69, 74]
    source = wiring.port_of[0]
    for server, near, far in ((1, [32] * 8, [43] * 8), (7, [37] * 8, [74] * 8), (4, [0, 1] * 4, [8, 9] * 4)):
        found = wiring.ends(source, wiring.port_of[server])
        assert (found[0].tolist(), found[1].tolist()) == (near, far)
        again = wiring.ends(*found)
        assert (again[0] == found[0]).all()
        assert (again[1] == found[1]).all()
    beyond = wiring.ends(source, wiring.port_of[8])  # of the next region
    assert beyond[0].tolist() == [0, 1] * 4


def test_several_circuits_of_a_pair_share():
    wiring = servers(4, nics=6, region=2).back_end.wiring
    near, far = wiring.ends(wiring.port_of[2], wiring.port_of[3])
    assert near.tolist() == [20, 21, 20, 21, 22, 23, 24, 25]  # 8 packet ports, then six of each server
    assert (wiring.circuits.servers.peer[near] == far).all()
    assert wiring.bisection_bps == 2 * 2 * 400e9  # circuits join only the halves of a region


def test_bill_of_servers_on_circuits():
    """16 servers have 96 ends of circuits and 32 NICs on a single leaf; 48 circuits take two fibres each."""
    bill = bill_of(servers(nics=6, region=8, switch="palomar"))
    found: Counter[tuple[str, str, str]] = Counter()
    for row in bill:
        if row.network and row.kind != "nic":
            found[row.kind, row.name, row.tier] += row.count
    assert found == {
        ("switch", "tomahawk-5", "leaf"): 1,
        ("optical-switch", "palomar", "circuit"): 1,
        ("optic", "optic-400g-fr4", "circuit"): 96,
        ("fibre", "fibre-duplex", "circuit"): 96,
        ("cable", "aec-400g", "nic"): 32,  # routes of up to 7 m
    }
    assert sum(row.total_w.typical for row in bill.of("optical-switch") + bill.of("optic")) == 108 + 96 * 10


@pytest.mark.parametrize(("peers", "circuits"), [(range(8, 16), 1), (range(32, 40), 2), (range(64, 72), 2)])
@pytest.mark.parametrize("name", ["flow", "packet", "analytic"])
def test_rate_between_two_servers(name, peers, circuits):
    """Eight NICs' worth of sends over one circuit, or over the two packet NICs: 8 x 64 MiB at 400 or 800 Gb/s.

    A packet of 4,096 bytes has 4.3 % of headers and framing on Ultra Ethernet; the path takes some microseconds.
    """
    graph = TaskGraph.of(
        128,
        kind=np.full(8, Kind.TRANSFER),
        rank=np.arange(8),
        peer=np.array(peers),
        size_bytes=np.full(8, 1 << 26),
        stream=np.full(8, 3),
        labels=[Label("send", "test", "pp")],
    )
    took_s = engine.get(name).simulate([Job(graph)], servers(nics=6, region=8)).makespan_ps * 1e-12
    assert took_s == pytest.approx(8 * (1 << 26) * 8 * 1.0433 / (circuits * 400e9), rel=0.005)


@pytest.mark.parametrize("fabric", ["uec", "roce"])
def test_an_all_to_all_of_experts(fabric):
    """Sixteen groups of eight ranks, one of each server of a region: 8 x 8 messages from a server to each of 7 others.

    A circuit carries 8 of them, the packet NICs 4 each, where a NIC of a leaf alone carries 7: 8/7 of its time.
    What the library loses slows NICs in the engine of packets, and ranks in the others: 8/7 stay below that.
    """
    groups = [range(first + local, first + 64, 8) for first in (0, 64) for local in range(8)]
    graph, made = exchange(groups, 1 << 26), servers(nics=6, region=8, fabric=fabric)
    flow, packet, closed = (
        engine.get(name).simulate([Job(graph)], made).makespan_ps for name in ("flow", "packet", "analytic")
    )
    leafs = engine.get("flow").simulate([Job(graph)], servers(nics=0, fabric=fabric)).makespan_ps
    plain = engine.get("packet").simulate([Job(graph)], servers(nics=0, fabric=fabric)).makespan_ps
    assert packet / plain == pytest.approx(8 / 7, rel=0.01)
    assert closed == flow == leafs


def test_a_dead_nic_darkens_its_circuit_only():
    made = servers(nics=6, region=8)
    dead = (NicDown(host=0, nic=2, at_ps=0, for_ps=20 * MS),)
    for peer, waits in ((8, True), (16, False), (32, False)):
        took = engine.get("flow").simulate([Job(sent(128, peer))], made, faults=dead).makespan_ps
        assert (took >= 20 * MS) == waits


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nics": 8}, "stays on the packet network"),
        ({"nics": 6, "region": 5}, "do not divide 16 servers"),
        ({"nics": 1, "region": 4}, "do not join 4 servers evenly"),
        ({"nics": 3, "region": 5, "count": 15}, "do not join 5 servers evenly"),
        ({"nics": 2, "inner": Dragonfly()}, "leafs and spines"),
        ({"nics": 2, "fabric": FabricSpec("infiniband", {"sharp": True})}, "no switch that reduces"),
    ],
)
def test_impossible_circuits_of_servers(given, message):
    with pytest.raises(InputError, match=message):
        servers(**given)


@pytest.mark.parametrize(
    ("given", "idle"),
    [
        ({"nics": 6}, []),
        ({"nics": 6, "region": 8, "inner": LeafSpine(oversubscription=2.0)}, []),
        ({"nics": 6, "oversubscription": 4.0, "ports_per_leaf": 8}, ["oversubscription", "ports_per_leaf"]),
        ({"region": 8, "inner": LeafSpine(oversubscription=2.0)}, ["region", "inner"]),
        ({"oversubscription": 2.0}, []),
    ],
)
def test_keys_that_change_nothing_are_named(given, idle):
    """They were taken without a word: a comparison over `oversubscription` said that it does not matter."""
    said = [note for note in notes_of(servers(8, **given)) if "changes nothing" in note]
    assert [note.split("`")[1] for note in said] == idle


def test_a_switch_has_a_port_for_each_that_it_joins():
    """Circuits between any two of 136 servers need as many ports, and Palomar has 128; so has it for regions of 68."""
    with pytest.raises(InputError, match="128 ports, and circuits join any two of 136 servers"):
        servers(136, nics=6, switch="palomar")
    assert servers(136, nics=6, region=68, switch="palomar").back_end.wiring.circuits.joined == 68
    with pytest.raises(InputError, match="any two of 136 leafs"):
        servers(136, ports_per_leaf=8, switch="palomar")
    assert servers(136, ports_per_leaf=8).back_end.wiring.circuits.joined == 136


def test_planes_of_optical_leafs_buy_the_ports_of_each_plane():
    """Four leafs of 16 ports have 64 uplinks, in each of two planes: 32 circuits, 64 ends, 32 second fibres."""
    spec = NetworkSpec(topology=DualPlane(inner=Optical(ports_per_leaf=16)), fabric=FabricSpec("uec"))
    circuits = build(ClusterSpec(accelerators=64, server="hgx-h100", back_end=spec), load()).back_end.wiring.circuits
    assert circuits.fibres == 2 * 64
    spec = replace(spec, topology=DualPlane(inner=Optical(nics=2)))
    with pytest.raises(InputError, match="no circuits that end in servers"):
        build(ClusterSpec(accelerators=64, server="hgx-h100", back_end=spec), load())


def test_refusals():
    with pytest.raises(InputError) as refused:
        Reconfiguration()
    assert refused.value.problems[0].key == "for"
    with pytest.raises(InputError, match="two uplinks"):
        cluster(4, oversubscription=16.0)
