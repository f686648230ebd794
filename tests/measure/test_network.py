"""Loads of tiers and links and the picture, on a real small cluster with bytes put on its links by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railyard import catalog, cluster
from railyard.measure.decompose import decompose
from railyard.measure.network import network_use, scale_up_groups
from railyard.measure.picture import BOXES, topology_picture

MS = 10**9


@pytest.fixture(scope="module")
def machine():
    from railyard.cluster.topology.leaf_spine import LeafSpine

    network = cluster.NetworkSpec(topology=LeafSpine(oversubscription=3.0, ports_per_leaf=16))
    return cluster.build(cluster.ClusterSpec(accelerators=256, server="hgx-h100", back_end=network), catalog.load())


@pytest.fixture
def exposed(yard, machine):
    """A step of 10 ms of which 4 ms are an exposed collective of `group`, with `carried` bytes on links by tier."""

    def make(members, carried, *, group="dp"):
        job = yard(machine.ranks)
        for rank in range(machine.ranks):
            job.compute(rank, 6 * MS)
        job.collective(job.group(group, members), 4 * MS)
        links = machine.links
        volume = np.zeros(len(links))
        for tier, size in carried.items():
            volume[links.of_tier(tier)] = size
        return replace(job.play(), tables={"links": {"bytes": volume}})

    return make


def test_load_is_bytes_over_line_rate_and_step(machine, exposed):
    line = exposed([0, 8], {"nic": 400e9 / 8 * 0.010 * 0.25})
    found = network_use(line, machine, decompose(line))
    nic = next(tier for tier in found.tiers if tier.name == "nic")
    assert nic.links == 2 * machine.ranks
    assert nic.rate_bps == 400e9
    assert nic.mean_utilization == pytest.approx(0.25)
    assert nic.max_utilization == pytest.approx(0.25)
    assert nic.bytes == pytest.approx(nic.links * 400e9 / 8 * 0.0025)
    assert next(tier for tier in found.tiers if tier.name == "leaf-spine").bytes == 0


def test_the_tier_whose_busiest_link_takes_longest_saturates(machine, exposed):
    ranks = list(range(0, 256, 8))
    line = exposed(ranks, {"nic": 100e6, "leaf-spine": 180e6})
    assert network_use(line, machine, decompose(line)).saturated_tier == "leaf-spine"
    line = exposed(ranks, {"nic": 100e6, "leaf-spine": 90e6})
    assert network_use(line, machine, decompose(line)).saturated_tier == "nic"
    line = exposed([0, 1, 2, 3], {"scale-up": 500e6, "nic": 1e6}, group="tp")
    assert scale_up_groups(line.graph, machine) == {"tp"}
    assert network_use(line, machine, decompose(line)).saturated_tier == "scale-up"


def test_no_tier_saturates_when_nobody_waits_for_bandwidth(machine, yard):
    job = yard(machine.ranks)
    for rank in range(machine.ranks):
        job.compute(rank, 6 * MS)
    line = replace(job.play(), tables={"links": {"bytes": np.full(len(machine.links), 1e5)}})
    assert network_use(line, machine, decompose(line)).saturated_tier is None


def test_hot_links_are_named_and_bundles_spread_over_their_members(machine, exposed):
    line = exposed([0, 8], {})
    hottest = int(machine.links.of_tier("leaf-spine")[5])
    line.table("links")["bytes"][hottest] = 1e8
    found = network_use(line, machine, decompose(line), hot=3)
    (name, tier, load), *others = found.hot_links
    assert not others
    assert tier == "leaf-spine"
    assert "leaf" in name
    assert "spine" in name
    assert load == pytest.approx(8 * 1e8 / machine.links.line_bps[hottest] / 0.010)


def test_the_picture_draws_every_used_link_once(machine, exposed):
    line = exposed([0, 8], {"nic": 1e6, "leaf-spine": 3e6})
    use = network_use(line, machine, decompose(line))
    drawn = topology_picture(machine, use.load).plain()
    picture = drawn["picture"]
    network = machine.back_end
    assert drawn["kind"] == "leaf-spine"
    assert drawn["nodes"] == sum(group.count for group in network.groups)
    assert [tier["name"] for tier in picture["tiers"]] == ["servers", "leaf", "spine"]
    assert [sum(node["count"] for node in tier["nodes"]) for tier in picture["tiers"]] == [
        machine.servers,
        sum(group.count for group in network.groups if group.role == "leaf"),
        sum(group.count for group in network.groups if group.role == "spine"),
    ]
    assert all(len(tier["nodes"]) <= BOXES for tier in picture["tiers"])
    assert sum(edge["links"] for edge in picture["edges"]) == network.wiring.links
    busiest = {(edge["from"][0], edge["to"][0]): edge["max"] for edge in picture["edges"]}
    for (low, high), load in busiest.items():
        assert load == pytest.approx(8 * (1e6 if (low, high) == (0, 1) else 3e6) / 400e9 / 0.010, rel=1e-3)
    for edge in picture["edges"]:
        for tier, node in (edge["from"], edge["to"]):
            assert node < len(picture["tiers"][tier]["nodes"])
