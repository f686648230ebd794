"""Networks folded to a few numbers a tier, and contention of classes of traffic on them, by hand."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from railyard import catalog, cluster
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.cluster.spec import Background, Placement
from railyard.cluster.topology import LeafSpine, ThreeTier
from railyard.engine.analytic import fullest
from railyard.engine.designs import Classes, Networks, contention
from railyard.engine.tiers import PATTERNS, Tiers

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


def classes(*rows, queues=None, paced=None, ranks=128.0, local=8, trees=0.0, beside=1.0, hidden=1.0, lockstep=False):
    """Rows (pattern, domains, hop, inside s, outside s); of all the same share moves in aggregated trees.

    `beside` and `hidden` are of the second queue.
    """
    column = [np.array([[float(row[place]) for row in rows]]) for place in range(1, 5)]
    kinds = np.arange(len(rows)) if queues is None else np.array(queues)
    drift = np.zeros(len(rows), np.bool_) if paced is None else np.array(paced)
    domains, hop, inside_s, outside_s = column
    near = np.full_like(domains, float(local))
    names = tuple(row[0] for row in rows)
    share = [np.where(kinds[None, :] > 0, each, 1.0) for each in (beside, hidden)]
    same = np.full_like(domains, trees)
    return Classes(
        *(names, drift, kinds, domains, hop, near, inside_s, outside_s, np.array([ranks]), same, *share),
        lockstep=np.array([lockstep]),
    )


def met(network, work, step_s=1.0, others=None):
    return contention(Networks.of([network], np.array([0])), work, np.array([step_s]), others)


def test_a_leaf_spine_is_its_leafs():
    """128 ports of 400 Gb/s under 4 leafs; 4:1 leaves each 8 uplinks, of which 98 % can be used."""
    found = tiers()
    assert found.names == ("nic", "leaf-spine")
    assert found.units.tolist() == [128, 4]
    assert found.links.tolist() == [1, 8]
    assert found.link_bps[1] == pytest.approx(REACHED * 400e9)
    assert found.oversubscription[1] == pytest.approx(4 / REACHED)


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
    ("beside", "hidden", "met_share"),
    [(1.0, 1.0, 1.0), (1.0, 0.4, 0.4), (0.1, 1.0, 0.1 / (0.05 * 4 / 0.95)), (0.1, 0.4, 0.4)],
)
def test_what_is_sent_once_a_step_meets_others_where_it_is_hidden(beside, hidden, met_share):
    rows = ("ring", 4, 4, 0, 0.1), ("ring", 4, 4, 0, 0.05)
    full, fabric = 4 / 0.95, tiers(fabric="spectrum-x")
    found = met(fabric, classes(*rows, queues=[0, 1], beside=beside, hidden=hidden, lockstep=True)).outside[0]
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
        *(np.concatenate([getattr(each, name) for each in work]) for name in ("aggregated", "beside", "hidden")),
        lockstep=np.zeros(3, np.bool_),
    )
    found = contention(Networks.of(networks, np.arange(3)), together, np.ones(3))
    for row, (network, each) in enumerate(zip(networks, work, strict=True)):
        assert found.outside[row] == pytest.approx(met(network, each).outside[0])
        assert found.inside[row] == pytest.approx(met(network, each).inside[0])
