"""Management networks, fabric managers, racks and power: counts worked out by hand at sizes that fill nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from railyard import catalog
from railyard.cluster import Placement, bill_of, build, notes_of
from railyard.cluster.fabric.fabric import FabricSpec
from railyard.cluster.management import management_of
from railyard.cluster.placement import place, policies
from railyard.cluster.spec import ClusterSpec, ManagementSpec, NetworkSpec, StorageSpec
from railyard.cluster.tenancy import MECHANISMS, TenancySpec, TenantSpec, tenancy_of
from railyard.cluster.topology.leaf_spine import LeafSpine
from railyard.cluster.topology.rail_optimized import RailOptimized
from railyard.engine.packet import fabrics
from railyard.engine.packet.fabrics import settings_of
from railyard.kit.errors import InputError
from railyard.measure.cost.capital import MANAGEMENT, CostPart, component_of, price_of

KNOWN = catalog.load()


def cluster(accelerators: int, fabric: str = "infiniband", *, storage: int = 0, **management: object):
    stored = None
    if storage:
        home = NetworkSpec(LeafSpine(oversubscription=4 / 3), FabricSpec("infiniband"))
        stored = StorageSpec("ddn-ai400x2", storage, home, nic="cx7-400g", nics=2)
    spec = ClusterSpec(
        accelerators,
        "dgx-h100",
        NetworkSpec(RailOptimized(), FabricSpec(fabric)),
        storage=stored,
        management=ManagementSpec(**management),
    )
    return build(spec, KNOWN)


def counts(accelerators: int, fabric: str = "infiniband", **management: object) -> dict[tuple[str, str, str], int]:
    found: dict[tuple[str, str, str], int] = {}
    for row in bill_of(cluster(accelerators, fabric, **management)):
        key = (row.kind, row.network, row.tier)
        found[key] = found.get(key, 0) + row.count
    return found


def test_31_servers_of_infiniband():
    # 8 racks of at most 4 servers of 10.3 kW. Beside them 12 switches of 1 U, 2 in-band of 2 U, 2 out-of-band, 3
    # servers, 2 fabric managers: 23 U and 12 x 1720 + 2 x 800 + 2 x 150 + 3 x 900 + 2 x 689 = 26,618 W, one rack.
    # Power distribution: 41.3 kW take 2 of 34.5 kW and one more, 26.6 kW one and one more: 8 x 3 + 2 = 26.
    # Management ports: 31 + 12 + (3 + 2) + 2 + 26 = 76, two switches of 48.
    found = counts(248, servers=3)
    assert found["rack", "", ""] == 9
    assert found["pdu", "", "rack"] == 26
    assert found["fabric-manager", "back-end", ""] == 2
    assert found["fibre", "back-end", "manager"] == 4
    assert found["optic", "back-end", "manager"] == 4  # at leafs they take the free halves of 8 cages
    assert found["cable", "out-of-band", "manager pair"] == 1
    ports = ("servers", "network switches", "management servers", "in-band switches", "power distribution")
    assert [found["cable", "out-of-band", name] for name in ports] == [31, 12, 5, 2, 26]
    assert found["switch", "out-of-band", "leaf"] == 2
    assert found["switch", "in-band", "leaf"] == 2
    assert ("switch", "in-band", "core") not in found
    cables = ("servers", "management servers", "out-of-band switches", "peer", "site")
    assert [found["cable", "in-band", name] for name in cables] == [62, 6, 4, 2, 4]


def test_cores_come_with_the_second_pair_of_leafs():
    # A pair alone has 64 ports less 2 to the peer and 2 to the site: 60 devices. 53 servers and 4 of management leave
    # room for 3 out-of-band switches: 53 + 24 switches + 6 + 2 and 46 of power distribution (14 racks of 3; 24
    # switches of 1,720 W and the rest are 48 kW, two racks of 2) are 131 ports. One server more is a device too many.
    one, two = counts(8 * 53), counts(8 * 54)
    assert one["switch", "out-of-band", "leaf"] == two["switch", "out-of-band", "leaf"] == 3
    assert one["cable", "out-of-band", "power distribution"] == 46
    assert one["switch", "in-band", "leaf"] == 2
    assert ("cable", "in-band", "leaf-core") not in one
    assert two["switch", "in-band", "leaf"] == 4
    assert two["switch", "in-band", "core"] == 2
    assert two["cable", "in-band", "leaf-core"] == 16
    assert two["cable", "in-band", "peer"] == 4
    more = counts(8 * 54, core_links=3)
    assert more["cable", "in-band", "leaf-core"] == 24
    assert more["cable", "in-band", "site"] == 6


def test_each_infiniband_network_has_a_pair_of_managers():
    found = counts(248, storage=3)
    assert found["fabric-manager", "back-end", ""] == 2
    assert found["fabric-manager", "storage", ""] == 2
    assert found["cable", "out-of-band", "manager pair"] == 2
    assert found["nic", "storage", ""] == 62
    assert found["cable", "out-of-band", "storage"] == 3
    assert found["storage", "storage", ""] == 3


def test_ethernet_has_none():
    found = counts(32, "roce")
    assert not [key for key in found if key[0] == "fabric-manager" or key[2] == "manager pair"]
    assert found["switch", "in-band", "leaf"] == 2


def test_managers_without_a_port_are_said():
    assert not [words for words in notes_of(cluster(248)) if "fabric managers" in words]
    full = [words for words in notes_of(cluster(256)) if "fabric managers" in words]
    assert full == [
        "4 ports for fabric managers on the back-end's leafs, which have 0 free: leave a server out, as NVIDIA's"
        " reference design does (127 of 128), or `servers_per_leaf` one lower"
    ]


def test_nothing_is_bought_that_is_not_asked_for():
    spec = ClusterSpec(32, "dgx-h100", NetworkSpec())
    assert management_of(build(spec, KNOWN)) is None
    assert not [row for row in bill_of(build(spec, KNOWN)) if row.kind in ("pdu", "rack", "management-server")]


def test_it_has_a_line_of_the_capital():
    # 3 x $18k, 2 x $30k, 26 x $3.5k, 9 x $4k.
    rows = bill_of(cluster(248, servers=3))
    parts = [CostPart(component_of(row.kind), row.name, row.count, row.price_usd, row.power_w) for row in rows]
    assert price_of(parts, MANAGEMENT).typical == pytest.approx(54e3 + 60e3 + 91e3 + 36e3)


# Placement policies: what every policy owes, and where each puts the ranks of a job.

SPEC = ClusterSpec(80, "hgx-h100", NetworkSpec(LeafSpine(ports_per_leaf=24, spines=2)))
"""Ten servers of eight, three under a leaf and one under the last."""


@pytest.fixture(scope="module")
def machine():
    return build(SPEC, KNOWN)


@pytest.mark.parametrize("name", policies.names())
@pytest.mark.parametrize("ranks", [3, 8, 20, 41])
def test_every_policy_gives_each_rank_a_free_accelerator_for_itself(machine, name, ranks):
    free = np.ones(80, bool)
    free[[0, 1, 2, 9, 40, 41, 42, 43, 44]] = False
    found = place(machine, Placement(name, 5), ranks, free)
    assert found.dtype == np.int32
    assert len(set(found.tolist())) == ranks
    assert free[found].all()


@pytest.mark.parametrize("name", [name for name, policy in policies.items() if policy.seeded])
def test_the_seed_decides_what_is_drawn(machine, name):
    one, same, other = (place(machine, Placement(name, seed), 16).tolist() for seed in (3, 3, 4))
    assert one == same
    assert one != other


@pytest.mark.parametrize("name", [name for name, policy in policies.items() if policy.keeps_domains])
def test_policies_that_keep_domains_fill_one_after_another(machine, name):
    servers = place(machine, Placement(name, 2), 24).reshape(3, 8)
    assert (servers == servers[:, :1] + np.arange(8)).all()
    assert (servers[:, 0] % 8 == 0).all()


def test_packed_leaves_a_server_with_too_little_room_for_last(machine):
    free = np.ones(80, bool)
    free[:5] = False
    assert place(machine, Placement("packed"), 8, free).tolist() == list(range(8, 16))
    assert place(machine, Placement("packed"), 3, free).tolist() == [5, 6, 7]
    assert place(machine, Placement("packed"), 75, free).tolist()[-3:] == [5, 6, 7]


def test_scattered_has_the_order_of_the_hash(machine):
    servers = place(machine, Placement("scattered", 4))[::8] // 8
    assert servers.tolist() == [4, 8, 7, 3, 2, 0, 1, 6, 5, 9]
    assert build(SPEC, KNOWN, Placement("scattered", 4)).back_end.port_of_rank[8, 0] == 64


def test_scattered_keeps_racks_together():
    rack = build(dataclasses.replace(SPEC, accelerators=144, server="gb200-nvl72"), KNOWN, Placement("scattered", 1))
    ports = rack.back_end.wiring.port_of
    server = {int(port): index for index, row in enumerate(ports) for port in row}
    places = [server[int(port)] for port in rack.back_end.port_of_rank[:72, 0]]
    assert max(places) - min(places) == 17


def test_spread_takes_leaf_after_leaf(machine):
    servers = place(machine, Placement("spread"), 56)[::8] // 8
    assert servers.tolist() == [0, 3, 6, 9, 1, 4, 7]


def test_more_than_is_free_is_refused_with_numbers(machine):
    with pytest.raises(InputError, match=r"a job needs 12 accelerators, and 11 of the cluster's 80 are free"):
        place(machine, Placement(), 12, np.arange(80) < 11)


# Tenants of a cluster: whose ports are whose, what that takes of links, classes of packets, what cannot be.

CATALOG = catalog.load()
TWO = (TenantSpec("blue", ((0, 1),), share=0.3), TenantSpec("green", ((3, 3),), ((0, 1), (5, 5)), traffic_class=4))


def tenancy_cluster(by="none", fabric="roce", given=TWO, **more):
    network = NetworkSpec(LeafSpine(ports_per_leaf=8), FabricSpec(fabric, {}))
    return build(ClusterSpec(32, "hgx-h100", network, tenancy=TenancySpec(by, given), **more), CATALOG)


def test_ports_are_of_those_who_were_given_them():
    found = tenancy_cluster().plans["back_end"].tenancy
    assert found.owner.tolist() == [[0] * 8, [0] * 8, [-1] * 8, [1, 1, -1, -1, -1, 1, -1, -1]]


@pytest.mark.parametrize(("by", "more"), [("none", 0), ("acl", 0), ("vrf", 4), ("evpn", 50)])
def test_links_carry_what_is_left_of_them(by, more):
    """A full RoCE packet has 4,096 + 82 bytes; VXLAN adds 14 + 20 + 8 + 8, a VLAN tag 4, between switches alone."""
    one, plain = tenancy_cluster(by), build(ClusterSpec(32, "hgx-h100", tenancy_cluster().spec.back_end), CATALOG)
    network = one.back_end
    ratio = one.links.rate_bps[: one.links.physical] / plain.links.rate_bps[: plain.links.physical]
    mine = ratio[network.link_offset : network.link_offset + network.wiring.links]
    wiring = network.wiring
    access = (wiring.source < wiring.ports) | (wiring.target < wiring.ports)
    assert np.allclose(mine[~access], 4178 / (4178 + more))
    blue = np.isin(wiring.source, wiring.port_of[:2]) | np.isin(wiring.target, wiring.port_of[:2])
    assert np.allclose(mine[blue], 0.3)
    assert np.allclose(mine[access & ~blue], 1.0)


def test_classes_get_queues_of_their_own_where_the_fabric_has_any():
    roce = tenancy_cluster()
    assert list(settings_of(roce, roce.fabric).pfc_weights) == [16, 0, 0, 0, 16, 0, 0, 0]
    infiniband = tenancy_cluster(fabric="infiniband")
    assert settings_of(infiniband, infiniband.fabric).link_credit_lanes == 8
    assert not list(fabrics.unclassed(roce, "pfc"))
    assert "one queue for all" in next(iter(fabrics.unclassed(tenancy_cluster(fabric="uec"), "lossy")))
    wiring = roce.back_end.wiring
    assert roce.plans["back_end"].tenancy.classes_of(wiring.port_of, wiring.nodes)[wiring.port_of[3]].tolist() == [
        4, 4, -1, -1, -1, 4, -1, -1,
    ]  # fmt: skip


def spec(*given, by="vrf"):
    return TenancySpec(by, tuple(TenantSpec(name, spans) for name, spans in given))


@pytest.mark.parametrize(("by", "most"), [("vrf", 3994), ("pkey", 32_766), ("evpn", 16_767_215)])
def test_there_are_only_so_many_numbers(by, most):
    """VLANs 101 to 4094; partition keys 1 to 0x7ffe, 0x7fff being the default one; VNIs 10,001 to 2^24 - 1."""
    assert MECHANISMS[by].most == most
    if most < 10_000:
        with pytest.raises(InputError, match="too few numbers"):
            tenancy_of(spec(*((f"t{number}", ((number, number),)) for number in range(most + 1)), by=by), most + 1, 1)


def test_storage_on_the_back_end_is_reached_by_nobody_who_is_kept_apart():
    storage = StorageSpec("weka-node", 2, "back_end") if "weka-node" in CATALOG.names("storage") else None
    storage = storage or StorageSpec(CATALOG.names("storage")[0], 2, "back_end")
    with pytest.raises(InputError, match="belongs to no tenant"):
        tenancy_cluster("evpn", storage=storage)
    tenancy_cluster("none", storage=storage)
