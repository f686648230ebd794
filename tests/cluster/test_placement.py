"""Placement policies: what every policy owes, and where each puts the ranks of a job."""

import dataclasses

import numpy as np
import pytest

from railyard import catalog
from railyard.cluster import ClusterSpec, NetworkSpec, Placement, build
from railyard.cluster.placement import place, policies
from railyard.cluster.topology import LeafSpine
from railyard.kit.errors import InputError

KNOWN = catalog.load()
SPEC = ClusterSpec(80, "hgx-h100", NetworkSpec(LeafSpine(ports_per_leaf=24, spines=2)))
"""Ten servers of eight, three under a leaf and one under the last."""


@pytest.fixture(scope="module")
def machine():
    return build(SPEC, KNOWN)


@pytest.mark.parametrize("name", policies.names())
@pytest.mark.parametrize("ranks", [3, 8, 20, 41])
def test_every_policy_gives_each_rank_a_free_accelerator_for_itself(machine, name, ranks):
    free = np.ones(80, bool)
    free[[0, 1, 2, 9, 40, 41, 42, 43, 44]] = False
    found = place(machine, Placement(name, 5), ranks, free)
    assert found.dtype == np.int32
    assert len(set(found.tolist())) == ranks
    assert free[found].all()


@pytest.mark.parametrize("name", [name for name, policy in policies.items() if policy.seeded])
def test_the_seed_decides_what_is_drawn(machine, name):
    one, same, other = (place(machine, Placement(name, seed), 16).tolist() for seed in (3, 3, 4))
    assert one == same
    assert one != other


@pytest.mark.parametrize("name", [name for name, policy in policies.items() if policy.keeps_domains])
def test_policies_that_keep_domains_fill_one_after_another(machine, name):
    servers = place(machine, Placement(name, 2), 24).reshape(3, 8)
    assert (servers == servers[:, :1] + np.arange(8)).all()
    assert (servers[:, 0] % 8 == 0).all()


def test_packed_leaves_a_server_with_too_little_room_for_last(machine):
    free = np.ones(80, bool)
    free[:5] = False
    assert place(machine, Placement("packed"), 8, free).tolist() == list(range(8, 16))
    assert place(machine, Placement("packed"), 3, free).tolist() == [5, 6, 7]
    assert place(machine, Placement("packed"), 75, free).tolist()[-3:] == [5, 6, 7]


def test_scattered_has_the_order_of_the_hash(machine):
    servers = place(machine, Placement("scattered", 4))[::8] // 8
    assert servers.tolist() == [4, 8, 7, 3, 2, 0, 1, 6, 5, 9]
    assert build(SPEC, KNOWN, Placement("scattered", 4)).back_end.port_of_rank[8, 0] == 64


def test_scattered_keeps_racks_together():
    rack = build(dataclasses.replace(SPEC, accelerators=144, server="gb200-nvl72"), KNOWN, Placement("scattered", 1))
    ports = rack.back_end.wiring.port_of
    server = {int(port): index for index, row in enumerate(ports) for port in row}
    places = [server[int(port)] for port in rack.back_end.port_of_rank[:72, 0]]
    assert max(places) - min(places) == 17


def test_spread_takes_leaf_after_leaf(machine):
    servers = place(machine, Placement("spread"), 56)[::8] // 8
    assert servers.tolist() == [0, 3, 6, 9, 1, 4, 7]


def test_more_than_is_free_is_refused_with_numbers(machine):
    with pytest.raises(InputError, match=r"a job needs 12 accelerators, and 11 of the cluster's 80 are free"):
        place(machine, Placement(), 12, np.arange(80) < 11)
