"""Circuits that follow demand: which pairs get them, what a change costs, and engines on the circuits that result."""

import numpy as np
import pytest

from railyard import engine
from railyard.catalog import load
from railyard.cluster.build import build
from railyard.cluster.circuits import Phase, ServerPorts, circuits_for, follow_demand, sending_s
from railyard.cluster.fabric.fabric import FabricSpec
from railyard.cluster.notes import circuits_stay
from railyard.cluster.spec import ClusterSpec, NetworkSpec
from railyard.cluster.topology.optical import Optical
from railyard.graph import Job, Kind, Label, TaskGraph
from railyard.kit.errors import InputError


def even(servers, nics):
    return Optical(nics=nics)._joined(servers)


def couples(close, near):
    """Eight servers: 0-1, 2-3, 4-5, 6-7 exchange `close` bytes each way, 0-2, 1-3, 4-6, 5-7 `near`."""
    demand = np.zeros((8, 8))
    for one, other, size in [(at, at + 1, close) for at in (0, 2, 4, 6)] + [(at, at + 2, near) for at in (0, 1, 4, 5)]:
        demand[one, other] = demand[other, one] = size
    return demand


def alike(servers):
    return np.ones((servers, servers)) - np.eye(servers)


def test_a_case_by_hand():
    """Eight servers with four circuits and two packet NICs, all of rate 1; couples exchange 12, the next ones 10.

    By packets alone 22 / 2 = 11. A couple needs two circuits to be faster: 6; then the others take 10 / 2 by packets. A
    third circuit, 4. For the next ones 5 is last, and two circuits would be needed where one port is left. It goes to
    the couple: 3. The exchange takes 5; on the even mesh, with a circuit to those one and two places on, it takes 12.
    """
    demand, ports = couples(12.0, 10.0), ServerPorts(4, 2, 1.0)
    own = circuits_for(demand, ports)
    assert (own == 4 * (couples(1.0, 0.0) > 0)).all()
    assert sending_s(demand, own, ports) == 5.0
    assert sending_s(demand, even(8, 4), ports) == 12.0
    assert sending_s(demand, even(8, 4), ServerPorts(4, 2, 4.0)) == 3.0


@pytest.mark.parametrize(("servers", "optical", "packet"), [(8, 6, 2), (8, 4, 4), (16, 6, 2), (5, 4, 1), (32, 6, 2)])
def test_an_exchange_that_is_alike_for_all_pairs_gains_nothing(servers, optical, packet):
    demand, ports = alike(servers), ServerPorts(optical, packet, 1.0)
    phase = Phase(demand, circuits_for(demand, ports), np.inf)
    (found,) = follow_demand([phase], even(servers, optical), ports, 0.0)
    assert found.seconds == sending_s(demand, even(servers, optical), ports)


@pytest.mark.parametrize("optical", [2, 4, 6])
def test_the_heaviest_pairs_get_the_ports(optical):
    """Groups of k + 1 servers that exchange much: each of a server's k heaviest pairs has one of its k circuits."""
    servers = 3 * (optical + 1)
    group = np.arange(servers) // (optical + 1)
    heavy = (group[:, None] == group) & ~np.eye(servers, dtype=bool)
    demand = np.where(heavy, 6.0, 0.01) * alike(servers)
    ports = ServerPorts(optical, 1, 1.0)
    own = circuits_for(demand, ports)
    assert (own == heavy).all()
    assert sending_s(demand, own, ports) == 6.0


def test_a_port_more_is_never_a_loss():
    """A chain of servers 3 - 0 - 2 - 1 exchanges 10, 9, 9; three packet NICs each, all of rate 1.

    With three circuits a server, its ends have three each and its middle 9 / 3 by packets: 10 / 3. The search with four
    has two circuits each for 3 - 0 and 0 - 2, and takes 10 / 2.
    """
    demand = np.zeros((4, 4))
    for one, other, size in ((0, 3, 10.0), (0, 2, 9.0), (1, 2, 9.0)):
        demand[one, other] = demand[other, one] = size
    for optical in (3, 4):
        ports = ServerPorts(optical, 3, 1.0)
        assert sending_s(demand, circuits_for(demand, ports), ports) == pytest.approx(10 / 3)
    random = np.random.Generator(np.random.Philox(5))
    for _ in range(40):
        uneven = random.exponential(1.0, (6, 6)) ** 3 * alike(6)
        took = [
            [sending_s(uneven, circuits_for(uneven, ports), ports) for ports in row]
            for row in ([ServerPorts(optical, packet, 1.0) for packet in (1, 2, 4)] for optical in (1, 2, 3, 5, 8))
        ]
        assert (np.diff(took, axis=0) <= 1e-12).all()


@pytest.mark.parametrize("dead", [0.0, 2.0, 3.0, 5.0, 7.5])
@pytest.mark.parametrize("hidden", [0.0, 2.0, 4.0, np.inf])
def test_a_change_adds_what_computation_does_not_hide(dead, hidden):
    """Two demands in turn: a change adds max(0, dead time - what hides it) to a phase, and gains 3.

    Where that is no more, circuits stay as they were for the first one.
    """
    one = couples(12.0, 0.0)
    other = one[np.ix_([0, 2, 1, 3, 4, 6, 5, 7], [0, 2, 1, 3, 4, 6, 5, 7])]
    ports = ServerPorts(4, 2, 1.0)
    phases = [Phase(demand, circuits_for(demand, ports), np.inf, known_s=hidden) for demand in (one, other) * 3]
    adds = max(0.0, dead - hidden)
    first, *rest = (found.seconds for found in follow_demand(phases, even(8, 4), ports, dead))
    assert first == 3.0 + adds
    assert rest == ([3.0 + adds] * 5 if adds < 3.0 else [6.0, 3.0, 6.0, 3.0, 6.0])  # 12 bytes by two packet NICs: 6


def test_circuits_stay_where_the_dead_time_exceeds_the_gain():
    demand, ports = couples(12.0, 10.0), ServerPorts(4, 2, 1.0)
    own = circuits_for(demand, ports)
    for dead, seconds in ((6.9, 5.0 + 6.9), (7.1, 12.0)):
        found = list(follow_demand([Phase(demand, own, 0.0)] * 2, even(8, 4), ports, dead))
        assert [one.seconds for one in found] == pytest.approx([seconds, min(seconds, 12.0) if dead > 7 else 5.0])


def test_a_phase_without_circuits_of_its_own_waits_for_even_ones():
    demand, ports = couples(12.0, 10.0), ServerPorts(4, 2, 1.0)
    phases = [Phase(demand, circuits_for(demand, ports)), Phase(alike(8), idle_s=1.5), Phase(alike(8))]
    changed, restored, kept = follow_demand(phases, even(8, 4), ports, 2.0)
    assert (changed.dark_s, restored.dark_s, kept.dark_s) == (2.0, 0.5, 0.0)
    assert restored.sending_s == kept.sending_s == sending_s(alike(8), even(8, 4), ports)


def exchanged(demand):
    """Sends of the accelerators of each server, one NIC's share each, for a matrix of bytes between servers."""
    one, other = np.nonzero(demand)
    lane = np.arange(8)
    rank, peer = ((servers[:, None] * 8 + lane).ravel() for servers in (one, other))
    return TaskGraph.of(
        8 * len(demand),
        kind=np.full(len(rank), Kind.TRANSFER),
        rank=rank,
        peer=peer,
        size_bytes=np.repeat(demand[one, other] / 8, 8).astype(np.int64),
        stream=np.full(len(rank), 12),
        labels=[Label("send", "test", "ep")],
    )


def cluster(circuits, nics=4):
    topology = Optical(nics=nics, region=8, pairs=tuple(map(tuple, circuits.tolist())))
    spec = NetworkSpec(topology=topology, fabric=FabricSpec("uec"))
    return build(ClusterSpec(accelerators=8 * len(circuits), server="hgx-h100", back_end=spec), load())


@pytest.mark.parametrize("name", ["flow", "packet", "analytic"])
@pytest.mark.parametrize("own", [True, False])
def test_engines_take_the_time_of_the_closed_form(name, own):
    """The case by hand in units of 64 MiB at 400 Gb/s, and with four packet NICs; the engine of packets takes 1 % more.

    A packet of 4,096 bytes has 4.3 % of headers and framing.
    """
    demand, ports = couples(12.0, 10.0) * (1 << 26), ServerPorts(4, 4, 50e9)
    circuits = circuits_for(demand, ports) if own else even(8, 4)
    took_s = engine.get(name).simulate([Job(exchanged(demand))], cluster(circuits)).makespan_ps * 1e-12
    assert took_s == pytest.approx(sending_s(demand, circuits, ports) * 1.0433, rel=0.015)


def test_work_without_exchanges_of_experts_leaves_circuits_as_they_are():
    def said(**given):
        spec = NetworkSpec(topology=Optical(nics=6, region=8, **given), fabric=FabricSpec("uec"))
        return list(circuits_stay(build(ClusterSpec(accelerators=64, server="hgx-h100", back_end=spec), load())))

    assert said() == []
    assert said(circuits="demand")[0].startswith("circuits stay as they are")


def test_dead_time_is_that_of_switch_and_links():
    def dead(**given):
        spec = NetworkSpec(topology=Optical(nics=6, region=8, **given), fabric=FabricSpec("uec"))
        made = build(ClusterSpec(accelerators=64, server="hgx-h100", back_end=spec), load())
        return made.back_end.wiring.circuits.dead_ps

    assert dead() is None
    assert dead(circuits="demand") == 46_800_000_000 + 5_670_000_000_000
    assert dead(circuits="demand", switch="palomar", relink_ps=0) == 3_000_000_000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"circuits": "demand"}, "circuits between leafs stay"),
        ({"nics": 4, "pairs": ((0, 4), (4, 0))}, "each end takes a NIC"),
        (
            {"nics": 4, "pairs": tuple(map(tuple, (5 * np.eye(8, k=1) + 5 * np.eye(8, k=-1)).astype(int).tolist()))},
            "NIC",
        ),
    ],
)
def test_impossible(given, message):
    spec = NetworkSpec(topology=Optical(**given), fabric=FabricSpec("uec"))
    with pytest.raises(InputError, match=message):
        build(ClusterSpec(accelerators=64, server="hgx-h100", back_end=spec), load())
