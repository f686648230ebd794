"""Management networks, fabric managers, racks and power: counts worked out by hand at sizes that fill nothing."""

from __future__ import annotations

import pytest

from railyard import catalog
from railyard.cluster import bill_of, build, notes_of
from railyard.cluster.fabric.fabric import FabricSpec
from railyard.cluster.management import management_of
from railyard.cluster.spec import ClusterSpec, ManagementSpec, NetworkSpec, StorageSpec
from railyard.cluster.topology.leaf_spine import LeafSpine
from railyard.cluster.topology.rail_optimized import RailOptimized
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
