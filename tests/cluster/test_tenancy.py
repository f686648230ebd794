"""Tenants of a cluster: whose ports are whose, what that takes of links, classes of packets, what cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.spec import StorageSpec
from railyard.cluster.tenancy import MECHANISMS, TenancySpec, TenantSpec, tenancy_of
from railyard.cluster.topology import LeafSpine
from railyard.engine.packet import fabrics
from railyard.engine.packet.fabrics import settings_of
from railyard.kit.errors import InputError

CATALOG = catalog.load()
TWO = (TenantSpec("blue", ((0, 1),), share=0.3), TenantSpec("green", ((3, 3),), ((0, 1), (5, 5)), traffic_class=4))


def cluster(by="none", fabric="roce", given=TWO, **more):
    network = NetworkSpec(LeafSpine(ports_per_leaf=8), FabricSpec(fabric, {}))
    return build(ClusterSpec(32, "hgx-h100", network, tenancy=TenancySpec(by, given), **more), CATALOG)


def test_ports_are_of_those_who_were_given_them():
    found = cluster().plans["back_end"].tenancy
    assert found.owner.tolist() == [[0] * 8, [0] * 8, [-1] * 8, [1, 1, -1, -1, -1, 1, -1, -1]]


@pytest.mark.parametrize(("by", "more"), [("none", 0), ("acl", 0), ("vrf", 4), ("evpn", 50)])
def test_links_carry_what_is_left_of_them(by, more):
    """A full RoCE packet has 4,096 + 82 bytes; VXLAN adds 14 + 20 + 8 + 8, a VLAN tag 4, between switches alone."""
    one, plain = cluster(by), build(ClusterSpec(32, "hgx-h100", cluster().spec.back_end), CATALOG)
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
    roce = cluster()
    assert list(settings_of(roce, roce.fabric).pfc_weights) == [16, 0, 0, 0, 16, 0, 0, 0]
    infiniband = cluster(fabric="infiniband")
    assert settings_of(infiniband, infiniband.fabric).link_credit_lanes == 8
    assert not list(fabrics.unclassed(roce, "pfc"))
    assert "one queue for all" in next(iter(fabrics.unclassed(cluster(fabric="uec"), "lossy")))
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
        cluster("evpn", storage=storage)
    cluster("none", storage=storage)
