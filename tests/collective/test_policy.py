"""What users may fix, and how they are told when it cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.collective import CollectivePolicy, Shape, choose, lower_collectives
from railyard.graph import CollectiveKind as Kind
from railyard.kit.errors import InputError


def test_the_most_precise_key_wins(build):
    policy = CollectivePolicy(algorithm={"all-reduce": "ring", "dp": "tree", "dp all-reduce": "hierarchical"})
    cluster = build(32, "hgx-h100", "roce")
    shape = Shape.grid(4, 8)
    assert choose(Kind.ALL_REDUCE, 1 << 20, shape, cluster, policy, group="dp").algorithm == "hierarchical"
    assert choose(Kind.ALL_REDUCE, 1 << 20, shape, cluster, policy, group="tp").algorithm == "ring"


def test_a_group_key_is_silent_about_other_kinds(build):
    policy = CollectivePolicy(algorithm={"ep": "ring"})
    chosen = choose(Kind.ALL_TO_ALL, 1 << 20, Shape.grid(4, 8), build(32, "hgx-h100", "roce"), policy, group="ep")
    assert chosen.algorithm == "pairwise"


def test_best_is_at_least_as_good_as_the_library(build):
    cluster = build(32, "hgx-h100", "roce")
    shape = Shape.grid(4, 8)
    for kind in Kind:
        for exponent in range(3, 34, 3):
            library = choose(kind, 2**exponent, shape, cluster)
            best = choose(kind, 2**exponent, shape, cluster, CollectivePolicy(selector="best"))
            assert best.time_ps <= library.time_ps


@pytest.mark.parametrize(
    ("machine", "algorithm", "reason"),
    [
        (("dgx-a100", 8), "nvls", "cannot reduce"),
        (("hgx-h100", 16), "collnet-direct", "does not reduce in its switches"),
        (("hgx-h100", 8), "nvls-tree", "one domain only"),
        (("hgx-h100", 8), "torus", "fill a torus"),
    ],
)
def test_what_cannot_run_says_why(build, group, machine, algorithm, reason):
    server, ranks = machine
    policy = CollectivePolicy(algorithm={"all-reduce": algorithm})
    request = (np.zeros(1), np.zeros(1), np.ones(1), np.ones(1))
    request = tuple(column.astype(np.int64) for column in request)
    with pytest.raises(InputError, match=reason):
        lower_collectives(build(ranks, server, "roce"), group(np.arange(ranks)), request, policy=policy)


def test_a_protocol_that_the_algorithm_does_not_speak(build):
    policy = CollectivePolicy(algorithm={"all-reduce": "nvls"}, protocol={"all-reduce": "ll"})
    with pytest.raises(InputError, match="does not speak") as caught:
        choose(Kind.ALL_REDUCE, 8, Shape.grid(1, 8), build(8, "hgx-h100", "roce"), policy)
    assert caught.value.problems[0].allowed == "simple"


def test_launching_and_slow_stacks_cost_what_is_said(build, group):
    cluster = build(16, "hgx-h100", "roce")
    request = (np.zeros(1, int), np.zeros(1, int), np.array([8]), np.array([3]))
    everyone = group(np.arange(16))
    plain = lower_collectives(cluster, everyone, request)
    slow = lower_collectives(
        cluster, everyone, request, policy=CollectivePolicy(launch_ps=5_000_000, network_overhead_ps=10_000_000)
    )
    assert slow.latency_ps[0] - plain.latency_ps[0] == 3 * (5_000_000 + 2 * 10_000_000)  # a tree: up and down


def test_policies_compare_by_what_they_say():
    one, other = CollectivePolicy(algorithm={"dp": "ring"}), CollectivePolicy(algorithm={"dp": "ring"})
    assert one == other
    assert len({one, other, CollectivePolicy()}) == 2


@pytest.mark.parametrize(
    ("version", "algorithm"), [("2.20", "ring"), ("2.22.3", "ring"), ("2.23", "pat"), ("2.30", "pat")]
)
def test_a_library_from_before_pat_chooses_none(build, version, algorithm):
    """NCCL 2.23 brought PAT, for groups of one rank a server: 113 MB is what a layer of GPT 22B reduces on each."""
    cluster, policy = build(512, "hgx-h800", "roce"), CollectivePolicy(version=version)
    chosen = choose(Kind.REDUCE_SCATTER, 113_309_184, Shape.grid(64, 1), cluster, policy, group="dp")
    assert chosen.algorithm == algorithm
