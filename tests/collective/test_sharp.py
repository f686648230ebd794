"""Reduction in the network's switches: log 30 without a constant of its own, who is offered it, what depth costs."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.collective import CollectivePolicy, lower_collectives
from railyard.collective.constants import MEASURED
from railyard.collective.timing import SHARP_SHARE
from railyard.graph import CollectiveKind as Kind
from railyard.kit.errors import InputError

LOG_30 = {29: 2984.6, 30: 5808.0, 31: 11163.0, 32: 22181.0, 33: 43980.0}
"""us by log2 of the size: 96 H100 (its busbw is that of 96 ranks) under `NCCL_ALGO=COLLNETCHAIN`, as the manifest of
its repository says."""


def alone_us(cluster, ranks, size, algorithm=None):
    policy = CollectivePolicy(algorithm={"all-reduce": algorithm} if algorithm else {})
    request = (np.zeros(1, int), np.array([Kind.ALL_REDUCE]), np.array([size]), np.ones(1, int))
    table = lower_collectives(cluster, ranks, request, policy=policy)
    return table.alone_ps[0] / 1e6, str(table.algorithm[0])


@pytest.mark.parametrize("power", LOG_30)
def test_log_30_is_bound_by_chains_inside_the_servers(build, group, power):
    cluster = build(96, "hgx-h100", "infiniband", sharp=True)
    found, _ = alone_us(cluster, group(np.arange(96)), 1 << power, "collnet-chain")
    assert found == pytest.approx(LOG_30[power], rel=0.025)


def test_a_chain_s_plateau_by_hand(build, group):
    """Each link carries 7/8 of the data up and as much down, 0.92 of the 370.8 GB/s that NCCL plans with."""
    cluster = build(96, "hgx-h100", "infiniband", sharp=True)
    large, small = (alone_us(cluster, group(np.arange(96)), 1 << power, "collnet-chain")[0] for power in (36, 35))
    assert (1 << 35) / (large - small) / 1e3 == pytest.approx(18 * 20.6 * 0.92 / 1.75, rel=1e-3)


@pytest.mark.parametrize(
    ("server", "power", "names", "gain"),
    [
        # Both fill the stages of their pipelines; SHARP saves five of six passes through NICs
        ("hgx-h100", 16, ("tree", "collnet-chain"), 1.16),
        ("hgx-h100", 22, ("tree", "nvls-sharp"), 1.41),
        ("hgx-h100", 30, ("nvls-tree", "nvls-sharp"), 1.36),
        # A tree of domains sends twice through each of the NICs of 400 Gb/s; SHARP once, at 0.8 of the NIC
        ("hgx-b200", 33, ("nvls-tree", "nvls-sharp"), 1.62),
    ],
)
def test_nccl_takes_sharp_and_is_faster(build, group, server, power, names, gain):  # noqa: PLR0917
    everyone = group(np.arange(64))
    without, before = alone_us(build(64, server, "infiniband"), everyone, 1 << power)
    found, name = alone_us(build(64, server, "infiniband", sharp=True), everyone, 1 << power)
    assert (before, name) == names
    assert without / found == pytest.approx(gain, rel=0.05)


def test_what_nics_bound_gains_twice_less_what_sharp_leaves_of_them(build, group):
    """One rank a server: a ring of 16 sends 15/8 of the data through each NIC, SHARP the data at 0.8 of the NIC."""
    ranks = group(np.arange(16) * 8)
    plain, sharp = build(128, "hgx-h100", "infiniband"), build(128, "hgx-h100", "infiniband", sharp=True)
    ring, _ = alone_us(plain, ranks, 1 << 33, "ring")
    found, _ = alone_us(sharp, ranks, 1 << 33, "collnet-chain")
    assert ring / found == pytest.approx(15 / 8 * SHARP_SHARE / plain.fabric.payload_efficiency, rel=0.01)


def test_a_deeper_tree_takes_longer(build, group):
    """Two more switches up and down: 2 x 0.35 us and their cables, once for the pass."""
    times = [
        alone_us(build(64, "hgx-h100", "infiniband", topology, sharp=True), group(np.arange(64)), 4096, "nvls-sharp")[0]
        for topology in ("leaf-spine", "three-tier")
    ]
    assert 0 < times[1] - times[0] < 2.5


def test_small_sizes_by_hand(build, group):
    """25 us for the scale-up switch, 18 less 3.5 us of path for the network, a path; and 3.2 loops (one, 1.2 stages
    inside and one between domains) of two synchronisations of 8 ranks and posts to 8 heads."""
    found, _ = alone_us(build(64, "hgx-h100", "infiniband", sharp=True), group(np.arange(64)), 8, "nvls-sharp")
    loop_us = 2 * (MEASURED.switch_sync_us + 8 * 0.137) + 8 * MEASURED.peer_us
    assert found == pytest.approx(25 + 14.5 + 3.4 + 3.2 * loop_us, rel=0.01)


def test_collnet_direct_pays_for_every_member_and_head(build, group):
    """Its loops synchronise 2 hops of 3.7 us and 14 peers; a server of 4 ranks and heads has 6, a network of more tiers
    a longer pass."""
    times = {}
    for ranks in (np.arange(64), (np.arange(8)[:, None] * 8 + np.arange(4)).ravel()):
        cluster = build(64, "hgx-h100", "infiniband", sharp=True)
        times[len(ranks)], _ = alone_us(cluster, group(ranks), 4096, "collnet-direct")
    peers = MEASURED.peer_us * (2 * 7 - 2 * 3)
    assert times[64] - times[32] == pytest.approx((1 + 3.2) * peers, rel=0.01)


@pytest.mark.parametrize(
    ("where", "algorithm", "message"),
    [
        (("hgx-h100", "infiniband"), "nvls-sharp", "does not reduce in its switches"),
        (("hgx-h100", "uec"), "collnet-chain", "does not reduce in its switches"),
        (("mi300x-8", "infiniband", True), "collnet-direct", "scale-up switch"),
        (("gb200-nvl72", "infiniband", True), "collnet-chain", "at most 8 ranks"),
    ],
)
def test_only_where_the_fabric_reduces(build, group, where, algorithm, message):
    server, fabric, *sharp = where
    cluster = build(144, server, fabric, **({"sharp": True} if sharp else {}))
    with pytest.raises(InputError, match=message):
        alone_us(cluster, group(np.arange(144)), 1 << 20, algorithm)


def test_ethernet_switches_do_not_reduce(build):
    with pytest.raises(InputError, match="reduce"):
        build(64, "hgx-h100", "roce", sharp=True)
