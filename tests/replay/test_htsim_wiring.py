from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.kit.errors import InputError
from railyard.work.trace.builder import Failure
from railyard.work.traffic.htsim_topology import Tree, k_ary, read
from railyard.work.traffic.htsim_wiring import TreeNetwork, wire

DATA = Path(__file__).parents[1] / "packet" / "data"
G = 10**9


def next_links(network: TreeNetwork, node: int, host: int) -> list[int]:
    table = network.routes
    record = int(table.find(np.array([node], np.int32), np.array([host], np.int32))[0])
    assert record >= 0
    group = (host - int(table.lo[record])) // int(table.stride[record])
    width = int(table.width[record])
    first = int(table.first[record]) + group * width
    return table.choices[first : first + width].tolist()


def all_paths(network: TreeNetwork, source: int, target: int) -> list[list[int]]:
    paths = [[link] for link in next_links(network, source, target)]
    done = []
    while paths:
        path = paths.pop()
        assert len(path) <= 6
        here = int(network.target[path[-1]])
        if here == target:
            done.append(path)
            continue
        for link in next_links(network, here, target):
            assert network.source[link] == here
            paths.append([*path, link])
    return done


@pytest.mark.parametrize(
    ("pair", "links", "paths"), [((0, 1), 2, 1), ((0, 2), 4, 2), ((0, 15), 6, 4), ((13, 0), 6, 4), ((4, 7), 4, 2)]
)
def test_k_ary_tree_of_16_has_the_paths_of_the_textbook(pair, links, paths):
    # Al-Fares 2008: in a K-ary fat tree K^2/4 paths join pods, K/2 join ToRs of a pod.
    network = wire(k_ary(16, rate_bps=100 * G))
    found = all_paths(network, *pair)
    assert len(found) == paths
    assert {len(path) for path in found} == {links}
    assert len({tuple(path) for path in found}) == paths


@pytest.mark.parametrize(
    "file", ["fat_tree_128_4os.topo", "fat_tree_128_8os.topo", "leaf_spine_tiny.topo", "test.topo"]
)
def test_every_pair_is_joined_by_as_many_paths_as_the_tiers_give(file):
    tree = read(DATA / file)
    network = wire(tree)
    for source, target in [(0, tree.hosts - 1), (tree.hosts - 1, 0), (1, tree.tiers[0].down), (0, 1)]:
        found = all_paths(network, source, target)
        assert len(found) == expected_paths(tree, source, target)


def expected_paths(tree: Tree, source: int, target: int) -> int:
    down = tree.tiers[0].down
    if source // down == target // down:
        return 1
    inside = tree.aggs * tree.tiers[1].bundle ** 2
    if source // tree.pod_hosts == target // tree.pod_hosts:
        return inside
    return inside * tree.cores // tree.aggs * tree.tiers[2].bundle ** 2


def test_links_of_both_directions_pair_up():
    network = wire(k_ary(128, rate_bps=400 * G))
    forward = sorted(zip(network.source.tolist(), network.target.tolist(), strict=True))
    back = sorted(zip(network.target.tolist(), network.source.tolist(), strict=True))
    assert forward == back
    assert len(forward) == 6 * 128
    assert network.nodes == 128 + 32 + 32 + 16


def test_aggregation_switches_are_wired_to_cores_as_in_htsim():
    network = wire(k_ary(16, rate_bps=100 * G))
    first_core = 16 + 8 + 8
    cores_of_agg = {agg: set() for agg in range(8)}
    for source, target in zip(network.source.tolist(), network.target.tolist(), strict=True):
        if target >= first_core:
            cores_of_agg[source - 24].add(target - first_core)
    assert cores_of_agg == {agg: {agg % 2, agg % 2 + 2} for agg in range(8)}


def test_switch_latency_is_paid_on_the_way_into_a_switch():
    tree = k_ary(16, rate_bps=100 * G, latency_ps=1_000_000, switch_latency_ps=300_000)
    network = wire(tree)
    into_host = network.target < 16
    assert set(network.latency_ps[into_host]) == {1_000_000}
    assert set(network.latency_ps[~into_host]) == {1_300_000}
    path = all_paths(network, 0, 15)[0]
    assert network.latency_ps[path].sum() == tree.diameter_latency_ps == 6_000_000 + 5 * 300_000


def test_slow_links_are_those_of_htsim():
    # `-failed 3`, 16 hosts: links 0 and 1 of aggregation switch 0, link 0 of switch 1 (l + 2 agg < 3), downwards only.
    network = wire(k_ary(16, rate_bps=100 * G), slow_links=3)
    slow = [(int(network.source[link]), int(network.target[link])) for link in network.slow]
    assert slow == [(32, 24), (34, 24), (33, 25)]
    spine = wire(read(DATA / "leaf_spine_tiny.topo"), slow_links=1)
    assert len(spine.slow) == 2 * 4


def test_a_failed_link_is_gone_round_and_everybody_still_reaches_everybody():
    failure = Failure("AGG", 3, 1, 9)
    network = wire(k_ary(16, rate_bps=100 * G), failures=[failure])
    dead = {frozenset((24 + 3, 16 + 8 + 8 + 1 + 2 * 1))}
    lost = 0
    for source in range(16):
        for target in set(range(16)) - {source}:
            paths = all_paths(network, source, target)
            assert paths
            lost += expected_paths(k_ary(16, rate_bps=1), source, target) - len(paths)
            for path in paths:
                ends = {frozenset((int(network.source[link]), int(network.target[link]))) for link in path}
                assert not ends & dead
    assert lost == 2 * 4 * 12  # one of four paths between the four hosts of pod 1 and the twelve others, each way


@pytest.mark.parametrize("failure", [Failure("TOR", 0, 0, 3), Failure("AGG", 99, 0, 3), Failure("AGG", 0, 2, 3)])
def test_failures_of_no_link_are_refused(failure):
    with pytest.raises(InputError) as caught:
        wire(k_ary(16, rate_bps=G), failures=[failure])
    assert caught.value.problems[0].line == 3


@settings(deadline=None, max_examples=60)
@given(hosts=st.integers(2, 3000))
def test_trees_of_other_sizes_are_refused_with_the_nearest(hosts):
    if hosts in {2, 16, 54, 128, 250, 432, 686, 1024, 1458, 2000, 2662}:
        assert k_ary(hosts, rate_bps=G).hosts == hosts
        return
    with pytest.raises(InputError, match="there is no K-ary fat tree"):
        k_ary(hosts, rate_bps=G)


@settings(deadline=None, max_examples=60)
@given(st.text("NodesTiersPodsizeRadix_DownUp0123456789 \n#-", max_size=200))
def test_any_text_is_a_tree_or_an_input_error(tmp_path_factory, text):
    file = tmp_path_factory.mktemp("topo") / "any.topo"
    file.write_text(text)
    with pytest.raises(InputError):
        read(file)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 30), st.sampled_from(["", "Tier 0", "Tier 2", "Bundle 2", "Radix_Up 0", "Oversubscribed 3", "x"]))
def test_a_file_with_one_other_line_is_read_or_refused(tmp_path_factory, number, line):
    texts = (DATA / "fat_tree_128_4os.topo").read_text().splitlines()
    texts[number % len(texts)] = line
    file = tmp_path_factory.mktemp("topo") / "other.topo"
    file.write_text("\n".join(texts))
    try:
        network = wire(read(file))
    except InputError:
        return
    assert network.hosts == 128
