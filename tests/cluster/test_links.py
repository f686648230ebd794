"""Scale-up domains: links, rates and paths in closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.agreement import yard

from railyard import catalog
from railyard.cluster import ClusterSpec, bill_of, build
from railyard.cluster.fabric.fabric import Behavior
from railyard.cluster.links import uneven_bps
from railyard.cluster.network_table import NetworkTable
from railyard.cluster.topology import LeafSpine


def machine(server, accelerators):
    return build(ClusterSpec(accelerators, server), catalog.load())


def checked_path(cluster, source, target):
    path = cluster.scale_up.path(np.array([source]), np.array([target]))
    link = path.link
    assert cluster.links.source[link[0]] == source
    assert cluster.links.target[link[-1]] == target
    assert (cluster.links.target[link[:-1]] == cluster.links.source[link[1:]]).all()
    return link


def test_cables_between_switches_are_no_loops_and_none_of_hosts():
    cables = [(0, "1", 1, "1"), (0, "2", 2, "1"), (1, "2", 1, "3"), (2, "2", 2, "3")]
    table = NetworkTable.of("by hand", ["a", "b", "server"], ["switch", "switch", "host"], cables)
    assert table.between.tolist() == [0]
    assert table.access.tolist() == [1]


def test_a_switched_domain_has_a_link_up_and_one_down_for_every_rank():
    cluster = machine("hgx-h100", 16)
    assert cluster.scale_up.kind == "switched"
    assert cluster.links.of_tier("scale-up").tolist() == list(range(32))
    assert cluster.links.rate_bps[:32] == pytest.approx(450e9 * 8)
    assert checked_path(cluster, 9, 14).tolist() == [
        cluster.scale_up.egress(np.array([9]))[0],
        cluster.scale_up.ingress(np.array([14]))[0],
    ]


def test_a_domain_may_span_servers():
    cluster = machine("gb200-nvl72", 144)
    assert (cluster.scale_up_domain, cluster.ranks_per_server, cluster.servers) == (72, 4, 36)
    assert cluster.scale_up.same_domain(np.array([0, 71]), np.array([71, 72])).tolist() == [True, False]
    assert len(checked_path(cluster, 0, 71)) == 2


def test_the_last_domain_may_be_smaller():
    cluster = machine("gb200-nvl72", 64)
    assert cluster.scale_up_domain == 64
    assert machine("gb200-nvl72", 100).scale_up.domains == 2


def test_a_mesh_has_a_link_for_every_ordered_pair():
    cluster = machine("mi300x-8", 16)
    scale_up = cluster.scale_up
    assert scale_up.kind == "mesh"
    assert scale_up.links == 16 * 7
    for source in range(8, 16):
        for target in range(8, 16):
            if source != target:
                assert len(checked_path(cluster, source, target)) == 1
    links = cluster.links.of_tier("scale-up")
    out = np.bincount(cluster.links.source[links], weights=cluster.links.rate_bps[links])
    assert out == pytest.approx(cluster.accelerator.scale_up_bps)


def test_a_partly_used_mesh_keeps_the_rate_of_a_link():
    assert machine("mi300x-8", 4).links.rate_bps[0] == machine("mi300x-8", 8).links.rate_bps[0]


def test_a_torus_gives_every_rank_its_links():
    cluster = machine("tpu-v5p-host", 128)
    links = cluster.links.of_tier("scale-up")
    assert cluster.scale_up.kind == "torus"
    assert len(links) == 128 * 6
    assert cluster.links.rate_bps[links] == pytest.approx(cluster.accelerator.scale_up_bps / 6)
    assert len(checked_path(cluster, 0, 127)) <= 2 + 2 + 4
    assert len(checked_path(cluster, 5, 6)) == 1


def test_tori_are_equal_slices():
    cluster = machine("tpu-v5p-host", 16384)
    assert cluster.scale_up.domains * cluster.scale_up_domain == 16384
    assert checked_path(cluster, 8192, 16383).size > 0


def test_accelerators_without_scale_up_meet_over_pcie():
    cluster = machine("l40s-8", 16)
    assert cluster.scale_up.kind == "switched"
    assert cluster.links.rate_bps[0] == cluster.server.pcie_bps


def test_a_rank_reaches_itself_without_a_link():
    for server in ("hgx-h100", "mi300x-8", "tpu-v5p-host"):
        path = machine(server, 8).scale_up.path(np.array([3, 3]), np.array([3, 4]))
        assert path.lengths[0] == 0
        assert path.lengths[1] > 0


def test_a_rack_used_in_part_keeps_groups_together_and_its_idle_servers_in_the_bill():
    """Racks of 72 in servers of 4: 64 used leave two servers of each idle."""
    whole = machine("gb200-nvl72", 256)
    cluster = build(ClusterSpec(256, "gb200-nvl72", ranks_per_domain=64), catalog.load())
    group = np.arange(64)
    for first in range(0, 256, 64):
        assert cluster.scale_up.same_domain(first, first + group).all()
    assert not whole.scale_up.same_domain(64, 64 + group).all()
    bill, idle = bill_of(cluster), [row for row in bill_of(cluster) if row.tier == "idle"]
    assert {(row.kind, row.count) for row in idle} == {("accelerator", 32), ("server", 8), ("nic", 32)}
    assert (bill.count("accelerator"), bill.count("server"), bill.count("nic")) == (288, 72, 288)
    assert idle[0].power_w == cluster.accelerator.idle_power_w
    assert bill.count("optic") == bill_of(whole).count("optic")
    assert not [row for row in bill_of(whole) if row.tier == "idle"]


def test_several_links_to_one_neighbour_act_as_one():
    """An H100 NVL has 12 links, all to the other card of its bridge."""
    cluster = machine("h100-nvl-8", 8)
    link = checked_path(cluster, 2, 3)
    assert cluster.links.rate_bps[link].tolist() == [cluster.accelerator.scale_up_bps]


# Bundles whose members differ: closed forms of sprays that look and of sprays that do not.

NOMINAL = 400e9


def rate_bps(kept, moved, remaining=1.0):
    """Of one bundle over the nominal rate of a member; its members keep these shares."""
    members = np.asarray(kept, float) * NOMINAL
    bundle = np.zeros(len(members), np.int32)
    index, reached = uneven_bps(
        members, np.full(len(members), NOMINAL), bundle, np.array([moved]), np.array([remaining])
    )
    return reached.item() / NOMINAL if len(index) else None


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        (0.0, 2.0),  # all 8 carry what the slowest carries: 8 x 25 %
        (1.0, 7.25),  # 7 + 25 %
        (0.6, 1 / (0.6 / 7.25 + 0.4 / 2.0)),
    ],
)
def test_one_of_eight_at_a_quarter(moved, expected):
    assert rate_bps([1, 1, 1, 0.25, 1, 1, 1, 1], moved) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("moved", [0.0, 0.37, 1.0])
def test_a_dead_one_holds_nobody_up(moved):
    assert rate_bps([1, 1, 1, 0, 1, 1, 1, 1], moved) == pytest.approx(7.0, rel=1e-12)
    assert rate_bps([1, 1, 1, 0, 1, 1, 1, 1], moved, remaining=0.83) == pytest.approx(5.81, rel=1e-12)


def test_dead_and_slow_ones_together():
    """An oblivious spray over the 3 that are left: 3 x 30 %; the efficiency of what is left counts too."""
    assert rate_bps([1, 0, 0.3, 1], 0.0, remaining=0.9) == pytest.approx(0.9 * 3 * 0.3, rel=1e-12)


@pytest.mark.parametrize("kept", [[1, 1, 1], [0.7, 0.7, 0.7], [0, 0, 0]])
def test_members_that_are_alike_add_up_as_before(kept):
    assert rate_bps(kept, 0.0, remaining=0.5) is None


def crossing(behavior):
    spines = LeafSpine(ports_per_leaf=8, spines=8)
    return yard.machine(16, "uec", spines, overrides=(("behavior", behavior),))


@pytest.mark.parametrize(
    ("up", "moved", "expected"),
    [(True, 0.0, 2 / 8), (True, 1.0, 7.25 / 8), (False, 0.5, 1 / (0.5 * 8 / 7.25 + 0.5 * 8 / 2))],
)
def test_a_cluster_reads_its_fabric(up, moved, expected):
    """Eight flows from leaf to leaf over eight spines, one link at a quarter."""
    behavior = replace(Behavior(), moved_up=moved if up else 1.0, moved_down=1.0 if up else moved)
    cluster = crossing(behavior)
    wiring, leaf, spine = cluster.back_end.wiring, 16, 18 + 3
    ends = (leaf, spine) if up else (spine, leaf)
    link = np.flatnonzero((wiring.source == ends[0]) & (wiring.target == ends[1])) + cluster.back_end.link_offset
    rates = cluster.links.degraded(link.astype(np.int32), 0.25)
    bundle = cluster.links.bundle_of[link[0]]
    assert rates[bundle] / cluster.links.rate_bps[bundle] == pytest.approx(expected, rel=1e-12)
    assert (rates[: link[0]] == cluster.links.rate_bps[: link[0]]).all()
