"""Leafs joined by optical circuits: which leafs, over how many hops, the bill, and the dark of a reconfiguration."""

import numpy as np
import pytest

from railyard import engine
from railyard.catalog import load
from railyard.cluster.bill import bill_of
from railyard.cluster.build import build
from railyard.cluster.fabric.fabric import FabricSpec
from railyard.cluster.fault.downs import Reconfiguration
from railyard.cluster.spec import ClusterSpec, NetworkSpec
from railyard.cluster.topology.optical import Optical, _hops
from railyard.graph import Job, Kind, Label, TaskGraph
from railyard.kit.errors import InputError

MS = 10**9


def sent(ranks, peer):
    """A send of 1 MiB from rank 0."""
    return TaskGraph.of(
        ranks,
        kind=np.array([Kind.TRANSFER]),
        rank=np.zeros(1, np.int64),
        peer=np.array([peer]),
        size_bytes=np.array([1 << 20]),
        stream=np.array([3]),
        labels=[Label("send", "test", "pp")],
    )


def cluster(leafs, circuits="mesh", ports=16, **given):
    topology = Optical(circuits, ports_per_leaf=ports, **given)
    spec = NetworkSpec(topology=topology, fabric=FabricSpec("uec"))
    return build(ClusterSpec(accelerators=leafs * ports, server="hgx-h100", back_end=spec), load())


@pytest.mark.parametrize(
    ("leafs", "circuits", "up", "counts"),
    [
        (2, "mesh", 16, [0, 16]),
        (5, "mesh", 16, [0, 4, 4, 4, 4]),
        (6, "mesh", 16, [0, 3, 3, 4, 3, 3]),  # 15 evenly, the last to the leaf opposite
        (8, "mesh", 16, [0, 3, 2, 2, 2, 2, 2, 3]),
        (9, "mesh", 4, [0, 1, 0, 1, 0, 0, 1, 0, 1]),  # one and three on, and back
        (6, "ring", 16, [0, 8, 0, 0, 0, 8]),
    ],
)
def test_circuits(leafs, circuits, up, counts):
    assert Optical(circuits)._counts(leafs, up).tolist() == counts


def test_hops_between_leafs():
    assert _hops(np.array([0, 1, 0, 1, 0, 0, 1, 0, 1])).tolist() == [0, 1, 2, 1, 2, 2, 1, 2, 1]
    assert _hops(np.array([0, 8, 0, 0, 0, 8])).tolist() == [0, 1, 2, 3, 2, 1]


def test_paths_are_shortest_and_spread():
    """Six leafs in a ring: three circuits to the opposite leaf, either way round; every port reaches every other."""
    made = cluster(6, "ring")
    network = made.back_end
    ports = np.unique(network.port_of_rank)
    far = network.path_latency_ps(ports[[0, 0, 0]], ports[[16, 32, 48]])
    assert np.diff(far).tolist() == [far[1] - far[0]] * 2
    assert made.back_end.wiring.bisection_bps == 2 * 8 * 400e9  # the ring is cut twice, eight circuits each


def test_bill_of_circuits():
    """Eight leafs with 16 uplinks are 64 circuits and 128 fibres: one switch of 384 ports, or of 128."""
    for switch, boxes in (("polatis-384", 1), ("palomar", 1)):
        bill = bill_of(cluster(8, switch=switch))
        assert [(row.name, row.count) for row in bill.of("optical-switch")] == [(switch, boxes)]
    bill = bill_of(cluster(9, switch="palomar"))
    assert bill.count("optical-switch") == 2  # 144 fibres
    assert not [row for row in bill.of("switch") if row.tier != "leaf"]
    optics = {row.name for row in bill.of("optic")}
    assert optics == {"optic-800g-2xfr4"}  # parallel fibres would take more ports of the optical switch


def test_the_dark_of_a_reconfiguration():
    """A send across leafs that starts in the dark waits for the light; one inside a leaf does not notice."""
    made = cluster(4)
    dark = (Reconfiguration(at_ps=0, for_ps=20 * MS),)
    for peer, waits in ((16, True), (8, False)):
        graph = sent(64, peer)
        for name in ("flow", "packet"):
            clear, dim = (
                engine.get(name).simulate([Job(graph)], made, faults=faults).makespan_ps for faults in ((), dark)
            )
            assert (dim >= 20 * MS) == waits, (name, peer)
            assert dim == clear or 20 * MS <= dim < 40 * MS + 2 * clear


def test_refusals():
    with pytest.raises(InputError) as refused:
        Reconfiguration()
    assert refused.value.problems[0].key == "for"
    with pytest.raises(InputError, match="two uplinks"):
        cluster(4, oversubscription=16.0)
