"""Networks folded to a few numbers a tier, and contention of classes of traffic on them, by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from railyard import catalog, cluster, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.cluster.fault import DegradeLink, LinkDown, SlowAccelerator
from railyard.cluster.spec import Background, Placement
from railyard.cluster.topology import LeafSpine, ThreeTier
from railyard.collective import CollectivePolicy
from railyard.collective.choice import DEFAULT_POLICY
from railyard.engine.analytic import fullest
from railyard.engine.designs import Classes, DesignNetworks, contention, oversubscription
from railyard.engine.flow import FREED, Conditions
from railyard.engine.tiers import PATTERNS, Tiers
from railyard.graph import CollectiveKind, Communicators, Job, Kind, Label, Stream, TaskGraph
from railyard.measure.decompose import decompose
from railyard.measure.utilization import tax_of

REACHED = 0.98  # what RoCE reaches of links between switches, `congestion_efficiency`
RING, EXCHANGE, SEND, PAT = range(len(PATTERNS))


@cache
def tiers(ratio=4.0, *, fabric="roce-untuned", ranks=128, place="packed", load=0.0, qps=1, topology=None):
    """H100 servers of eight under leafs of 32 ports: four servers a leaf."""
    kind = topology or LeafSpine(oversubscription=ratio, ports_per_leaf=32)
    network = NetworkSpec(kind, FabricSpec(fabric, {"qps": qps} if qps > 1 else {}))
    background = (Background("back_end", load, None),) if load else ()
    spec = ClusterSpec(ranks, "hgx-h100", network, background=background)
    return Tiers.of(cluster.build(spec, catalog.load(), Placement(place, 0)))


def classes(*rows, queues=None, paced=None, ranks=128.0, local=8, trees=0.0, contended=1.0, hidden=1.0, lockstep=False):
    """Rows (pattern, domains, hop, inside s, outside s); of all the same share moves in aggregated trees.

    `contended` and `hidden` are of the second queue.
    """
    column = [np.array([[float(row[place]) for row in rows]]) for place in range(1, 5)]
    kinds = np.arange(len(rows)) if queues is None else np.array(queues)
    drift = np.zeros(len(rows), np.bool_) if paced is None else np.array(paced)
    domains, hop, inside_s, outside_s = column
    near = np.full_like(domains, float(local))
    names = tuple(row[0] for row in rows)
    share = [np.where(kinds[None, :] > 0, each, 1.0) for each in (contended, hidden)]
    same = np.full_like(domains, trees)
    return Classes(
        *(names, drift, kinds, domains, hop, near, inside_s, outside_s, np.array([ranks]), same, *share),
        lockstep=np.array([lockstep]),
    )


def met(network, work, step_s=1.0, others=None):
    return contention(DesignNetworks.of([network], np.array([0])), work, np.array([step_s]), others)


def test_a_leaf_spine_is_its_leafs():
    """128 ports of 400 Gb/s under 4 leafs; 4:1 leaves each 8 uplinks, of which 98 % can be used."""
    found = tiers()
    assert found.names == ("nic", "leaf-spine")
    assert found.units.tolist() == [128, 4]
    assert found.links.tolist() == [1, 8]
    assert found.link_bps[1] == pytest.approx(REACHED * 400e9)
    assert oversubscription(found)[1] == pytest.approx(4 / REACHED)


def test_background_takes_its_share_of_links_between_switches():
    assert tiers(load=0.3).link_bps == pytest.approx(np.array([1.0, 0.7]) * tiers().link_bps)


@pytest.mark.parametrize(
    ("pattern", "hop", "wide", "mean", "most"),
    [
        (RING, 1, 16, 1 / 4, 1 / 4),  # one of four neighbours is under the next leaf
        (RING, 1, 4, 0, 0),  # a leaf to itself
        (RING, 2, 8, 1 / 2, 1 / 2),
        (RING, 4, 4, 1, 1),
        (EXCHANGE, 1, 16, 12 / 15, 12 / 15),  # 3 of 15 others are under the same leaf
        (EXCHANGE, 1, 8, 4 / 7, 4 / 7),
        (SEND, 2, 8, 6 / 14, 1 / 2),  # of servers 0 to 13 six leave; of a leaf's four the two of one stage
        (SEND, 1, 16, 3 / 15, 1 / 4),
        (SEND, 4, 4, 1, 1),
        (PAT, 1, 16, 7 / 15, 7 / 15),  # 8 chunks to the next server, 4 to that behind: a quarter and half of them leave
        (PAT, 1, 8, 3 / 7, 3 / 7),
        (PAT, 1, 4, 0, 0),
        (PAT, 2, 8, 5 / 7, 5 / 7),  # two of a leaf's servers: of 4 chunks to the next half leave
    ],
)
def test_what_crosses_the_uplinks_of_a_leaf(pattern, hop, wide, mean, most):
    table = tiers().crossing[1, :, pattern, int(np.log2(hop)), int(np.log2(wide))]
    assert table.tolist() == pytest.approx([mean, most, 1.0])


def test_shuffled_servers_leave_their_leafs():
    """3 of the 15 other servers are under the same leaf: 80 % of the neighbours in a ring are not, on average."""
    rings = tiers(place="scattered").crossing[1, :, RING, 0, 4]
    assert 0.7 <= rings[0] <= rings[1] <= 1.0
    assert rings[2] == 0.75  # three of the four leafs send all that they have


def test_pods_are_units_of_the_tier_above():
    found = tiers(topology=ThreeTier(), ranks=1024)
    assert found.names == ("nic", "leaf-spine", "spine-core")
    assert found.units[2] < found.units[1]
    assert (found.crossing[2] <= found.crossing[1] + 1e-12).all()


def test_oversubscription_slows_what_crosses():
    """Sprayed: an exchange over four leafs sends 12 of 15 parts up links that carry a quarter; 95 % can be used."""
    found = met(tiers(fabric="spectrum-x"), classes(("exchange", 16, 1, 0, 0.1), ("ring", 4, 1, 0, 0.2), queues=[0, 0]))
    assert found.demand[0, 0] == pytest.approx([1, 0.8 * 4 / 0.95])
    assert found.outside[0].tolist() == pytest.approx([0.8 * 4 / 0.95, 1.0])
    assert found.utilization[0] == pytest.approx([0.3, 0.1 * 0.8 * 4 / 0.95])


def test_aggregated_trees_cross_more_than_rings():
    """Over four leafs of four servers 7 of 15 chunks leave, where a ring sends 1 of 4; the uplinks carry a quarter."""
    of = {part: met(tiers(fabric="spectrum-x"), classes(("ring", 16, 1, 0, 0.1), trees=part)) for part in (0.0, 0.5)}
    for found in of.values():
        assert found.outside[0, 0] == pytest.approx(1 / 0.95)
        assert found.aggregated[0, 0] == pytest.approx(7 / 15 * 4 / 0.95)
    assert of[0.5].utilization[0, 1] == pytest.approx(0.1 * (1 / 4 + 7 / 15) / 2 * 4 / 0.95)


def test_trees_collide_as_if_an_accelerator_sent_to_fewer_than_three():
    """Of 32 ports to 15 others all cross 32 uplinks, in 3 x 15 / 17 = 2.65 flows each, every one with 4 connections."""
    work = classes(("ring", 16, 4, 0, 0.1), trees=1.0, local=1, ranks=512.0)
    found = met(tiers(ratio=1.0, ranks=512), work)
    flows = float(fullest(np.array(32 * 45 / 17 * 4), np.array(32.0), np.array(32.0))) / (45 / 17 * 4)
    assert found.aggregated[0, 0] == pytest.approx(flows / REACHED, rel=1e-6)


def test_hashed_flows_collide():
    """A leaf's 32 ports over 32 uplinks, four leafs up and four down; each port has the two connections of a ring.

    Of 64 flows 6.85 are on the fullest of draws, of 256 (four queue pairs each) 16.9.
    """
    work = classes(("ring", 4, 4, 0, 0.1))
    assert met(tiers(ratio=1.0), work).outside[0, 0] == pytest.approx(6.85 / 2 / REACHED, rel=0.01)
    assert met(tiers(ratio=1.0, fabric="spectrum-x"), work).outside[0, 0] == pytest.approx(1 / 0.95)
    assert met(tiers(ratio=1.0, qps=4), work).outside[0, 0] == pytest.approx(16.9 / 8 / REACHED, rel=0.03)


def test_only_the_leafs_that_send_most_have_the_fullest_link():
    """Eight shuffled servers under four leafs, in a ring: 0 1 1 2 2 0 3 3. Leaf 0 sends all it has, the others half.

    Against draws of 32 flows on the 16 links up from leaf 0 and down to it, and of 16 on those of the other three.
    """
    topology = LeafSpine(oversubscription=1.0, ports_per_leaf=16)
    network = tiers(topology=topology, ranks=64, place="scattered")
    assert network.crossing[1, :, RING, 0, 3].tolist() == [5 / 8, 1.0, 0.25]
    draws = np.random.default_rng(1)
    flows = np.array([32] * 2 + [16] * 6)
    each = [max(np.bincount(draws.integers(0, 16, n), minlength=16).max() for n in flows) for _ in range(4000)]
    found = met(network, classes(("ring", 8, 1, 0, 0.1), ranks=64.0)).outside[0, 0]
    assert found == pytest.approx(np.mean(each) / 2 / REACHED, rel=0.01)


def test_classes_of_different_queues_meet_on_nics():
    """0.3 of the step one class sends, 0.1 the other: each loses what the other takes."""
    work = classes(("ring", 2, 1, 0, 0.3), ("send", 2, 1, 0, 0.1))
    assert met(tiers(), work).outside[0].tolist() == pytest.approx([1.1, 1.3])


def test_classes_of_one_queue_take_turns_on_nics():
    work = classes(("ring", 2, 1, 0, 0.3), ("send", 2, 1, 0, 0.1), queues=[0, 0])
    assert met(tiers(), work).outside[0].tolist() == [1.0, 1.0]


def test_a_longer_step_has_more_room():
    work = classes(("ring", 2, 1, 0, 0.3), ("send", 2, 1, 0, 0.1))
    assert met(tiers(), work, step_s=2.0).outside[0].tolist() == pytest.approx([1.05, 1.15])


def test_other_jobs_take_their_share_of_a_tier():
    work = classes(("ring", 4, 4, 0, 0.1))
    alone = met(tiers(fabric="spectrum-x"), work).outside[0, 0]
    assert alone == pytest.approx(4 / 0.95)
    assert met(tiers(fabric="spectrum-x"), work, others=np.array([[0.0, 0.25]])).outside[0, 0] == pytest.approx(
        1.25 * alone
    )


def test_scale_up_links_are_shared_by_queues():
    """0.2 of the step tensor parallelism, 0.25 replicas inside, whose rings wait for NICs twice as long."""
    work = classes(("ring", 1, 1, 0.2, 0), ("ring", 2, 1, 0.25, 0.5))
    found = met(tiers(), work)
    assert found.inside[0].tolist() == pytest.approx([1.25, 1.0])


def test_groups_that_drift_apart_meet_by_chance():
    """All at once four times the link's rate; a load of 0.4 leaves 0.6 to a processor that is shared."""
    row = ("send", 4, 4, 0, 0.4 * 0.95 / 4)
    fabric = tiers(fabric="spectrum-x")
    assert met(fabric, classes(row, paced=[True])).outside[0, 0] == pytest.approx(1 / 0.6)
    assert met(fabric, classes(row)).outside[0, 0] == pytest.approx(4 / 0.95)


def test_classes_of_one_queue_meet_between_switches_where_stages_differ():
    """Sprayed at 4:1, both cross entirely and fill uplinks: each is busy 4 / 0.95 times its seconds."""
    rows = ("ring", 4, 4, 0, 0.1), ("ring", 4, 4, 0, 0.05)
    full, fabric = 4 / 0.95, tiers(fabric="spectrum-x")
    apart = met(fabric, classes(*rows, queues=[1, 1])).outside[0]
    assert apart.tolist() == pytest.approx([full * (1 + 0.05 * full), full * (1 + 0.1 * full)])
    together = met(fabric, classes(*rows, queues=[1, 1], lockstep=True)).outside[0]
    assert together.tolist() == pytest.approx([full, full])


@pytest.mark.parametrize(
    ("contended", "hidden", "met_share"),
    [(1.0, 1.0, 1.0), (1.0, 0.4, 0.4), (0.1, 1.0, 0.1 / (0.05 * 4 / 0.95)), (0.1, 0.4, 0.4)],
)
def test_what_is_sent_once_a_step_meets_others_where_it_is_hidden(contended, hidden, met_share):
    rows = ("ring", 4, 4, 0, 0.1), ("ring", 4, 4, 0, 0.05)
    full, fabric = 4 / 0.95, tiers(fabric="spectrum-x")
    found = met(fabric, classes(*rows, queues=[0, 1], contended=contended, hidden=hidden, lockstep=True)).outside[0]
    assert found.tolist() == pytest.approx([full * (1 + 0.05 * full * met_share), full * (1 + 0.1 * full * met_share)])


def test_the_fullest_leaf_counts_by_its_ports():
    """Five servers under leafs of two: 8 ports send out of each leaf, also out of the last one, which has no more."""
    table = tiers(ranks=40, topology=LeafSpine(oversubscription=1.0, ports_per_leaf=16)).crossing[1, :, RING, 0, 1]
    assert table.tolist() == pytest.approx([3 / 5, 8 / (40 / 3), 1.0])


def test_rows_know_nothing_of_each_other():
    networks = [tiers(), tiers(topology=ThreeTier(), ranks=1024), tiers(ratio=1.0, fabric="spectrum-x")]
    work = [classes(("ring", 8, 2, 0.1, 0.2), ("send", 4, 4, 0, 0.05), ranks=ranks) for ranks in (128.0, 1024.0, 64.0)]
    together = Classes(
        work[0].patterns,
        work[0].paced,
        work[0].queues,
        *(
            np.concatenate([getattr(each, name) for each in work])
            for name in ("domains", "hop", "local", "inside_s", "outside_s")
        ),
        np.array([128.0, 1024.0, 64.0]),
        *(np.concatenate([getattr(each, name) for each in work]) for name in ("aggregated", "contended", "hidden")),
        lockstep=np.zeros(3, np.bool_),
    )
    found = contention(DesignNetworks.of(networks, np.arange(3)), together, np.ones(3))
    for row, (network, each) in enumerate(zip(networks, work, strict=True)):
        assert found.outside[row] == pytest.approx(met(network, each).outside[0])
        assert found.inside[row] == pytest.approx(met(network, each).inside[0])


# Networks without limit: the tax of steps whose every picosecond is known by hand, on every engine.

US = 10**6
MB = 10**6


@cache
def machine(fabric="ideal", rate_bps=None, accelerators=16):
    network = NetworkSpec(fabric=FabricSpec(fabric), link_rate_bps=rate_bps)
    return cluster.build(ClusterSpec(accelerators=accelerators, server="hgx-h100", back_end=network), catalog.load())


def step(groups, size, *, compute_us=1000, hidden=False, loss=0.0):
    """Every rank computes; each group has an all-reduce, after the computation or beside it."""
    members = [rank for group in groups for rank in group]
    count, computed = len(groups), len(members)
    after = [[] for _ in range(computed)] + [[] if hidden else [members.index(rank) for rank in g] for g in groups]
    return TaskGraph.of(
        1 + max(members),
        kind=[Kind.COMPUTE] * computed + [Kind.COLLECTIVE] * count,
        rank=[*members, *range(count)],
        duration_ps=[compute_us * US] * computed + [0] * count,
        size_bytes=[0] * computed + [size] * count,
        collective=CollectiveKind.ALL_REDUCE,
        stream=[Stream.COMPUTE] * computed + [Stream.GRADIENT] * count,
        label=[0] * computed + [1] * count,
        waits=after,
        labels=[Label("backward", "kernel"), Label("gradient", "all reduce", "dp")],
        communicators=Communicators.of(groups, "dp"),
        loss_index=np.zeros(computed + count, np.int32) if loss else None,
        loss=np.array([[loss]]) if loss else None,
    )


def steps(graph, here, *, name="flow", faults=(), policy=DEFAULT_POLICY):
    """T, T1 and T0 as records."""
    plain = Conditions(engine.get(name), here, policy, tuple(faults))
    return [
        on.engine.simulate([Job(graph)], on.cluster, faults=on.faults, policy=on.policy)
        for on in (plain, *map(plain.unlimited, FREED))
    ]


def tax(graph, here, **more):
    return tax_of(*(decompose(record).by_cause() for record in steps(graph, here, **more)), "flow")


ACROSS = [[rank, rank + 8] for rank in range(8)]
INSIDE = [list(range(8)), list(range(8, 16))]


@pytest.mark.parametrize("name", ["flow", "analytic"])
def test_an_exposed_all_reduce_is_the_tax(name):
    """Two ranks of a group, 100 MB each way at 400 Gb/s: 2 ms and some latency after 1 ms of computation."""
    here = machine()
    record, free, _ = steps(step(ACROSS, 100 * MB), here, name=name)
    found = tax(step(ACROSS, 100 * MB), here, name=name)
    wire_s = 8 * 100e6 / (here.nic.rate_bps * here.fabric.payload_efficiency)
    assert free.makespan_ps == 1000 * US
    assert found.tokens_lost == pytest.approx(1 - 1000 * US / record.makespan_ps)
    assert found.tokens_lost == pytest.approx(wire_s / (wire_s + 1e-3), rel=0.02)
    assert found.exposed["bandwidth"] * record.makespan_ps * 1e-12 == pytest.approx(wire_s, rel=0.02)
    assert found.slowed_kernels == 0.0
    assert found.scale_up.tokens_lost == 0.0
    assert found.rest == pytest.approx({"compute": 1 - found.tokens_lost})


def test_a_hidden_all_reduce_slows_the_kernels_beside_it():
    """2 ms beside 10 ms of computation at 4/5 of its speed: 0.4 ms are lost, none of them exposed."""
    graph = step(ACROSS, 100 * MB, compute_us=10_000, hidden=True, loss=0.2)
    record, free, none = steps(graph, machine())
    lasted_s = (record.end_ps[-1] - record.start_ps[-1]) * 1e-12
    found = tax(graph, machine())
    assert (free.makespan_ps, none.makespan_ps) == (10_000 * US, 10_000 * US)
    assert record.makespan_ps * 1e-12 == pytest.approx(10e-3 + 0.2 * lasted_s, rel=1e-6)
    assert found.slowed_kernels == pytest.approx(0.2 * lasted_s / (10e-3 + 0.2 * lasted_s), rel=1e-6)
    assert found.tokens_lost == pytest.approx(found.slowed_kernels)
    assert not any(found.exposed.values())


@pytest.mark.parametrize("name", ["flow", "analytic", "packet"])
@pytest.mark.parametrize("hidden", [False, True])
def test_a_job_inside_its_servers_pays_nothing_to_the_scale_out_network(name, hidden):
    graph = step(INSIDE, 1000 * MB, hidden=hidden, loss=0.1)
    found = tax(graph, machine("roce"), name=name)
    assert found.tokens_lost == 0.0
    assert found.slowed_kernels == 0.0
    assert found.scale_up.tokens_lost > 0.05


def test_what_crosses_keeps_the_time_that_it_needs_inside_servers():
    """An all-reduce of two whole servers: on a network without limit it is bound by NVLink, as inside one server."""
    ring = CollectivePolicy(algorithm={"all-reduce": "ring"})
    record, free, none = steps(step([list(range(16))], 1000 * MB), machine("roce"), policy=ring)
    assert record.makespan_ps > free.makespan_ps > none.makespan_ps == 1000 * US
    inside_s = 2 * 15 / 16 * 1000e6 * 8 / machine("roce").accelerator.scale_up_collective_bps
    assert (free.makespan_ps - 1000 * US) * 1e-12 == pytest.approx(inside_s, rel=0.05)


def test_ideal_interfaces_without_limit_leave_no_tax():
    endless = machine("ideal").without_scale_out_limits()
    found = tax(step([list(range(16))], 1000 * MB), endless)
    assert found.exposed == pytest.approx(
        {"bandwidth": 0, "latency": found.tokens_lost, "contention": 0, "straggler": 0}
    )
    assert found.tokens_lost * 5e-3 < 30e-6  # the library's own steps through NICs, a few of some us


def test_without_a_scale_out_network_every_fabric_gives_one_step():
    graph = step([list(range(16))], 400 * MB)
    free = [steps(graph, machine(fabric))[1].makespan_ps for fabric in ("roce", "uec", "scheduled", "ideal")]
    assert max(free) == pytest.approx(min(free), rel=1e-6)


@pytest.mark.parametrize("hidden", [False, True])
def test_more_bandwidth_never_raises_the_tax(hidden):
    graph = step([list(range(16))], 300 * MB, compute_us=5_000, hidden=hidden, loss=0.15)
    shares = [tax(graph, machine("ideal", rate * 1e9)).tokens_lost for rate in (50, 100, 200, 400)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1] > 0


def test_faults_of_the_network_without_limit_are_gone_and_others_stay():
    slow, dead = DegradeLink(factor=0.25, cable="server 0 nic 0 - leaf 0"), LinkDown(cable="server 1 nic 0 - leaf 0")
    late = SlowAccelerator(rank=3, factor=0.5)
    conditions = Conditions(engine.get("flow"), machine("roce"), CollectivePolicy(), (slow, dead, late))
    assert [conditions.unlimited(free).faults for free in FREED] == [(late,), (late,)]
    graph = step(ACROSS, 100 * MB)
    hit, free, none = steps(graph, machine("roce"), faults=[slow, late])
    assert hit.makespan_ps > steps(graph, machine("roce"), faults=[late])[0].makespan_ps
    assert free.makespan_ps == none.makespan_ps == 2000 * US


def test_packets_are_compared_with_the_flow_engine():
    """What is left of communication comes from one cost model: where nothing crosses, both engines agree."""
    conditions = Conditions(engine.get("packet"), machine("roce"), CollectivePolicy(network_overhead_ps=5 * US), ())
    free = conditions.unlimited("scale-out")
    assert free.engine == replace(engine.get("flow"), free="scale-out")
    assert free.policy.network_overhead_ps == 0
    graph = step(INSIDE, 1000 * MB)
    packets, flows, _ = steps(graph, machine("roce"), name="packet")
    assert packets.makespan_ps == pytest.approx(flows.makespan_ps, rel=1e-3)
