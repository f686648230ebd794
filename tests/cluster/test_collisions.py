"""The law of ECMP collisions out of hashed paths, and that spraying has none.

Balls into bins: N flows hashed onto N links leave (1 - 1/N)^N of them idle, so that the aggregate is 1 - 1/e = 63.2 %;
the slowest flow gets one over the largest load. The table of the slowest flow is a Monte-Carlo mean of that.
"""

from __future__ import annotations

import numpy as np
import pytest

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build, fabrics
from railyard.cluster.topology import LeafSpine, RailOptimized, ThreeTier

RATE = 400e9


def machine(fabric, accelerators=1024, topology=None, **overrides):
    """A cluster whose leafs have 32 ports down and 32 up, whatever the fabric."""
    shape = topology or LeafSpine(ports_per_leaf=32, spines=32)
    spec = NetworkSpec(shape, FabricSpec(fabric, overrides))
    return build(ClusterSpec(accelerators, "hgx-h100", spec), catalog.load())


def max_min(usage, capacity):
    """Progressive filling, flows with their shares on links; the rate of every flow."""
    rows = usage.rows()
    flows = len(usage)
    rate, frozen = np.zeros(flows), np.zeros(flows, bool)
    left = capacity.astype(float).copy()
    while not frozen.all():
        weight = np.bincount(usage.link, weights=usage.share * ~frozen[rows], minlength=len(capacity))
        room = np.divide(left, weight, out=np.full(len(left), np.inf), where=weight > 1e-12)
        step = room.min()
        rate[~frozen] += step
        left -= weight * step
        tight = (left <= 1e-9 * capacity) & (weight > 1e-12)
        frozen[rows[tight[usage.link] & (usage.share > 0)]] = True
    return rate


def leaf_loads(qps, uplinks, trials):
    """Loads of the uplinks of one leaf whose 32 hosts each send one flow elsewhere, in flows; a row a trial."""
    cluster = machine("roce", topology=LeafSpine(ports_per_leaf=32, oversubscription=32 / uplinks, spines=uplinks))
    network = cluster.back_end
    source = np.tile(np.arange(32, dtype=np.int32), trials)
    target = source + 32 + 32 * (np.arange(len(source), dtype=np.int32) % 31)
    usage = network.split(source, target, np.arange(len(source), dtype=np.uint64) * np.uint64(977) + np.uint64(5), qps)
    trial = usage.rows() // 32
    tier = cluster.links.tiers.index("leaf-spine")
    up = (cluster.links.tier[usage.link] == tier) & (
        cluster.links.source[usage.link] == network.node_offset + network.ports
    )
    first = usage.link[up].min()
    column = (usage.link[up] - first) // 2
    return np.bincount(trial[up] * uplinks + column, weights=usage.share[up], minlength=trials * uplinks).reshape(
        trials, uplinks
    )


def test_the_aggregate_of_32_flows_on_32_uplinks_is_63_percent():
    loads = leaf_loads(1, 32, 400)
    assert np.minimum(loads, 1.0).sum(axis=1).mean() / 32 == pytest.approx(1 - (1 - 1 / 32) ** 32, abs=0.01)
    assert np.minimum(loads, 1.0).sum(axis=1).mean() / 32 == pytest.approx(0.632, abs=0.03)


@pytest.mark.parametrize(
    ("qps", "uplinks", "slowest"),
    [
        (1, 32, 0.28),
        (2, 32, 0.37),
        (4, 32, 0.47),
        (8, 32, 0.56),
        (16, 32, 0.64),
        (32, 32, 0.72),
        (64, 32, 0.79),
        (1, 64, 0.37),
        (4, 64, 0.67),
        (16, 64, 0.98),
    ],
)
def test_the_slowest_flow_follows_the_law(qps, uplinks, slowest):
    loads = leaf_loads(qps, uplinks, 300 if qps < 32 else 100)
    assert np.minimum(1.0, 1 / loads.max(axis=1)).mean() == pytest.approx(slowest, abs=0.03)


def permutation(cluster, seed):
    """Every rank sends to another of another leaf, every rank receives once: usage with unit demand."""
    ports = cluster.back_end.port_of_rank[:, 0]
    order = np.random.default_rng(seed).permutation(len(ports))
    target = np.empty_like(ports)
    target[order] = ports[np.roll(order, 1)]
    return cluster.back_end.usage(ports, target, np.arange(len(ports), dtype=np.uint64) + np.uint64(seed))


def test_a_permutation_under_ecmp_is_near_half_and_rises_with_queue_pairs():
    mean = {}
    for qps in (1, 4, 16):
        cluster = machine("roce", accelerators=512, qps=qps, congestion_efficiency=1.0)
        rate = max_min(permutation(cluster, 3), cluster.links.rate_bps) / RATE
        mean[qps] = rate.mean()
        assert rate.min() < 0.9
    # Both ways of a two-tier network collide: below the one-stage 63 %.
    assert mean[1] < 0.632
    assert mean[1] < mean[4] < mean[16]


@pytest.mark.parametrize("fabric", [name for name, record in fabrics.items() if record.bundled or name == "ideal"])
@pytest.mark.parametrize("topology", [LeafSpine(), ThreeTier(), RailOptimized()], ids=lambda spec: spec.kind)
def test_spraying_has_no_collisions(fabric, topology):
    cluster = machine(fabric, accelerators=512, topology=topology)
    rate = max_min(permutation(cluster, 1), cluster.links.rate_bps) / RATE
    assert rate.min() >= 0.93
    assert rate.max() <= 1.0 + 1e-9


def test_bundles_and_real_links_give_the_same_rates():
    cluster = machine("uec", accelerators=512, topology=ThreeTier(oversubscription=2.0))
    ports = cluster.back_end.port_of_rank[:, 0]
    target = np.roll(ports, 200)
    folded = cluster.back_end.spread(ports, target)
    real = cluster.back_end.spread(ports, target, physical=True)
    assert len(folded.link) < len(real.link) / 5
    one, other = (max_min(usage, cluster.links.rate_bps) for usage in (folded, real))
    assert one == pytest.approx(other)
    load = np.bincount(folded.link, weights=folded.share, minlength=len(cluster.links))
    expected = np.bincount(real.link, weights=real.share, minlength=cluster.links.physical)
    assert cluster.links.to_physical(load) == pytest.approx(expected, abs=1e-9)


def test_queue_pairs_with_one_source_port_take_one_path_unless_switches_hash_their_numbers():
    own = {"accelerators": 64, "qps": 8, "topology": LeafSpine(ports_per_leaf=8)}
    usage = permutation(machine("roce", source_port="pair-of-ports", **own), 0)
    assert (usage.share == 1.0).all()
    for apart in ({"source_port": "pair-of-ports", "e_ecmp": True}, {"source_port": "queue-pair"}):
        assert permutation(machine("roce", **own, **apart), 0).share.min() == 1 / 8


def test_flowlets_spread_a_flow_without_more_queue_pairs():
    cluster = machine(
        "roce-untuned", accelerators=64, load_balancing="flowlet", flowlets=16, topology=LeafSpine(ports_per_leaf=8)
    )
    usage = permutation(cluster, 0)
    assert usage.share.min() == pytest.approx(1 / 16)
