"""Clusters: counts, networks, storage, background, what-if copies, bill and names."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from railyard import catalog
from railyard.catalog import load
from railyard.cluster import Background, ClusterSpec, FabricSpec, NetworkSpec, StorageSpec, bill_of, build
from railyard.cluster.names import link_name, node_name
from railyard.cluster.spec import overridden
from railyard.cluster.topology import DualPlane, LeafSpine, MultiSite, RailOptimized, ThreeTier, Torus
from railyard.kit.errors import InputError

KNOWN = catalog.load()
BASE = ClusterSpec(256, "hgx-h100", NetworkSpec(RailOptimized(), FabricSpec("uec")))


def machine(**changes):
    return build(dataclasses.replace(BASE, **changes), KNOWN)


def test_counts_and_offsets_fit_together():
    cluster = machine(front_end=NetworkSpec(), storage=StorageSpec("vast-ebox", 6))
    links = cluster.links
    assert (cluster.ranks, cluster.servers, cluster.ranks_per_server) == (256, 32, 8)
    assert cluster.back_end.port_of_rank.shape == (256, 1)
    assert len(np.unique(cluster.back_end.port_of_rank)) == 256
    for column in ("rate_bps", "line_bps", "latency_ps", "tier", "source", "target"):
        assert len(getattr(links, column)) == len(links)
    assert links.source.max() < cluster.nodes
    assert (links.rate_bps > 0).all()
    assert (links.latency_ps >= 0).all()
    for network in cluster.networks:
        part = slice(network.link_offset, network.link_offset + network.wiring.links)
        assert (links.source[part] - network.node_offset == network.wiring.source).all()


def test_bundles_stand_for_their_members():
    links = machine().links
    assert len(links) > links.physical
    member = np.flatnonzero(links.bundle_of >= 0)
    bundle = links.bundle_of[member]
    assert (bundle >= links.physical).all()
    assert (links.tier[member] == links.tier[bundle]).all()
    total = np.bincount(bundle, weights=links.rate_bps[member], minlength=len(links))[links.physical :]
    assert links.rate_bps[links.physical :] == pytest.approx(total)


def test_a_degraded_member_takes_its_part_of_the_bundle():
    links = machine().links
    member = np.flatnonzero(links.bundle_of >= 0)[:1].astype(np.int32)
    bundle = links.bundle_of[member[0]]
    size = np.count_nonzero(links.bundle_of == bundle)
    rate = links.degraded(member, 0.25)
    assert rate[bundle] == pytest.approx(links.rate_bps[bundle] * (1 - 0.75 / size))
    assert rate[member[0]] == pytest.approx(links.rate_bps[member[0]] / 4)
    assert np.count_nonzero(rate != links.rate_bps) == 2


@pytest.mark.parametrize("fabric", ["roce", "uec"])
def test_links_of_a_port_are_those_that_its_transfers_use(fabric):
    cluster = machine(back_end=NetworkSpec(DualPlane(inner=LeafSpine()), FabricSpec(fabric, {"qps": 64})))
    network = cluster.back_end
    ports = network.port_of_rank[:, 0]
    used = set(network.usage(ports[:1], ports[-1:], np.zeros(1, np.uint64)).link.tolist())
    (out, _), (_, into) = network.port_links(int(ports[0])), network.port_links(int(ports[-1]))
    assert set(out.tolist()) <= used
    assert set(into.tolist()) <= used
    assert cluster.links.line_bps[out].sum() == pytest.approx(400e9)


def test_hashed_fabrics_have_no_bundles():
    cluster = machine(back_end=NetworkSpec(RailOptimized(), FabricSpec("roce")))
    assert cluster.links.physical == len(cluster.links)


def test_building_is_deterministic():
    one, other = machine(), machine()
    for column in ("rate_bps", "latency_ps", "tier", "source", "target", "bundle_of"):
        assert (getattr(one.links, column) == getattr(other.links, column)).all()


@pytest.mark.parametrize(
    ("server", "accelerators", "nics_of_rank", "ranks_of_nic"),
    [
        ("hgx-h100", 16, 1, 1),
        ("dgx-a100", 16, 1, 1),
        ("gcp-a3-high", 16, 1, 2),
        ("aws-p5", 16, 4, 1),
        ("gb200-nvl72", 72, 1, 1),
    ],
)
def test_ranks_share_or_own_their_nics(server, accelerators, nics_of_rank, ranks_of_nic):
    cluster = build(ClusterSpec(accelerators, server), KNOWN)
    ports = cluster.back_end.port_of_rank
    assert ports.shape == (accelerators, nics_of_rank)
    assert np.unique(ports, return_counts=True)[1].max() == ranks_of_nic


def test_part_of_a_single_server_may_be_used():
    cluster = build(ClusterSpec(4, "hgx-h100"), KNOWN)
    assert (cluster.servers, cluster.ranks_per_server, cluster.scale_up_domain) == (1, 4, 4)


def test_a_nic_is_no_faster_than_its_share_of_pcie():
    fast = build(ClusterSpec(16, "hgx-h100", overrides={"nic": {"rate_bps": 800e9}}), KNOWN)
    nic = fast.links.of_tier("nic")
    assert fast.links.line_bps[nic] == pytest.approx(800e9)
    assert fast.links.rate_bps[nic] == pytest.approx(fast.server.pcie_bps)
    assert fast.server.pcie_bps < 800e9


@pytest.mark.parametrize(
    ("fabric", "nic", "said"),
    [
        ("uec", "cx7-400g", "on Ethernet, as this fabric needs; bf3-400g does, for $12.8k more"),
        ("spectrum-x", "cx7-400g", "on Ethernet, as this fabric needs; bf3-400g does, for $12.8k more"),
        ("uec", "thor2-400g", "on Ethernet, as this fabric needs; the catalogue has none of Broadcom that does"),
        ("infiniband", "cx7-400g", ""),
        ("uec", "bf3-400g", ""),
        ("roce", "thor2-400g", ""),
        ("scheduled", "thor2-400g", ""),
        ("uec-htsim", "cx7-400g", ""),
    ],
)
def test_nics_that_cannot_order_the_packets_of_a_fabric_are_noted(fabric, nic, said):
    """Sixteen NICs of $1.7k, where those of $2.5k can; credits and hashed flows keep the order."""
    network = NetworkSpec(LeafSpine(), FabricSpec(fabric))
    found = build(ClusterSpec(16, "hgx-h100", network, overrides={"server": {"nic": nic}}), KNOWN)
    assert len(found.remarks) == bool(said)
    assert said in " ".join(found.remarks)
    assert found.fitting_nics_usd == (16 * 800 if "more" in said else None)


def test_all_networks_are_exchanged_by_identity():
    """Three networks of their own, and one that is two at once."""
    apart = machine(front_end=NetworkSpec(), storage=StorageSpec("vast-ebox", 6, NetworkSpec()))
    assert len(apart.networks) == 3
    other = apart.with_networks(lambda network: dataclasses.replace(network, name=f"other {network.name}"))
    found = [network.name for network in (other.back_end, other.front_end, other.storage)]
    assert found == [f"other {network.name}" for network in (apart.back_end, apart.front_end, apart.storage)]
    front = machine(front_end=NetworkSpec(), storage=StorageSpec("vast-ebox", 6))
    same = front.with_networks(lambda network: dataclasses.replace(network, name="other"))
    assert same.storage is same.front_end
    assert same.storage.name == "other"


def test_storage_lies_where_it_is_put():
    own = NetworkSpec(LeafSpine())
    front = machine(front_end=NetworkSpec(), storage=StorageSpec("vast-ebox", 6))
    back = machine(storage=StorageSpec("vast-ebox", 6, "back_end"))
    apart = machine(storage=StorageSpec("vast-ebox", 6, own))
    assert front.storage is front.front_end
    assert back.storage is back.back_end
    assert apart.storage is not None
    assert apart.storage.name == "storage"
    for cluster in (front, back, apart):
        servers = cluster.storage_servers
        assert servers.count == 6
        assert (cluster.links.target[servers.read_link] == cluster.storage.node_offset + servers.ports[:, 0]).all()
        assert cluster.links.rate_bps[servers.read_link] == pytest.approx(servers.entry.read_bps)
        assert cluster.links.rate_bps[servers.write_link] == pytest.approx(servers.entry.write_bps)
        ports = cluster.storage.port_of_rank[:, 0]
        assert cluster.storage.reachable(np.resize(servers.ports[:, 0], len(ports)), ports).all()
    together = front.storage_servers.ports.shape[1] * 200e9
    assert together >= front.storage_servers.entry.network_bps


def test_local_storage_needs_no_network():
    cluster = machine(storage=StorageSpec("local-nvme", 1))
    assert cluster.storage is None
    assert cluster.storage_servers.local
    assert cluster.storage_servers.count == cluster.servers


def test_background_takes_its_share_of_a_tier():
    spec = NetworkSpec(RailOptimized(), FabricSpec("uec"))
    quiet, busy = machine(back_end=spec), machine(back_end=spec, background=(Background("back_end", 0.3),))
    ratio = busy.links.rate_bps / quiet.links.rate_bps
    between = quiet.links.tier == quiet.links.tiers.index("leaf-spine")
    assert ratio[between] == pytest.approx(0.7)
    assert ratio[~between] == pytest.approx(1.0)
    one = machine(back_end=spec, background=(Background("back_end", 0.5, "nic"),))
    nic = one.links.of_tier("nic")
    assert one.links.rate_bps[nic] == pytest.approx(quiet.links.rate_bps[nic] / 2)


def test_what_if_copies_change_what_they_name_and_share_the_rest():
    cluster = machine(front_end=NetworkSpec(), storage=StorageSpec("vast-ebox", 4))
    links = cluster.links
    faster = cluster.scaled(
        nic=2.0, fabric_tiers={"leaf-spine": 3.0}, scale_up=4.0, storage=5.0, flops=6.0, memory_bandwidth=7.0
    )
    ratio = faster.links.rate_bps / links.rate_bps
    wanted = {"scale-up": 4.0, "nic": 2.0, "leaf-spine": 3.0}
    for index, tier in enumerate(links.tiers):
        assert ratio[links.tier == index] == pytest.approx(wanted.get(tier, 5.0))
    assert faster.accelerator.flops["bf16"] == pytest.approx(6 * cluster.accelerator.flops["bf16"])
    assert faster.accelerator.memory_bps == pytest.approx(7 * cluster.accelerator.memory_bps)
    assert faster.links.source is links.source
    assert faster.back_end.wiring is cluster.back_end.wiring
    assert faster.storage is faster.front_end
    assert bill_of(faster).total_usd == bill_of(cluster).total_usd


def test_latency_scales_everywhere():
    cluster = machine()
    pair = cluster.back_end.port_of_rank[:1, 0], cluster.back_end.port_of_rank[-1:, 0]
    slower = cluster.scaled(latency=2.0)
    assert slower.back_end.path_latency_ps(*pair)[0] == pytest.approx(
        2 * cluster.back_end.path_latency_ps(*pair)[0], rel=1e-6
    )
    assert slower.scale_up.latency_ps == 2 * cluster.scale_up.latency_ps
    assert (slower.links.latency_ps == 2 * cluster.links.latency_ps).all()


def test_the_bill_counts_what_was_wired():
    cluster = machine(front_end=NetworkSpec(), storage=StorageSpec("vast-ebox", 4))
    bill = bill_of(cluster)
    assert bill.count("accelerator") == 256
    assert bill.count("server") == 32
    assert bill.count("storage") == 4
    switches = sum(group.count for network in cluster.networks for group in network.wiring.groups)
    assert bill.count("switch") == switches
    cables = sum(network.wiring.links for network in cluster.networks) // 2
    assert bill.count("cable") + bill.count("fibre") == cables
    assert bill.total_usd.low < bill.total_usd.typical < bill.total_usd.high
    assert bill.total_w.low < bill.total_w.typical < bill.total_w.high
    assert not bill.unpriced
    nics = {row.network: row.count for row in bill.of("nic")}
    assert nics == {"back-end": 256, "front-end": 64}


def test_copper_where_it_reaches_and_optics_beyond():
    near = machine(back_end=NetworkSpec(LeafSpine(), lengths_m={"nic": 2.0, "leaf-spine": 50.0}))
    kinds = {
        (row.tier, row.kind) for row in bill_of(near) if row.network == "back-end" and row.kind in {"cable", "optic"}
    }
    assert kinds == {("nic", "cable"), ("leaf-spine", "optic")}
    far, farther = (
        bill_of(machine(back_end=NetworkSpec(MultiSite(inner=LeafSpine(), distance_m=distance_m))))
        for distance_m in (500_000.0, 1_500_000.0)
    )
    assert not far.unpriced
    assert any("inter-site" in words for words in farther.unpriced)


def test_lines_between_sites_are_priced_by_the_kilometre():
    """256 NICs of 400 Gb/s on two sites, 4:1: 16 links of 800 Gb/s in one fibre pair; 7 spans of 80 km have 6 ends."""
    bill = bill_of(machine(back_end=NetworkSpec(MultiSite(inner=LeafSpine(), distance_m=500_000.0))))
    found = {row.kind: (row.count, row.price_usd.typical) for row in bill if row.tier == "inter-site"}
    assert found == {
        "optic": (32, 22_000.0),
        "fibre": (16, 30.0),
        "terminal": (2, 30_000.0),
        "amplifier": (6, 25_000.0),
        "route": (500, 1_250.0),
    }


def test_borders_of_a_scheduled_fabric_are_cabled_singly():
    """Lanes of cells share a module of 800 Gb/s; links of 400 Gb/s to a border do not make one of 3.2 Tb/s."""
    sites = MultiSite(inner=LeafSpine(), distance_m=80_000.0)
    bill = bill_of(machine(back_end=NetworkSpec(sites, FabricSpec("scheduled"))))
    assert not bill.unpriced
    assert any(row.tier == "border" for row in bill)


def test_modules_of_short_reach_take_a_fibre_pair_each():
    bill = bill_of(machine(back_end=NetworkSpec(MultiSite(sites=4, inner=LeafSpine(), distance_m=1_500.0))))
    pairs = bill.of("fibre")[-1].count
    assert [row.count for row in bill.of("route")] == [2 * pairs]
    assert not bill.of("terminal")


def test_cell_lanes_share_cables():
    cluster = machine(back_end=NetworkSpec(LeafSpine(), FabricSpec("scheduled")))
    lanes = np.count_nonzero(cluster.back_end.wiring.tier == 1) // 2
    optics = sum(row.count for row in bill_of(cluster).of("optic") if row.tier == "leaf-spine")
    assert optics == 2 * -(-lanes // 8)


def test_distance_is_propagation():
    near, far = (
        machine(back_end=NetworkSpec(MultiSite(inner=LeafSpine(), distance_m=1000.0 * km))) for km in (50, 100)
    )
    rank = near.back_end.port_of_rank[:, 0]
    times = [cluster.back_end.path_latency_ps(rank[:1], rank[-1:])[0] for cluster in (near, far)]
    assert times[1] - times[0] == pytest.approx(50_000 * 5.13e3, rel=1e-3)  # 5.13 ns/m of fibre
    # 2 x 50 km take about 0.51 ms: 632 us was measured with the equipment at both ends.
    assert 2 * times[0] / 1e6 == pytest.approx(513, abs=40)


def test_facts_of_a_network():
    cluster = machine(
        back_end=NetworkSpec(ThreeTier(oversubscription=2.0, spine_oversubscription=1.0, leafs_per_pod=2))
    )
    ratios = cluster.back_end.wiring.oversubscription()
    assert ratios["leaf-spine"] == pytest.approx(2.0, rel=0.1)
    assert ratios["spine-core"] == pytest.approx(1.0, rel=0.15)
    assert cluster.back_end.wiring.bisection_bps == pytest.approx(128 * 400e9 / 2, rel=0.1)
    assert cluster.back_end.wiring.pod_ports >= 128


def test_names_are_for_people():
    cluster = machine(front_end=NetworkSpec(), storage=StorageSpec("vast-ebox", 4))
    names = [node_name(cluster, node) for node in range(cluster.nodes)]
    assert len(set(names)) == cluster.nodes
    assert names[0] == "rank 0"
    assert names[256] == "scale-up 0"
    assert "back-end server 3 NIC 5" in names
    assert "back-end leaf 0" in names
    assert names[-1] == "storage 3"
    assert link_name(cluster, 0) == "rank 0 -> scale-up 0"
    assert "its like" in link_name(cluster, len(cluster.links) - 1)
    for wrong in (-1, cluster.nodes):
        with pytest.raises(InputError):
            node_name(cluster, wrong)


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"accelerators": 0}, "accelerators", "at least one"),
        ({"accelerators": 100}, "accelerators", "96 or 104"),
        ({"server": "hgx-h101"}, "server", "hgx-h100"),
        ({"back_end": NetworkSpec(link_rate_bps=800e9)}, "back_end.link_rate", "at most 400 Gb/s"),
        ({"back_end": NetworkSpec(switch="tomahawk5x")}, "back_end.switch", "tomahawk-5"),
        ({"back_end": NetworkSpec(switch="quantum-2-qm9700")}, "back_end.switch", "ethernet"),
        (
            {"back_end": NetworkSpec(switch="tomahawk-3", spine_switch="quantum-2-qm9700")},
            "back_end.spine_switch",
            "ethernet",
        ),
        ({"back_end": NetworkSpec(fabric=FabricSpec("rose"))}, "back_end.fabric", "roce"),
        ({"back_end": NetworkSpec(lengths_m={"spine": 3.0})}, "back_end.cable_length.spine", "nic"),
        ({"back_end": NetworkSpec(lengths_m={"nic": 0.0})}, "back_end.cable_length.nic", "length"),
        ({"accelerators": 65536, "back_end": NetworkSpec(LeafSpine())}, "back_end.topology.kind", "three-tier"),
        ({"storage": StorageSpec("vast-ebox", 4)}, "storage.network", "front_end"),
        ({"storage": StorageSpec("vast-ebox", 0, "back_end")}, "storage.servers", "at least one"),
        ({"storage": StorageSpec("vast-ebox", 4, "backend")}, "storage.network", "back_end"),
        ({"storage": StorageSpec("vats", 4)}, "storage.name", "vast"),
        (
            {"storage": StorageSpec("vast-ebox", 4, NetworkSpec(LeafSpine(spines=0, ports_per_leaf=8)))},
            "storage.network.topology.spines",
            "spines",
        ),
        ({"background": (Background("backend", 0.1),)}, "background[0].network", "back_end"),
        ({"background": (Background("back_end", 1.0),)}, "background[0].load", "less than 1"),
        ({"background": (Background("back_end", 0.1, "spine"),)}, "background[0].tier", "leaf-spine"),
        ({"overrides": {"gpu": {}}}, "overrides.gpu", "accelerator"),
        ({"overrides": {"nic": {"rate": 3}}}, "overrides.nic.rate", "rate_bps"),
        ({"back_end": NetworkSpec(fabric=FabricSpec("roce", {"sharp": True}))}, "back_end.fabric.sharp", "SHARP"),
    ],
)
def test_impossible_clusters_are_refused(changes, key, words):
    with pytest.raises(InputError) as caught:
        machine(**changes)
    problem = caught.value.problems[0]
    assert problem.key == key
    assert words in problem.render()


def test_overrides_reach_every_part():
    cluster = machine(
        overrides={
            "accelerator": {"memory_bps": 1e12, "flops": {"bf16": 1e15}},
            "server": {"pcie_bps": 1e11},
            "switch": {"capacity_bps": 25.6e12, "ports": 32},
        }
    )
    assert cluster.accelerator.memory_bps == 1e12
    assert cluster.accelerator.flops["bf16"] == 1e15
    assert cluster.accelerator.flops["fp8"] > 1e15
    assert cluster.links.rate_bps[cluster.links.of_tier("nic")] == pytest.approx(1e11)


def test_a_large_cluster_has_few_routing_records():
    cluster = build(ClusterSpec(16384, "hgx-h100", NetworkSpec(ThreeTier(), FabricSpec("roce"))), KNOWN)
    table = cluster.back_end.wiring.routing
    assert len(table.lo) < 3 * table.nodes
    assert len(table.choices) < 2 * cluster.back_end.wiring.links


def test_the_crossbar_over_a_torus_has_links_of_its_own():
    spec = ClusterSpec(32, "hgx-h100", NetworkSpec(Torus(dimensions=(8, 4)), FabricSpec("ideal")))
    cluster = build(spec, KNOWN)
    network = cluster.back_end
    usage = network.endpoints(np.array([0, 1]), np.array([1, 0]))
    assert len(set(usage.link.tolist())) == 4
    assert np.allclose(cluster.links.rate_bps[usage.link], 400e9)
    assert {cluster.links.tiers[tier] for tier in cluster.links.tier[usage.link]} == {"nic"}
    out, into = network.port_links(0)
    assert link_name(cluster, int(out[0])) == "back-end server 0 NIC 0 -> back-end crossbar"
    assert link_name(cluster, int(into[0])) == "back-end crossbar -> back-end server 0 NIC 0"
    assert cluster.scaled(nic=2.0).links.rate_bps[out[0]] == 800e9
    real = build(ClusterSpec(32, "hgx-h100", NetworkSpec(Torus(dimensions=(8, 4)), FabricSpec("spectrum-x"))), KNOWN)
    assert bill_of(cluster).count("optic") == bill_of(real).count("optic")


# Servers with more accelerators or NICs than their entry names memory domains for.


@pytest.mark.parametrize(
    ("values", "accelerators", "nics"),
    [
        ({"accelerators": 6}, (0, 0, 0, 1, 1, 1), (0,)),
        ({"nics": 3}, (0, 0, 1, 1), (0, 0, 0)),
        ({"nics": 2, "nic_numa": (1, 0)}, (0, 0, 1, 1), (1, 0)),
    ],
)
def test_further_parts_are_dealt_out_as_the_entrys_are(values, accelerators, nics):
    """The host of four TPUs names (0, 0, 1, 1) and one NIC in domain 0."""
    found = overridden(load().server("tpu-v5p-host"), values, "server")
    assert (found.accelerator_numa, found.nic_numa) == (accelerators, nics)
