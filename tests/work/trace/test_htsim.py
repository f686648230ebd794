"""Htsim."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.engine.packet import PacketNetwork, Traffic
from railyard.graph import AT_RECEIVER, AT_SENDER
from railyard.kit.errors import InputError
from railyard.work.trace.builder import Failure
from railyard.work.trace.htsim_matrix import read
from railyard.work.traffic.faults import read_document
from railyard.work.traffic.htsim_topology import HtsimTree, enough, k_ary
from railyard.work.traffic.htsim_topology import read as htsim_topology_read
from railyard.work.traffic.htsim_wiring import TreeNetwork, wire
from railyard.work.traffic.played import LinkNames

from .checks import check, sent

DATA = Path(__file__).parents[2] / "engine" / "packet" / "data"


def written(tmp_path: Path, *lines: str) -> Path:
    file = tmp_path / "m.cm"
    file.write_text("\n".join(lines))
    return file


def waits(table: Traffic, row: int) -> list[int]:
    return table.dep_idx[table.dep_ptr[row] : table.dep_ptr[row + 1]].tolist()


def test_a_matrix_of_htsim_is_read_as_it_stands():
    trace = read(DATA / "perm_128n_128c_2MB.cm")
    flows = sent(trace)
    assert (flows.hosts, len(flows)) == (128, 128)
    assert (flows.source[0], flows.target[0], flows.size_bytes[0], flows.start_ps[0]) == (103, 32, 2_000_000, 0)
    assert sorted(flows.source) == sorted(flows.target) == list(range(128))
    assert flows.dep_idx.size == 0
    assert trace.line[0] == 3


@pytest.mark.parametrize(("unit", "start_ps"), [("us", 40_000_000), ("ps", 40)])
def test_start_has_two_readings(unit, start_ps):
    flows = sent(read(DATA / "incast_3-1_overlapped.tm", start_unit=unit))
    assert flows.start_ps.tolist() == [0, start_ps, start_ps]


def test_large_starts_keep_every_picosecond(tmp_path):
    # htsim reads starts with 24 bits; 16777217 is the first integer that such a reading loses.
    file = written(tmp_path, "Nodes 2", "Connections 1", "0->1 start 16777217 size 1")
    assert read(file, start_unit="ps").graph.release_ps[0] == 16_777_217


def test_oneshot_triggers_chain_flows():
    flows = sent(read(DATA / "foo2.cm"))
    assert [waits(flows, row) for row in range(4)] == [[], [0], [1], []]
    assert flows.start_ps.tolist() == [0, -1, -1] * 4
    assert set(flows.dep_at) == {AT_SENDER}


def test_multishot_starts_one_more_each_time(tmp_path):
    lines = ["Nodes 4", "Connections 5", "Triggers 1"]
    lines += [f"0->{k} id {k} start 0 size 9 send_done_trigger 1" for k in (1, 2, 3)]
    lines += ["1->2 id 7 trigger 1 size 9", "1->3 id 8 trigger 1 size 9", "trigger id 1 multishot"]
    flows = sent(read(written(tmp_path, *lines)))
    assert [waits(flows, row) for row in (3, 4)] == [[0, 1, 2], [0, 1, 2]]
    assert flows.need.tolist() == [0, 0, 0, 1, 2]


def test_a_barrier_waits_for_its_count(tmp_path):
    lines = ["Nodes 4", "Connections 3", "Triggers 1"]
    lines += [f"0->{k} id {k} start 0 size 9 recv_done_trigger 1" for k in (1, 2)]
    lines += ["1->2 id 7 trigger 1 size 9", "trigger id 1 barrier count 2"]
    flows = sent(read(written(tmp_path, *lines)))
    assert flows.need.tolist() == [0, 0, 2]
    assert flows.dep_at.tolist() == [AT_RECEIVER, AT_RECEIVER]


def test_flows_that_nothing_starts_are_named_and_left_out(tmp_path):
    lines = ["Nodes 4", "Connections 4", "Triggers 3", "0->1 id 1 start 0 size 9"]
    lines += ["0->2 id 2 trigger 1 size 9 send_done_trigger 2", "0->3 id 3 trigger 2 size 9 send_done_trigger 3"]
    lines += ["1->2 id 4 trigger 3 size 9", *(f"trigger id {k} oneshot" for k in (1, 2, 3))]
    trace = read(written(tmp_path, *lines))
    assert len(trace.graph) == 1
    assert trace.never == (5, 6, 7)


def test_triggers_at_the_receiver_never_fire_in_htsim_and_may_be_made_to_do_so_here(tmp_path):
    lines = ["Nodes 4", "Connections 2", "Triggers 1", "0->1 id 1 start 0 size 9 recv_done_trigger 1"]
    file = written(tmp_path, *lines, "1->2 id 2 trigger 1 size 9", "trigger id 1 oneshot")
    assert sent(read(file)).dep_at.tolist() == [AT_RECEIVER]
    assert read(file, recv_done_trigger="ignore").never == (5,)


def test_messages_of_a_connection_are_one_flow():
    trace = read(DATA / "test_cr_1f10m1p.cm")
    assert trace.graph.size_bytes.tolist() == [40_860]
    assert "9 messages" in trace.left_out[0]


HEAD = ("Nodes 4", "Connections 1", "Triggers 1")
GOOD = "0->1 id 1 start 0 size 9"
TRIGGER = "trigger id 1 oneshot"


@pytest.mark.parametrize(
    ("lines", "message", "line"),
    [
        ((GOOD,), "before `Nodes`", 1),
        (("Nodes 4", GOOD), "lacks `Connections`", None),
        (("Nodes 4", "Connections 2", GOOD), "says 2, but the file holds 1", 2),
        (("Nodes 4", "Connections 1", "Triggers 2", GOOD, TRIGGER), "says 2, but the file holds 1", 3),
        (("Nodes 4", "Connections 1", GOOD, TRIGGER), "says 0, but the file holds 1", None),
        (("Nodes 4", "Nodes 4"), "given twice", 2),
        (("Nodes four",), "integer", 1),
        (("Nodes 99999999999999999999",), "integer", 1),
        (("Nodes 0",), "out of range", 1),
        (("nodes 4",), "did you mean `Nodes`", 1),
        ((*HEAD, "0->4 start 0 size 9"), "out of range", 4),
        ((*HEAD, "0->0 start 0 size 9"), "to itself", 4),
        ((*HEAD, "0->1->2 start 0 size 9"), "begins with", 4),
        ((*HEAD, "0->1 start 0"), "no `size`", 4),
        ((*HEAD, "0->1 start 0 size 0"), "out of range", 4),
        ((*HEAD, "0->1 start 0 size 1e6"), "integer", 4),
        ((*HEAD, "0->1 size 9"), "neither", 4),
        ((*HEAD, "0->1 id 1 start 0 trigger 1 size 9"), "both", 4),
        ((*HEAD, "0->1 trigger 1 size 9"), "needs an `id`", 4),
        ((*HEAD, "0->1 id 0 start 0 size 9"), "out of range", 4),
        ((*HEAD, "0->1 start nan size 9"), "expected a number", 4),
        ((*HEAD, "0->1 start -1 size 9"), "expected a number", 4),
        ((*HEAD, "0->1 start 0 size 9 send_done_triger 1"), "did you mean `send_done_trigger`", 4),
        ((*HEAD, "0->1 start 0 size"), "needs a value", 4),
        ((*HEAD, GOOD + " send_done_trigger 2", TRIGGER), "there is no such trigger", 4),
        ((*HEAD, GOOD, "trigger id 1"), "without a kind", 5),
        ((*HEAD, GOOD, "trigger oneshot"), "without `id`", 5),
        ((*HEAD, GOOD, "trigger id 1 barrier"), "needs `count`", 5),
        ((*HEAD, GOOD, "trigger id 1 twoshot"), "unknown word", 5),
        ((*HEAD, GOOD, TRIGGER, TRIGGER), "declared twice", 6),
        (("Nodes 4", "Connections 2", GOOD, GOOD), "is used twice", 4),
        ((*HEAD, GOOD, "failure switch_type LEAF switch_id 0 link_id 0"), "unknown type", 5),
        ((*HEAD, GOOD, "failure switch_type AGG"), "a failure is", 5),
    ],
)
def test_malformed_matrices_name_the_line(tmp_path, lines, message, line):
    file = written(tmp_path, *lines)
    with pytest.raises(InputError, match=message) as caught:
        read(file)
    assert caught.value.problems[0].file == str(file)
    assert caught.value.problems[0].line == line


VOCABULARY = (
    "Nodes Connections Triggers Failures 0->1 1->2 3->9 id start size trigger send_done_trigger recv_done_trigger prio "
    "msg oneshot multishot barrier count failure switch_type AGG switch_id link_id 0 1 2 4 -1 1e9 nan # x"
)
WORDS = st.sampled_from(VOCABULARY.split())


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(WORDS, max_size=9).map(" ".join), max_size=8))
def test_any_file_is_read_or_refused(tmp_path_factory, lines):
    file = written(tmp_path_factory.mktemp("cm"), "Nodes 4", *lines)
    try:
        trace = read(file)
    except InputError:
        return
    check(trace)


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
    ("hosts", "tiers", "found"), [(1, 3, 2), (16, 3, 16), (17, 3, 54), (33, 2, 50), (10**9, 3, 10**9), (33, 1, 33)]
)
def test_the_default_tree_is_the_smallest_with_room(hosts, tiers, found):
    # K^3/4 hosts of three tiers: 2, 16, 54; K^2/2 of two: 2, 8, 18, 32, 50
    assert enough(hosts, tiers) == found


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
    tree = htsim_topology_read(DATA / file)
    network = wire(tree)
    for source, target in [(0, tree.hosts - 1), (tree.hosts - 1, 0), (1, tree.tiers[0].down), (0, 1)]:
        found = all_paths(network, source, target)
        assert len(found) == expected_paths(tree, source, target)


def expected_paths(tree: HtsimTree, source: int, target: int) -> int:
    down = tree.tiers[0].down
    if source // down == target // down:
        return 1
    inside = tree.aggs * tree.tiers[1].bundle ** 2
    if source // tree.pod_hosts == target // tree.pod_hosts:
        return inside
    return inside * tree.cores // tree.aggs * tree.tiers[2].bundle ** 2


def test_one_tier_is_one_switch():
    network = wire(k_ary(5, rate_bps=100 * G, latency_ps=70_000, switch_latency_ps=200_000, tiers=1))
    assert network.nodes == 6
    assert list(zip(network.source.tolist(), network.target.tolist(), strict=True)) == [
        *((host, 5) for host in range(5)),
        *((5, host) for host in range(5)),
    ]
    assert network.latency_ps.tolist() == [270_000] * 5 + [70_000] * 5
    assert network.tier.tolist() == [0] * 10
    assert all(all_paths(network, a, b) == [[a, 5 + b]] for a in range(5) for b in range(5) if a != b)
    with pytest.raises(InputError, match="no links to slow down"):
        wire(k_ary(5, rate_bps=100 * G, tiers=1), slow_links=1)


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
    spine = wire(htsim_topology_read(DATA / "leaf_spine_tiny.topo"), slow_links=1)
    assert len(spine.slow) == 2 * 4


def test_a_fault_takes_a_link_by_its_number(tmp_path):
    tree = k_ary(16, rate_bps=100 * G)
    wired = wire(tree)
    file = tmp_path / "faults.yaml"
    file.write_text("faults: [{kind: degrade-link, link: 3, factor: 0.25, at: 5 us}]")
    names = ("hosts", "nodes", "rate_bps", "latency_ps", "routes")
    network = PacketNetwork(
        link_source=wired.source, link_target=wired.target, **{name: getattr(wired, name) for name in names}
    )
    (fault,) = read_document(file, network, LinkNames(tree, wired, ("host", "leaf", "spine")))
    assert (fault.link, fault.value, fault.at_ps) == (3, 0.25, 5_000_000)


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
@given(st.integers(0, 30), st.sampled_from(["", "Tier 0", "Tier 2", "Bundle 2", "Radix_Up 0", "Oversubscribed 3", "x"]))
def test_a_file_with_one_other_line_is_read_or_refused(tmp_path_factory, number, line):
    texts = (DATA / "fat_tree_128_4os.topo").read_text().splitlines()
    texts[number % len(texts)] = line
    file = tmp_path_factory.mktemp("topo") / "other.topo"
    file.write_text("\n".join(texts))
    try:
        network = wire(htsim_topology_read(file))
    except InputError:
        return
    assert network.hosts == 128
