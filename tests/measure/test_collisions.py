"""Collisions of hashed flows are contention, also those of one collective with itself."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import catalog, cluster, engine
from railyard.collective import CollectivePolicy
from railyard.graph import CollectiveKind, Communicators, Job, Kind, Label, TaskGraph
from railyard.measure.causes import Cause
from railyard.measure.decompose import decompose

RANKS = 256


def _waits(fabric, rings, **overrides):
    """(seconds of bandwidth, of contention) of a rank whose ring all-reduces of 1 GiB run beside the others'."""
    spec = cluster.NetworkSpec(
        topology=cluster.topologies.get("leaf-spine")(ports_per_leaf=32), fabric=cluster.FabricSpec(fabric, overrides)
    )
    machine = cluster.build(cluster.ClusterSpec(RANKS, "hgx-h100", spec), catalog.load())
    # a ring has one rank a server, or all
    members = np.arange(RANKS).reshape(-1, rings).T if rings > 1 else np.arange(RANKS)[None, :]
    graph = TaskGraph(
        ranks=RANKS,
        kind=np.full(rings, Kind.COLLECTIVE, np.uint8),
        rank=np.arange(rings, dtype=np.int32),
        peer=np.full(rings, -1, np.int32),
        duration_ps=np.zeros(rings, np.int64),
        size_bytes=np.full(rings, 1 << 30),
        count=np.ones(rings, np.int32),
        collective=np.full(rings, CollectiveKind.ALL_REDUCE, np.uint8),
        stream=np.zeros(rings, np.uint8),
        label=np.zeros(rings, np.int32),
        dep_ptr=np.zeros(rings + 1, np.int64),
        labels=[Label("gradient", "all reduce", "dp")],
        communicators=Communicators(
            np.arange(rings + 1) * members.shape[1], members.ravel().astype(np.int32), ["dp"] * rings
        ),
    )
    policy = CollectivePolicy(algorithm={"all-reduce": "ring"}, protocol={"all-reduce": "simple"}, connections=1)
    line = engine.get("flow").simulate([Job(graph)], machine, policy=policy)
    found = decompose(line)
    assert (found.by_rank_ps.sum(axis=1) == line.makespan_ps).all()
    return found.seconds(Cause.BANDWIDTH), found.seconds(Cause.CONTENTION)


@pytest.mark.parametrize("rings", [1, 8])
def test_rings_that_collide_wait_for_contention_and_not_for_more_bandwidth(rings):
    even = {"congestion_efficiency": 1.0}
    bandwidth, contention = _waits("roce", rings, qps=1, **even)
    sprayed, none = _waits("roce", rings, load_balancing="spray", **even)
    assert none == pytest.approx(0, abs=0.02 * sprayed)
    assert contention > 0.3 * bandwidth
    assert bandwidth == pytest.approx(sprayed, rel=0.03)
