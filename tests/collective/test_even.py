"""Time alone with flows spread evenly: what hashing costs one collective is told apart from what its links cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.collective import CollectivePolicy, lower_collectives, lower_transfers
from railyard.graph import CollectiveKind as Kind

GIB = 1 << 30
SERVERS = 64


def _ring(cluster, communicators, algorithm="ring", size=GIB):
    count = len(communicators)
    policy = CollectivePolicy(algorithm={"all-reduce": algorithm}, protocol={"all-reduce": "simple"})
    columns = (np.full(count, value) for value in (Kind.ALL_REDUCE, size, 1))
    return lower_collectives(cluster, communicators, (np.arange(count), *columns), policy=policy)


def _rails(group):
    return group(*(np.arange(SERVERS) * 8 + local for local in range(8)))


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical"])
def test_hashed_flows_of_one_collective_collide_and_even_ones_take_what_they_take_when_sprayed(build, group, algorithm):
    hashed = build(8 * SERVERS, "hgx-h100", "roce", qps=1)
    everyone = group(np.arange(8 * SERVERS))
    size = 16 * GIB  # so much that latencies do not hide the collisions
    table = _ring(hashed, everyone, algorithm, size)
    same = {"transport_efficiency": hashed.fabric.transport_efficiency, "header_bytes": hashed.fabric.header_bytes}
    same["congestion_efficiency"] = hashed.fabric.congestion_efficiency
    sprayed = _ring(build(8 * SERVERS, "hgx-h100", "roce", load_balancing="spray", **same), everyone, algorithm, size)
    assert table.alone_ps[0] > 1.2 * table.even_ps[0]
    assert table.even_ps[0] == pytest.approx(sprayed.alone_ps[0], rel=0.02)


@pytest.mark.parametrize("fabric", ["spectrum-x", "infiniband", "scheduled", "uec", "ideal"])
def test_a_fabric_that_spreads_has_nothing_to_even_out(build, group, fabric):
    cluster = build(8 * SERVERS, "hgx-h100", fabric)
    table = _ring(cluster, _rails(group))
    assert (table.even_ps == table.alone_ps).all()


def test_one_transfer_of_many_queue_pairs_can_collide_with_itself(build):
    cluster = build(8 * SERVERS, "hgx-h100", "roce", qps=4)
    source = np.arange(200, dtype=np.int32)
    size = np.full(200, GIB)
    table = lower_transfers(cluster, source, source + 256, size, np.ones(200, np.int32))
    assert (table.even_ps <= table.alone_ps).all()
    assert np.ptp(table.even_ps) <= 2


@given(
    qps=st.sampled_from([1, 2, 8]),
    topology=st.sampled_from(["leaf-spine", "rail-optimized", "fat-tree", "dragonfly", "dual-plane"]),
    algorithm=st.sampled_from(["ring", "tree", "halving-doubling", "hierarchical"]),
)
@settings(max_examples=15, deadline=None)
def test_even_is_never_longer(build, group, qps, topology, algorithm):
    table = _ring(build(256, "hgx-h100", "roce", topology, qps=qps), group(np.arange(256)), algorithm)
    assert (table.latency_ps <= table.even_ps).all()
    assert (table.even_ps <= table.alone_ps).all()
