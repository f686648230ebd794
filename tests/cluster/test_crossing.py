"""From how many servers on a job crosses spines: hand counts of ports below a switch."""

from __future__ import annotations

import pytest

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.names import servers_to_cross
from railyard.cluster.topology import LeafSpine, RailOnly, RailOptimized


@pytest.mark.parametrize(
    ("topology", "servers", "crosses"),
    [
        # 128 ports of 400 Gb/s, half of them down: 64 servers of a rail, or 8 servers with all their 8 NICs.
        (RailOptimized(), 4, 65),
        (RailOptimized(oversubscription=4.0), 4, 103),
        (RailOptimized(servers_per_leaf=5), 5, 6),
        (LeafSpine(), 2, 9),
        (LeafSpine(ports_per_leaf=16), 2, 3),
        (LeafSpine(ports_per_leaf=16), 3, None),
        (RailOnly(), 4, 129),  # a rail of its own needs a second switch when all 128 ports are taken
    ],
)
def test_servers_from_which_rails_span_leafs(topology, servers, crosses):
    spec = ClusterSpec(8 * servers, "hgx-h100", NetworkSpec(topology, FabricSpec("roce")))
    assert servers_to_cross(build(spec, catalog.load())) == crosses
