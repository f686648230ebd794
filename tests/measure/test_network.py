"""Loads of tiers and links and the picture, on a real small cluster with bytes put on its links by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard import catalog, cluster, engine
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.collective import CollectivePolicy
from railyard.graph import Communicators, Job, Kind, Label, Record, TaskGraph
from railyard.measure.decompose import Cause, decompose
from railyard.measure.network import POINTS, background, distribution, network_use, packet_section, scale_up_groups
from railyard.measure.picture import BOXES, drawing_of, tiered, topology_picture

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
    found = network_use(line, machine, decompose(line)).figures
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
    assert network_use(line, machine, decompose(line)).figures.saturated_tier == "leaf-spine"
    line = exposed(ranks, {"nic": 100e6, "leaf-spine": 90e6})
    assert network_use(line, machine, decompose(line)).figures.saturated_tier == "nic"
    line = exposed([0, 1, 2, 3], {"scale-up": 500e6, "nic": 1e6}, group="tp")
    assert scale_up_groups(line.graph, machine) == {"tp"}
    assert network_use(line, machine, decompose(line)).figures.saturated_tier == "scale-up"


def test_no_tier_saturates_when_nobody_waits_for_bandwidth(machine, yard):
    job = yard(machine.ranks)
    for rank in range(machine.ranks):
        job.compute(rank, 6 * MS)
    line = replace(job.play(), tables={"links": {"bytes": np.full(len(machine.links), 1e5)}})
    assert network_use(line, machine, decompose(line)).figures.saturated_tier is None


def test_hot_links_are_named_and_bundles_spread_over_their_members(machine, exposed):
    line = exposed([0, 8], {})
    hottest = int(machine.links.of_tier("leaf-spine")[5])
    line.table("links")["bytes"][hottest] = 1e8
    (found,) = network_use(line, machine, decompose(line)).figures.hot_links
    assert found.tier == "leaf-spine"
    assert "leaf" in found.name
    assert "spine" in found.name
    assert found.utilization == pytest.approx(8 * 1e8 / machine.links.line_bps[hottest] / 0.010)


def test_the_picture_draws_every_used_link_once(machine, exposed):
    line = exposed([0, 8], {"nic": 1e6, "leaf-spine": 3e6})
    use = network_use(line, machine, decompose(line))
    drawn = topology_picture(machine, use.load).plain()
    picture = drawn["picture"]
    network = machine.back_end
    assert drawn["kind"] == "leaf-spine"
    assert drawn["nodes"] == sum(group.count for group in network.wiring.groups)
    assert [tier["name"] for tier in picture["tiers"]] == ["servers", "leaf", "spine"]
    assert [sum(node["count"] for node in tier["nodes"]) for tier in picture["tiers"]] == [
        machine.servers,
        sum(group.count for group in network.wiring.groups if group.role == "leaf"),
        sum(group.count for group in network.wiring.groups if group.role == "spine"),
    ]
    assert all(len(tier["nodes"]) <= BOXES for tier in picture["tiers"])
    assert sum(edge["links"] for edge in picture["edges"]) == network.wiring.links
    busiest = {(edge["from"][0], edge["to"][0]): edge["max"] for edge in picture["edges"]}
    for (low, high), load in busiest.items():
        assert load == pytest.approx(8 * (1e6 if (low, high) == (0, 1) else 3e6) / 400e9 / 0.010, rel=1e-3)
    for edge in picture["edges"]:
        for tier, node in (edge["from"], edge["to"]):
            assert node < len(picture["tiers"][tier]["nodes"])


# Background traffic: its own times with a job and without it.

US = 10**6


def flows(alone=True):
    """Two flows of a job, done at 90 us; four of bursts, one of them begins later, one ends later."""
    start = np.array([0, 10, 0, 20, 50, 95]) * US
    end = np.array([40, 90, 30, 80, 120, 99]) * US
    table = {"row": np.array([2, 3, 4, 5]), "alone_ps": np.array([10, 20, 40, 4]) * US}
    return Record(
        rows="flows",
        who=np.zeros(6, np.int32),
        what=np.array([0, 0, 1, 1, 1, 1], np.int32),
        start_ps=start,
        end_ps=end,
        size_bytes=np.full(6, 10**6),
        labels=[Label("", "all-reduce"), Label("", "incast beside")],
        tables={"background": table} if alone else {},
        meta={},
    )


def test_a_job_alone_has_no_rows():
    assert not list(background(flows(alone=False)))


def test_flows_that_began_before_the_job_was_done_count():
    (row,) = background(flows())
    assert (row.group, row.flows) == ("incast beside", 3)
    assert row.finished_share == pytest.approx(2 / 3)
    assert row.mean_us == pytest.approx((30 + 60 + 70) / 3)
    assert (row.p99_us, row.max_us) == (70, 70)
    assert row.alone_mean_us == pytest.approx(70 / 3)
    assert row.alone_p99_us == 40
    assert row.slowdown == pytest.approx(160 / 70)


# Collisions of hashed flows are contention, also those of one collective with itself.

RANKS = 256


def _waits(fabric, rings, **overrides):
    """(seconds of bandwidth, of contention) of a rank whose ring all-reduces of 1 GiB run beside the others'."""
    spec = cluster.NetworkSpec(
        topology=cluster.topologies.get("leaf-spine")(ports_per_leaf=32), fabric=cluster.FabricSpec(fabric, overrides)
    )
    machine = cluster.build(cluster.ClusterSpec(RANKS, "hgx-h100", spec), catalog.load())
    # a ring has one rank a server, or all
    members = np.arange(RANKS).reshape(-1, rings).T if rings > 1 else np.arange(RANKS)[None, :]
    graph = TaskGraph.of(
        RANKS,
        kind=Kind.COLLECTIVE,
        rank=np.arange(rings),
        size_bytes=1 << 30,
        labels=[Label("gradient", "all reduce", "dp")],
        communicators=Communicators.of(members, "dp"),
    )
    policy = CollectivePolicy(algorithm={"all-reduce": "ring"}, protocol={"all-reduce": "simple"}, connections=1)
    line = engine.get("flow").simulate([Job(graph)], machine, policy=policy)
    found = decompose(line)
    assert (found.by_rank_ps.sum(axis=1) == line.makespan_ps).all()
    return found.seconds(Cause.BANDWIDTH), found.seconds(Cause.CONTENTION)


@pytest.mark.parametrize("rings", [1, 8])
def test_rings_that_collide_wait_for_contention_and_not_for_more_bandwidth(rings):
    even = {"congestion_efficiency": 1.0}
    bandwidth, contention = _waits("roce", rings, qps=1, **even)
    sprayed, none = _waits("roce", rings, load_balancing="spray", **even)
    assert none == pytest.approx(0, abs=0.02 * sprayed)
    assert contention > 0.3 * bandwidth
    assert bandwidth == pytest.approx(sprayed, rel=0.03)


# The packet section of a result against what numpy says of the same flows.

TIMES = st.lists(st.integers(1, 10**9), min_size=1, max_size=400)


def packets_flows(fct_ps, *, group=None, groups=()):
    fct = np.asarray(fct_ps, np.int64)
    number = np.arange(len(fct), dtype=np.int32)
    return Record(
        rows="flows",
        who=number,
        what=np.zeros(len(fct), np.int32) if group is None else group.astype(np.int32),
        start_ps=np.zeros(len(fct), np.int64),
        end_ps=fct,
        size_bytes=np.full(len(fct), 1000),
        labels=[Label("", name) for name in groups],
        optional={"target": number + np.int32(1)},
    )


@given(TIMES)
def test_percentiles_are_those_of_the_nearest_rank(times):
    found = packet_section(packets_flows(times), {"new": 5}).plain()["fct_us"]
    for key, percent in (("p50", 50), ("p99", 99), ("p999", 99.9)):
        assert found[key] == pytest.approx(np.percentile(times, percent, method="inverted_cdf") / 1e6)
    assert found["min"] == min(times) / 1e6
    assert found["max"] == max(times) / 1e6


@given(TIMES)
def test_the_distribution_holds_true_points_only(times):
    points = distribution(np.asarray(times, float))
    assert len(points) <= POINTS
    assert points[-1] == (max(times), 1.0)
    assert list(points) == sorted(points)
    ordered = np.sort(times)
    for time, share in points:
        assert ordered[round(share * len(times)) - 1] == time


def test_the_slowest_of_many_have_their_own_points():
    points = distribution(np.arange(1.0, 100_001.0))
    assert [time for time, _ in points[-4:]] == [99_997, 99_998, 99_999, 100_000]


def test_groups_and_their_slowest_are_named():
    found = packet_section(packets_flows([5, 9, 7, 1], group=np.array([0, 0, 1, 1]), groups=("a", "b")), {}).plain()
    rows = {row["group"]: row for row in found["tails"]}
    assert set(rows) == {"all", "a", "b"}
    assert rows["b"]["slowest"] == "h2->h3"
    assert rows["all"]["slowest"] == rows["a"]["slowest"] == "h1->h2"


def test_flows_that_never_finished_count_as_flows_only():
    part = packets_flows([5, -1, 7])
    found = packet_section(part, {"new": 3}).plain()
    assert (found["flows_total"], found["flows_finished"]) == (3, 2)
    assert found["tails"][0]["flows"] == 2
    none = packet_section(packets_flows([-1]), {"new": 3}).plain()
    assert none["tails"] == []
    assert none["fct_us"]["max"] is None
    assert none["last_finish_us"] is None


# Drawings of networks: boxes in the order of names, edges between them, and where a part lies.


@pytest.fixture(scope="module")
def picture_machine():
    from railyard.cluster.topology.leaf_spine import LeafSpine

    network = cluster.NetworkSpec(topology=LeafSpine(ports_per_leaf=8, spines=4))
    return cluster.build(cluster.ClusterSpec(accelerators=32, server="hgx-h100", back_end=network), catalog.load())


def test_neighbours_are_those_of_their_numbers():
    names = [f"leaf{number}" for number in (10, 2, 9)] + ["spine0"]
    ends = np.array([[0, 1, 2, 2], [3, 3, 3, 3]])
    drawing = tiered(names, np.array([0, 0, 0, 1]), ["leaf", "spine"], ends)
    picture = drawing.picture(np.array([0.1, 0.2, 0.3, 0.9]))
    assert [box.label for box in picture.tiers[0].nodes] == ["leaf2", "leaf9", "leaf10"]
    assert [(edge.from_, edge.links, edge.max) for edge in picture.edges] == [
        ((0, 0), 1, 0.2),
        ((0, 1), 2, 0.9),
        ((0, 2), 1, 0.1),
    ]
    assert picture.edges[1].mean == pytest.approx(0.6)
    assert drawing.busiest(np.array([[1, 2, 3, 9], [4, 0, 8, 7]], np.uint8)).tolist() == [[2, 9, 1], [0, 8, 4]]


def test_nodes_that_no_row_has_are_not_drawn():
    drawing = tiered(["a", "b", "c"], np.array([0, 1, -1]), ["x", "y"], np.array([[0, 2], [1, 1]]))
    picture = drawing.picture(np.zeros(2))
    assert len(picture.edges) == 1
    place = drawing.place(np.array([0, 1]), np.array([2, 0, 1]))
    assert (place.boxes, place.edges) == (((0, 0), (1, 0)), (0,))


def test_a_cable_lies_between_its_two_switches(picture_machine):
    drawing, network = drawing_of(picture_machine), picture_machine.back_end
    links = ClusterPlaces.of(picture_machine).cable("leaf 1 - spine 2") - network.link_offset
    place = drawing.place(links, np.unique(drawing.ends[:, links]))
    assert place.boxes == ((1, 1), (2, 2))
    (edge,) = place.edges
    found = drawing.picture(np.zeros(drawing.ends.shape[1])).edges[edge]
    assert (found.from_, found.to) == ((1, 1), (2, 2))
