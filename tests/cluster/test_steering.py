"""Paths that are chosen where switches would hash."""

import numpy as np
import pytest

from railyard import catalog
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.links import Csr
from railyard.cluster.steering import TRIES, Steering
from railyard.cluster.topology import LeafSpine
from railyard.engine.probing import steered
from railyard.graph import Job
from railyard.work.operate.contention.pattern import WorkClass


def machine(fabric):
    spec = NetworkSpec(LeafSpine(oversubscription=12, ports_per_leaf=32), FabricSpec(fabric))
    return build(ClusterSpec(128, "hgx-h100", spec), catalog.load())


RATE = np.array([4.0, 4.0, 4.0, 1.0])
"""Three links between two switches, and the sender's (a NIC of a quarter of their rate)."""


def look(source, target, label):
    """Each source port leads over one of three links; the sender's own is link 3."""
    flows = len(source)
    link = np.stack([np.full(flows, 3), (label % np.uint64(3)).astype(np.int64)], axis=1)
    return Csr(np.arange(flows + 1) * 2, link.ravel().astype(np.int32))


def chosen(group, share, flows):
    """The link between switches that each connection gets."""
    steering = Steering(np.array(group), np.array(share))
    source, target = np.array(flows, np.int32), np.full(len(flows), 9, np.int32)
    pair = np.arange(len(flows), dtype=np.uint64)
    assert (steering.labels(source, target, pair) == pair).all()
    steering.settle(look, RATE, 3)
    again = steering.labels(source[::-1], target, pair[::-1])[::-1]
    assert len(set(again.tolist())) <= TRIES * 3
    return look(source, target, again).link.reshape(-1, 2)[:, 1].tolist()


def test_connections_of_one_job_spread():
    assert sorted(chosen([0], [1.0], [0] * 6)) == [0, 0, 1, 1, 2, 2]


def test_the_first_job_chooses_first_and_counts_for_the_time_that_it_sends():
    """The two connections of the first job, port 1, take two links at half of the NIC each. The first of the other's
    four takes the third; its second would make 0.5 there, and 0.25 + 0.5 x 0.9 beside the first job.
    """
    first, second, third, fourth, *_ = chosen([1, 0], [0.9, 1.0], [1, 1, 0, 0, 0, 0])
    assert first != second
    assert third not in (first, second)
    assert fourth == third
    calm = chosen([1, 0], [0.2, 1.0], [1, 1, 0, 0, 0, 0])
    assert sorted(calm[2:5]) == [0, 1, 2]


def test_who_is_in_no_group_stays_hashed():
    steering = Steering(np.array([-1, 0]), np.array([1.0]))
    ports, target = np.array([0, 1], np.int32), np.array([9, 9], np.int32)
    pair = np.array([5, 5], np.uint64)
    steering.labels(ports, target, pair)
    steering.settle(look, RATE, 3)
    found = steering.labels(ports, target, pair)
    assert found[0] == 5 != found[1]


def test_nothing_heard_nothing_chosen():
    steering = Steering(np.array([0]), np.array([1.0]))
    steering.settle(look, RATE, 3)
    pair = np.array([7], np.uint64)
    assert steering.labels(np.array([0], np.int32), np.array([9], np.int32), pair) is pair


def test_a_cluster_is_steered_the_same_every_time():
    cluster = machine("roce")
    ranks = (np.array([0, 4, 1, 5])[:, None] * 8 + np.arange(8)).ravel().astype(np.int32)
    job = Job(WorkClass("w", 0.1, 1_000_000_000, 0.0).steps(32, 2), ranks)
    first, second = (steered([job], cluster, [0], [1.0]).back_end.steering for _ in range(2))
    ports = cluster.back_end.port_of_rank[ranks][:, 0]
    pair = np.arange(len(ports), dtype=np.uint64)
    assert np.array_equal(first.labels(ports, ports[::-1], pair), second.labels(ports, ports[::-1], pair))


@pytest.mark.parametrize("fabric", ["infiniband", "uec"])
def test_fabrics_that_spread_have_no_paths_to_choose(fabric):
    cluster = machine(fabric)
    job = Job(WorkClass("w", 0.1, 1_000_000_000, 0.0).steps(16, 2), np.arange(16, dtype=np.int32))
    assert steered([job], cluster, [0], [1.0]) is cluster
