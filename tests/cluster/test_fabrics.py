"""Fabrics: constants with their sources, closed forms of overheads, published latencies."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from tests.agreement import yard

from railyard import catalog, engine
from railyard.cluster import ClusterSpec, Fabric, FabricSpec, NetworkSpec, build, fabrics, notes_of
from railyard.cluster.fabric import from_mapping
from railyard.cluster.fabric.encryption import KNOWN, Encryption, encrypted
from railyard.cluster.host_path import HostSpec
from railyard.cluster.topology import LeafSpine, RailOnly, RailOptimized
from railyard.engine.packet.engine import PacketEngine
from railyard.engine.packet.fabrics import constants_of
from railyard.graph import Job
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


# Encrypted networks: bytes a packet worked out by hand from the standards, what devices bound, what cannot
# be.

CATALOG = catalog.load()
RANKS = 32


def cluster(protocol="none", fabric="roce", overrides=None, host=None, more=None, **options):
    network = NetworkSpec(
        LeafSpine(ports_per_leaf=8),
        FabricSpec(fabric, overrides or {}),
        host=host or HostSpec(),
        encryption=Encryption(protocol=protocol, **options),
        **(more or {}),
    )
    return build(ClusterSpec(RANKS, "hgx-h100", network), CATALOG)


# RoCEv2 above IP: UDP 8, BTH 12, ICRC 4, and 4,096, 1,024, 1,023 or 1,025 bytes of payload.
@pytest.mark.parametrize(
    ("options", "added"),
    [
        ({"protocol": "none"}, (0, 0, 0, 0)),
        ({"protocol": "macsec"}, (32, 32, 32, 32)),  # SecTAG 16, ICV 16
        ({"protocol": "macsec", "sci": False}, (24, 24, 24, 24)),
        # ESP: 8 + IV 8 + padding so that 4,120 + 2, 1,048 + 2, 1,047 + 2, 1,049 + 2 end on a word + 2 + ICV 16
        ({"protocol": "ipsec"}, (36, 36, 37, 35)),
        ({"protocol": "ipsec", "udp": True}, (44, 44, 45, 43)),
        ({"protocol": "ipsec", "mode": "tunnel"}, (56, 56, 57, 55)),
        ({"protocol": "psp"}, (40, 40, 40, 40)),  # UDP 8, header 16, ICV 16
        ({"protocol": "psp", "cookie": True, "mode": "tunnel"}, (68, 68, 68, 68)),
        # 22 bytes a record of 16,384: 5.5, 1.4 of them a packet, rounded up
        ({"protocol": "tls"}, (6, 2, 2, 2)),
        # IP 20, UDP 8, header 16, tag 16; inner 4,140, 1,068, 1,067, 1,069 bytes padded to 16
        ({"protocol": "wireguard"}, (64, 64, 65, 63)),
    ],
)
def test_bytes_a_packet(options, added):
    found = tuple(Encryption(**options).overhead_bytes(24 + payload) for payload in (4096, 1024, 1023, 1025))
    assert found == added


@pytest.mark.parametrize("mtu", [4096, 1024])
def test_headers_and_efficiency_follow(mtu):
    clear = replace(fabrics.get("roce"), mtu_bytes=mtu)
    found = encrypted(clear, Encryption(protocol="psp"), "rdma")
    assert found.header_bytes == 82 + 40
    assert found.payload_efficiency == pytest.approx(mtu / (mtu + 122) * 0.987, rel=1e-12)


def test_keys_last_as_long_as_their_packet_numbers():
    # 2^32 packets of 4,210 bytes at 400 Gb/s; 2^24.5 records of 16,406.
    assert KNOWN["macsec"].key_life_s(400e9, 4210) == pytest.approx(361.64, rel=1e-4)
    assert KNOWN["tls"].key_life_s(400e9, 16406) == pytest.approx(7.785, rel=1e-3)


def test_macsec_is_late_at_every_link_and_the_others_at_the_ends():
    clear, link, ends = (cluster(name) for name in ("none", "macsec", "psp"))
    near, far = (np.array([clear.back_end.port_of_rank[rank, 0]], np.int32) for rank in (0, RANKS - 1))
    base = clear.back_end.path_latency_ps(near, far)
    # Leaf, spine, leaf: four links.
    assert link.back_end.path_latency_ps(near, far) - base == 4 * 200_000
    assert ends.back_end.path_latency_ps(near, far) - base == 200_000


@pytest.mark.parametrize(
    ("fabric", "options", "constants"),
    [
        (
            "roce",
            {"protocol": "macsec"},
            {"mtu_bytes": 4178 + 32, "header_bytes": 82 + 32, "rdma_control_bytes": 84 + 32},
        ),
        # An acknowledgement has 26 bytes above IP: ESP needs no padding for it, and two bytes for a packet.
        (
            "roce",
            {"protocol": "ipsec"},
            {"mtu_bytes": 4178 + 36, "header_bytes": 82 + 36, "rdma_control_bytes": 84 + 34},
        ),
        ("uec", {"protocol": "psp"}, {"mtu_bytes": 4218 + 40, "header_bytes": 122 + 40, "trim": False}),
        ("uec", {"protocol": "macsec"}, {"mtu_bytes": 4218 + 32, "header_bytes": 122 + 32, "trim": True}),
    ],
)
def test_packets_carry_the_same_bytes(fabric, options, constants):
    found = constants_of(cluster(fabric=fabric, **options).fabric)
    assert {name: found[name] for name in constants} == constants


@pytest.mark.parametrize("options", [{"protocol": "psp", "mode": "tunnel"}, {"protocol": "macsec"}])
def test_three_engines_pay_alike(options):
    size = 64 * yard.MIB
    graph = yard.graph(RANKS, [yard.transfer(0, RANKS - 1, size)], [])
    more = Encryption(**options).overhead_bytes(4120)
    for line in (engine.get("flow"), engine.get("analytic"), PacketEngine(samples=0)):
        clear, found = (
            line.simulate([Job(graph)], machine).makespan_ps
            for machine in (cluster(), cluster(latency_ps=0, **options))
        )
        assert (found - clear) / clear == pytest.approx(more / 4178, rel=0.03)


def test_a_nic_moves_no_more_than_it_encrypts():
    found = cluster("psp", rate_bps=137e9)
    assert found.plans["back_end"].usable == pytest.approx([137 / 400] * 8)
    assert found.remarks == ("psp in cx7-400g bounds a NIC at 137 of 400 Gb/s",)
    assert not cluster("macsec").remarks  # published at 400 Gb/s


def test_a_switch_moves_no_more_than_it_encrypts():
    # A leaf of 8 NICs of 400 Gb/s and as much to the spines needs 6.4 Tb/s of 12.8; 64 and 64 need 51.2.
    small = cluster("macsec", more={"switch": "spectrum-4-sn5600"})
    assert small.plans["back_end"].ciphered.min() == 1
    network = NetworkSpec(
        LeafSpine(ports_per_leaf=64), switch="spectrum-4-sn5600", encryption=Encryption(protocol="macsec")
    )
    large = build(ClusterSpec(128, "hgx-h100", network), CATALOG).plans["back_end"]
    assert large.ciphered.min() == pytest.approx(12.8 / 51.2)
    clear = build(ClusterSpec(128, "hgx-h100", replace(network, encryption=Encryption())), CATALOG)
    assert clear.plans["back_end"].ciphered.min() == 1


def test_the_kernel_encrypts_on_the_cores_that_run_tcp():
    found = cluster("tls", host=HostSpec(transport="tcp", tcp_cores=6)).plans["back_end"].host
    # Three cores a direction, each 42 Gb/s of copies and 52 of AES-128-GCM for the same byte.
    assert found.rate_bps == pytest.approx([3 / (1 / 42e9 + 1 / 52e9)] * 8)
    assert found.cores == pytest.approx(48)
    free = cluster("tls", host=HostSpec(transport="tcp", tcp_cores=6), rate_bps=400e9).plans["back_end"].host
    assert free.rate_bps == pytest.approx([76.8e9] * 8)  # host memory


def test_hidden_ports_send_all_queue_pairs_one_way():
    assert cluster("none", overrides={"qps": 4}).fabric.paths == 4
    assert cluster("ipsec", overrides={"qps": 4}).fabric.paths == 1
    assert cluster("ipsec", overrides={"qps": 4}, udp=True).fabric.paths == 4
    assert cluster("psp", overrides={"qps": 4}).fabric.paths == 4
    assert cluster("wireguard", overrides={"qps": 4}, host=HostSpec(transport="tcp")).fabric.paths == 1
    assert cluster("psp", overrides={"qps": 4, "e_ecmp": True, "source_port": "pair-of-ports"}).fabric.paths == 1


@pytest.mark.parametrize(
    ("fabric", "options", "words"),
    [
        ("roce", {"protocol": "ipsec"}, "hashed onto one path"),
        ("uec", {"protocol": "psp"}, "no packet trimming"),
        ("spectrum-x", {"protocol": "psp"}, "adaptively is assumed"),
        ("roce", {"protocol": "psp"}, "no rate of psp is published for cx7-400g"),
        ("roce", {"protocol": "macsec"}, "no rate of macsec is published for tomahawk-5: line"),
        ("roce", {"protocol": "macsec"}, "200 ns of latency for a link are assumed"),
        ("roce", {"protocol": "macsec"}, "lasts at least 362 s at 400 Gb/s"),
    ],
)
def test_what_is_lost_and_what_is_assumed_is_said(fabric, options, words):
    assert any(words in note for note in notes_of(cluster(fabric=fabric, **options)))


def test_in_the_clear_nothing_is_said():
    assert not [note for note in notes_of(cluster()) if "encrypt" in note or "macsec" in note]


@pytest.mark.parametrize(
    ("fabric", "options", "key", "words"),
    [
        ("roce", {"protocol": "tls"}, "back_end.encryption", "the kernel, which RDMA bypasses"),
        ("roce", {"protocol": "wireguard"}, "back_end.encryption", "the kernel"),
        ("infiniband", {"protocol": "psp"}, "back_end.encryption", "infiniband carries neither"),
        (
            "ideal",
            {"protocol": "psp", "sharp": True},
            "back_end.encryption",
            "hides the data that switches would reduce",
        ),
        ("scheduled", {"protocol": "macsec"}, "back_end.encryption", "sends cells between switches"),
        ("uec", {"protocol": "ipsec"}, "back_end.encryption", "by which uec sprays"),
        ("roce", {"protocol": "psp", "sci": True}, "back_end.encryption.sci", "`psp` has no `sci`"),
        ("roce", {"protocol": "none", "rate_bps": 1e9}, "back_end.encryption.rate", "`none` has no `rate`"),
    ],
)
def test_what_cannot_be_is_refused(fabric, options, key, words):
    overrides = {"sharp": options["sharp"]} if "sharp" in options else None
    given = {name: value for name, value in options.items() if name != "sharp"}
    with pytest.raises(InputError, match=words) as caught:
        cluster(fabric=fabric, overrides=overrides, **given)
    assert caught.value.problems[0].key == key
