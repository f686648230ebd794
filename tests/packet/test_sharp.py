"""All-reduce in the switches, against closed forms."""

import numpy as np
import pytest

from railyard.cluster.fabric import fabrics
from railyard.engine.packet import Settings, fat_tree, leaf_spine, run
from railyard.engine.packet.sharp import sharp, tree_of
from railyard.kit.errors import InputError

STATIC = fabrics.get("infiniband-static").packets.constants
ADAPTIVE = fabrics.get("infiniband").packets.constants

G400 = 400 * 10**9
LINK, AGGREGATION = 450_000, 150_000
PAYLOAD, HEADER, PS_PER_BYTE = 4096, 26, 20


def on_wire(size):
    return size + HEADER * -(-size // PAYLOAD)


def closed_form(size, chunk, depth):
    """Everything once over a host's link, the last chunk over every other edge up and down, the switches' own time."""
    last = on_wire(min(size, chunk))
    return on_wire(size) * PS_PER_BYTE + (2 * depth - 1) * last * PS_PER_BYTE + depth * (2 * LINK + AGGREGATION)


NETWORKS = {
    1: leaf_spine(8, leaf_hosts=8, spines=1, rate_bps=G400, latency_ps=LINK),
    2: leaf_spine(64, leaf_hosts=8, spines=8, rate_bps=G400, latency_ps=LINK),
    3: fat_tree(128, rate_bps=G400, latency_ps=LINK),
}


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize(
    ("size", "chunk", "tolerance"),
    [(8, 16_384, 0.01), (65_536, 4096, 0.015), (65_536, 65_536, 0.01), (2**20, 4096, 0.02), (2**20, 16_384, 0.03)],
)
def test_an_all_reduce_takes_its_bytes_once_and_the_depth_of_the_tree(depth, size, chunk, tolerance):
    network = NETWORKS[depth]
    made = sharp(network, np.arange(network.hosts), size, chunk_bytes=chunk)
    result = run(made.network, made.traffic, Settings(**STATIC))
    expected = closed_form(size, chunk, depth)
    assert result.ended.all()
    assert expected <= made.time_ps(result) <= expected * (1 + tolerance)


def test_its_bandwidth_is_that_of_an_interface_where_a_ring_has_half():
    network, size = NETWORKS[2], 8 * 2**20
    made = sharp(network, np.arange(0, 64, 8), size)
    result = run(made.network, made.traffic, Settings(**ADAPTIVE))
    algorithm_bps = size * 8e12 / made.time_ps(result)
    assert algorithm_bps == pytest.approx(G400 * PAYLOAD / (PAYLOAD + HEADER), rel=0.02)
    ring_bps = G400 * 8 / (2 * 7)
    assert algorithm_bps > 1.7 * ring_bps


def test_every_link_of_the_tree_carries_everything_once_each_way():
    network, size = NETWORKS[2], 2**20
    made = sharp(network, np.arange(64), size)
    result = run(made.network, made.traffic, Settings(**STATIC))
    source, target = made.network.link_source, made.network.link_target
    up = result.table("links")["bytes"][source < 64]
    down = result.table("links")["bytes"][target < 64]
    for found in (up, down):
        assert (found >= on_wire(size)).all()
        assert (found < 1.02 * on_wire(size)).all()  # acknowledgements and credits beside it
    leaves = np.arange(64, 72) + len(made.tree.switches)
    above = result.table("links")["bytes"][np.isin(source, leaves) & (target >= leaves[0] + 8)]
    assert (np.sort(above)[-8:] >= on_wire(size)).all()
    assert (np.sort(above)[:-8] == 0).all()


def test_the_tree_leaves_out_switches_that_have_one_child():
    network = NETWORKS[3]
    # Two hosts of one edge switch, one of another pod: the aggregation switch of the first pod has one child.
    tree = tree_of(network, np.array([0, 1, 100]))
    assert len(tree.switches) == 2
    assert sorted(tree.depth) == [1, 2, 2]
    assert tree.children.tolist() == [2, 2]
    assert len(tree_of(network, np.array([0, 1])).switches) == 1
    assert tree_of(network, np.arange(128), root=1).switches[-1] != tree_of(network, np.arange(128)).switches[-1]


def test_slow_switches_cost_their_time_once_a_tier():
    network = NETWORKS[2]
    alone = sharp(network, np.arange(64), 2**20)
    once = alone.time_ps(run(alone.network, alone.traffic, Settings(**STATIC)))
    slow = sharp(network, np.arange(64), 2**20, aggregation_ps=2_000_000)
    later = slow.time_ps(run(slow.network, slow.traffic, Settings(**STATIC)))
    assert later == pytest.approx(once + 2 * (2_000_000 - AGGREGATION), rel=0.03)


@pytest.mark.parametrize(
    "wrong",
    [{"hosts": [1]}, {"hosts": [1, 1]}, {"hosts": [0, 99]}, {"size_bytes": 0}, {"chunk_bytes": 0}, {"window": 0}],
)
def test_what_it_refuses(wrong):
    given = {"hosts": [0, 1], "size_bytes": 1000, **wrong}
    with pytest.raises(InputError):
        sharp(NETWORKS[2], **given)
