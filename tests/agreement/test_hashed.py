"""Engines `flow` and `packet` where switches hash: the same connections on the same links, the same times on the mean.

`yard.one` on 32 accelerators under leafs of 8, servers scattered, so that every ring and every peer crosses the spines.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.agreement import yard

from railyard import engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, Placement, build
from railyard.cluster.topology import LeafSpine
from railyard.engine.packet.engine import PacketEngine
from railyard.graph import CollectiveKind, Job
from railyard.work.training.graphs import build as graph_of
from railyard.work.training.spec import Layout, SoftwareProfile, Training

RANKS = 32


def scattered(seed, **fabric):
    network = NetworkSpec(LeafSpine(ports_per_leaf=8), FabricSpec("roce", fabric), seed=seed)
    return build(ClusterSpec(RANKS, "hgx-h100", network), yard.known(), Placement("scattered", 0))


def both(cluster, graph, policy=None, budget=3e8):
    packets = PacketEngine(samples=0, budget_hops=budget)
    return [line.simulate([Job(graph)], cluster, policy=policy) for line in (engine.get("flow"), packets)]


def collective(cluster, kind, algorithm, size):
    graph = yard.graph(RANKS, [yard.collective(kind, size)], [np.arange(RANKS)])
    return both(cluster, graph, yard.forced(kind, algorithm))


@pytest.mark.parametrize("algorithm", ["ring", "tree", "nvls-tree"])
@pytest.mark.parametrize("qps", [1, 3])
def test_both_engines_put_the_same_bytes_on_the_same_links(algorithm, qps):
    cluster = scattered(5, qps=qps)
    flow, packet = collective(cluster, CollectiveKind.ALL_REDUCE, algorithm, 16 * yard.MIB)
    links = cluster.links.of_tier("leaf-spine")
    expected, found = (line.table("links")["bytes"][links] for line in (flow, packet))
    assert np.ptp(expected) > 0.5 * expected.mean()  # hashing has made them unlike
    # Flows count what headers and one flow's ceiling (98.7 %) cost; messages end with short packets.
    assert found / found.mean() == pytest.approx(expected / expected.mean(), abs=0.03)


def test_senders_that_wait_put_no_more_bytes_on_links():
    """An all-to-all of 64 MiB a rank: three quarters of it leave a server, and 4,178 B carry 4,096."""
    cluster = scattered(5)
    _, packet = collective(cluster, CollectiveKind.ALL_TO_ALL, "pairwise", 64 * yard.MIB)
    out = packet.table("links")["bytes"][cluster.links.of_tier("nic")].sum() / 2
    assert out == pytest.approx(RANKS * 0.75 * 64 * yard.MIB * 4178 / 4096, rel=0.01)


@pytest.mark.parametrize(
    ("kind", "algorithm", "mib", "seeds"),
    [("ALL_REDUCE", "ring", 64, 6), ("ALL_GATHER", "ring", 256, 6), ("ALL_TO_ALL", "pairwise", 64, 4)],
)
def test_collectives_agree_on_the_mean(kind, algorithm, mib, seeds):
    took = [
        [line.makespan_ps for line in collective(scattered(seed), CollectiveKind[kind], algorithm, mib * yard.MIB)]
        for seed in range(seeds)
    ]
    flow, packet = np.mean(took, axis=0)
    assert packet == pytest.approx(flow, rel=0.035)


def test_a_step_agrees_and_the_slice_does_not_move_it():
    """A slice of 8 against the whole step. In one of 25, of shorter messages, DCQCN looks for its rates 4 % longer."""
    cluster = scattered(1)
    layout = Layout(dp=RANKS, zero=3, micro_batch=1, global_batch=RANKS)
    profile = SoftwareProfile(name="test")
    job = Training(model=yard.known().model("llama-3.2-1b"), layout=layout, seq_len=2048, software=profile)
    graph = graph_of(job, cluster)
    flow, slice_of_8 = (line.makespan_ps for line in both(cluster, graph, budget=6e6))
    whole = both(cluster, graph, budget=6e7)[1]
    assert whole.meta["slice"] == 1
    assert whole.makespan_ps == pytest.approx(flow, rel=0.01)
    assert slice_of_8 == pytest.approx(whole.makespan_ps, rel=0.02)
