"""Fabrics: constants with their sources, closed forms of overheads, published latencies."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from railyard import catalog
from railyard.cluster import ClusterSpec, Fabric, FabricSpec, NetworkSpec, build, fabrics
from railyard.cluster.fabric import from_mapping
from railyard.cluster.topology import LeafSpine, RailOnly, RailOptimized
from railyard.kit.errors import InputError

every_fabric = pytest.mark.parametrize(
    "fabric", [record for _, record in fabrics.items()], ids=lambda record: record.name
)
STRUCTURE = {"packets", "behavior", "model_of", "name", "summary", "switches", "families", "left_out", "sources"}
DEFAULTS = {field.name: field.default for field in fields(Fabric)}


def machine(fabric, accelerators=256, topology=None, server="hgx-h100"):
    spec = NetworkSpec(topology or LeafSpine(), FabricSpec(fabric) if isinstance(fabric, str) else fabric)
    return build(ClusterSpec(accelerators, server, spec), catalog.load())


def test_the_six_are_there():
    assert {"roce", "infiniband", "spectrum-x", "uec", "scheduled", "ideal"} <= set(fabrics.names())


@every_fabric
def test_every_constant_that_is_not_neutral_has_a_source(fabric):
    for name, default in DEFAULTS.items():
        if (
            name in STRUCTURE
            or getattr(fabric, name) == default
            or (name == "load_balancing" and fabric.load_balancing in {"ecmp", "ideal"})
        ):
            continue
        assert name in fabric.sources, f"{fabric.name}.{name}"
    for name, origin in fabric.sources.items():
        assert hasattr(fabric, name)
        assert origin.source
        assert origin.value_text
        assert 2000 < origin.year < 2100
        assert origin.confidence in {"vendor", "measured", "estimated"}


@every_fabric
def test_a_fabric_says_what_it_leaves_out_and_runs_on_switches_of_the_catalogue(fabric):
    assert fabric.left_out
    known = catalog.load()
    for leaf, spine in fabric.switches:
        assert known.switch(leaf).family in fabric.families
        assert known.switch(spine).family in fabric.families


@every_fabric
def test_a_cluster_of_it_builds_and_every_pair_is_joined(fabric):
    cluster = machine(fabric.name, topology=RailOptimized())
    ports = cluster.back_end.port_of_rank[:, 0]
    usage = cluster.back_end.usage(ports, np.roll(ports, 17), np.arange(len(ports), dtype=np.uint64))
    out = np.bincount(usage.link, weights=usage.share, minlength=len(cluster.links))
    nic = cluster.links.tiers.index("nic")
    own = np.bincount(usage.rows(), weights=usage.share * (cluster.links.tier[usage.link] == nic))
    assert own == pytest.approx(2.0)  # every byte crosses the sender's link and the receiver's
    assert out.max() > 0


@pytest.mark.parametrize(
    ("name", "mtu", "efficiency"),
    [("roce", 4096, 0.980), ("roce", 1024, 0.926), ("infiniband", 4096, 0.994)],
)
def test_header_overhead_is_that_of_the_wire_format(name, mtu, efficiency):
    fabric = FabricSpec(name, {"mtu_bytes": mtu, "transport_efficiency": 1.0}).resolve()
    assert fabric.payload_efficiency == pytest.approx(efficiency, abs=0.0005)


def test_one_flow_reaches_what_was_measured():
    assert fabrics.get("roce").payload_efficiency * 400 == pytest.approx(8 * 48.35, rel=0.005)
    assert fabrics.get("infiniband").payload_efficiency * 200 == pytest.approx(197.5, rel=0.005)


@pytest.mark.parametrize(
    ("name", "same_us", "cross_us"),
    [("infiniband", 2.8, 3.7), ("roce", 3.6, 5.6)],  # DeepSeek-V3 hardware paper, ISCA 2025, table 5
)
def test_latency_on_one_leaf_and_across(name, same_us, cross_us):
    network = machine(name).back_end
    ports = network.port_of_rank[:, 0]
    same = network.path_latency_ps(ports[:1], ports[1:2])[0] / 1e6
    cross = network.path_latency_ps(ports[:1], ports[-1:])[0] / 1e6
    assert same == pytest.approx(same_us, rel=0.05)
    assert cross == pytest.approx(cross_us, rel=0.05)


def test_a_scheduled_fabric_pays_for_credits_once_and_for_cells_between_switches():
    cluster = machine("scheduled")
    network, links = cluster.back_end, cluster.links
    usual = machine("roce").back_end
    pair = (network.port_of_rank[:1, 0], network.port_of_rank[1:2, 0])
    usual_pair = (usual.port_of_rank[:1, 0], usual.port_of_rank[1:2, 0])
    assert network.path_latency_ps(*pair)[0] - usual.path_latency_ps(*usual_pair)[0] == 3_000_000
    up = links.of_tier("leaf-spine")
    assert links.rate_bps[up] == pytest.approx(links.line_bps[up] * 240 / 256)
    # Lanes to the fabric outnumber those to the NICs by 160 : 144, which pays for the cell headers.
    per_leaf = links.rate_bps[up][links.source[up] == links.source[up][0]].sum()
    assert per_leaf >= 32 * 400e9


def test_incast_of_nscc_takes_the_time_that_the_reference_simulator_says():
    ideal_us = 128 * 2e6 * 8 / 400e9 * 1e6  # 5,120 us of payload; headers bring the simulator's ideal to 5,242
    assert 5242 / fabrics.get("uec").incast_efficiency == pytest.approx(5280, rel=0.002)
    assert ideal_us < 5242


def test_ideal_joins_what_the_topology_does_not():
    cluster = machine("ideal", topology=RailOnly())
    network = cluster.back_end
    ports = network.port_of_rank[:, 0]
    assert network.reachable(ports[:1], ports[1:2]).all()
    usage = network.usage(ports[:1], ports[1:2], np.zeros(1, np.uint64))
    assert usage.lengths.tolist() == [2]
    assert network.path_latency_ps(ports[:1], ports[1:2])[0] > 0


def test_a_rail_only_network_refuses_other_rails():
    network = machine("roce", topology=RailOnly()).back_end
    ports = network.port_of_rank[:, 0]
    assert not network.reachable(ports[:1], ports[1:2]).any()
    assert network.reachable(ports[:1], ports[8:9]).all()
    for call in (network.spread, network.path_latency_ps, network.hops):
        with pytest.raises(InputError, match="scale-up first"):
            call(ports[:1], ports[1:2])


def test_overrides_are_read_with_their_units():
    spec = from_mapping({"name": "roce-untuned", "qps": 4, "hop_latency": "1 us", "mtu": "1 KiB", "e_ecmp": False})
    fabric = spec.resolve()
    assert (fabric.qps, fabric.hop_latency_ps, fabric.mtu_bytes, fabric.e_ecmp) == (4, 1_000_000, 1024, False)
    assert (fabrics.get("roce").qps, fabrics.get("roce-untuned").qps) == (4, 1)


@pytest.mark.parametrize(
    "overrides", [{"qps": 0}, {"mtu_bytes": 0}, {"flowlets": 0}, {"incast_efficiency": 0.0}, {"cell_efficiency": 1.5}]
)
def test_values_out_of_range_are_refused(overrides):
    with pytest.raises(InputError):
        FabricSpec("roce", overrides).resolve()


def test_senders_of_flows_and_of_packets_try_again_after_the_same_time():
    from railyard.engine.packet.mechanisms import CONSTANTS

    for name, fabric in fabrics.items():
        constants = fabric.packets.constants
        if constants.get("transport") == "rdma":
            assert fabric.retransmit_ps == constants.get("rdma_rto_ps", CONSTANTS["rdma_rto_ps"].default), name
        for field in ("reroute_ps", "retransmit_ps"):
            assert field in fabric.sources, name


@pytest.mark.parametrize(("reroute", "timer", "recovery"), [(7, 3, 9), (9, 3, 9), (1, 3, 3), (0, 3, 0), (7, 0, 7)])
def test_traffic_moves_again_with_the_first_try_after_routes_know(reroute, timer, recovery):
    fabric = FabricSpec("roce", {"reroute_ps": reroute, "retransmit_ps": timer}).resolve()
    assert fabric.recovery_ps() == recovery
