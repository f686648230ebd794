"""Encrypted networks: bytes a packet worked out by hand from the standards, what devices bound, what cannot be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.agreement import yard

from railyard import catalog, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build, notes_of
from railyard.cluster.fabric import fabrics
from railyard.cluster.fabric.encryption import KNOWN, Encryption, encrypted
from railyard.cluster.host_path import HostSpec
from railyard.cluster.topology import LeafSpine
from railyard.engine.packet.engine import PacketEngine
from railyard.engine.packet.fabrics import constants_of
from railyard.graph import Job
from railyard.kit.errors import InputError

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
        ("roce", {"protocol": "tls"}, "back_end.encryption", "the kernel, which RDMA goes around"),
        ("roce", {"protocol": "wireguard"}, "back_end.encryption", "the kernel"),
        ("infiniband", {"protocol": "psp"}, "back_end.encryption", "infiniband carries neither"),
        ("ideal", {"protocol": "psp", "sharp": True}, "back_end.encryption", "nothing that they could add up"),
        ("scheduled", {"protocol": "macsec"}, "back_end.encryption", "go cells"),
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
