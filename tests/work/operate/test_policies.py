"""What every placement policy keeps, and points of some by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard import catalog, cluster
from railyard.cluster import ClusterSpec
from railyard.kit.errors import InputError
from railyard.work.operate.discipline import policies
from railyard.work.operate.free import FreeNodes, PlacementRequest
from railyard.work.operate.jobs import JobTable, check_dependencies
from railyard.work.operate.prepare import prepare
from railyard.work.operate.tree import NodeTree
from railyard.work.scenario.load import expand, from_values


def tree_of(leafs, pods=1, each=4):
    leaf = [number for number, size in enumerate(leafs) for _ in range(size)]
    levels = [("pod", [f"p{one % pods}" for one in leaf])] if pods > 1 else []
    names = [f"n{number}" for number in range(len(leaf))]
    return NodeTree.listed(names, each, [*levels, ("leaf", [f"l{one}" for one in leaf])])


@pytest.mark.parametrize("name", policies.names())
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=7), st.integers(1, 3), st.data(),
)  # fmt: skip
def test_contract(name, leafs, pods, data):
    """As many different free nodes as were asked for, the same each time, nothing changed."""
    free = FreeNodes(tree_of(leafs, pods))
    busy = data.draw(st.lists(st.integers(0, free.tree.nodes - 1), unique=True))
    free.take(np.array(busy, np.int32), 4)
    wanted = data.draw(st.integers(1, free.tree.nodes))
    request = PlacementRequest(wanted, 4, groups=(2, 4), job=3, seed=5)
    before = free.room.copy()
    found = policies.get(name).place(request, free)
    again = policies.get(name).place(request, free)
    assert (found is None) == (again is None)
    assert np.array_equal(free.room, before)
    if found is not None:
        assert found.dtype == np.int32
        assert np.array_equal(found, again)
        assert len(set(found.tolist())) == wanted
        assert (free.room[found] == 4).all()
    elif not name.startswith(("slurm-block", "cubes")):  # wider than the widest block, or no cubes: it waits
        assert wanted > free.idle


def test_worst_takes_a_node_of_every_leaf():
    free = FreeNodes(tree_of([3, 3, 3]))
    assert policies.get("worst").place(PlacementRequest(4, 4), free).tolist() == [0, 3, 6, 1]


def test_domains_are_kept_whole():
    """18 + 2 nodes of domains of 18: a whole one, and two of the broken one."""
    free = FreeNodes(tree_of([18, 18, 18]))
    free.take(np.arange(18, 23, dtype=np.int32), 4)
    found = policies.get("domain").place(PlacementRequest(20, 4), free)
    assert found[:18].tolist() == list(range(18))
    assert found[18:].tolist() == [23, 24]
    assert policies.get("domain").place(PlacementRequest(13, 4), free).tolist() == list(range(23, 36))
    assert policies.get("first-fit").place(PlacementRequest(13, 4), free).tolist() == list(range(13))


def test_groups_that_talk_stay_in_a_leaf():
    """Leafs with 3, 4 and 4 free: groups of 4 go into the two that hold them, not over the first."""
    free = FreeNodes(tree_of([3, 4, 4]))
    found = policies.get("communication").place(PlacementRequest(8, 4, groups=(4,)), free)
    assert found.tolist() == list(range(3, 11))


@pytest.mark.parametrize("policy", ["slurm-tree", "slurm-tree-23.11"])
def test_slurm_takes_the_fullest_leaf_that_holds_a_job(policy):
    free = FreeNodes(tree_of([5, 3, 8]))
    assert policies.get(policy).place(PlacementRequest(3, 4), free).tolist() == [5, 6, 7]
    free.take(np.array([5], np.int32), 4)
    assert policies.get(policy).place(PlacementRequest(3, 4), free).tolist() == [0, 1, 2]
    assert policies.get(policy).place(PlacementRequest(6, 4, switches=1), free).tolist() == list(range(8, 14))
    assert policies.get(policy).place(PlacementRequest(9, 4, switches=1), free) is None


def test_rounds_of_slurm_differ_in_the_further_leafs():
    """Slurm up to 23.11 goes to the tighter far leaf, later ones to the nearer: seen on 22.05 and 24.11."""
    pods = [["a"] * 3, ["b"] * 6, ["b"] * 8, ["c"] * 2, ["c"]]
    leaf = [f"l{number}" for number, one in enumerate(pods) for _ in one]
    tree = NodeTree.listed(
        [f"n{i}" for i in range(20)], 1, [("pod", [pod for one in pods for pod in one]), ("leaf", leaf)]
    )
    near = policies.get("slurm-tree").place(PlacementRequest(11, 1), FreeNodes(tree)).tolist()
    far = policies.get("slurm-tree-23.11").place(PlacementRequest(11, 1), FreeNodes(tree)).tolist()
    assert near == [3, 4, 5, *range(9, 17)]
    assert far == [0, 1, 2, *range(9, 17)]


def test_segments_of_blocks():
    """Base blocks of 4: 8 nodes in segments of 4 fill two; segments of 3 leave one node of each; 5 is no part of 4."""
    tree = tree_of([4, 4, 4, 4])
    block = policies.get("slurm-block").place
    assert block(PlacementRequest(6, 4, segment=3), FreeNodes(tree)).tolist() == [8, 9, 10, 12, 13, 14]
    assert block(PlacementRequest(8, 4, segment=5), FreeNodes(tree)) is None
    assert block(PlacementRequest(10, 4, segment=4), FreeNodes(tree)) is None


def test_quiet_takes_the_fewest_leafs_and_of_those_the_quietest():
    """Leafs of 3, 3, 2, 3 with 5 nodes wanted: two will do; 2 is the most quiet, and 1 more quiet than 0 and 3."""
    free = FreeNodes(tree_of([3, 3, 2, 3]))
    place = policies.get("quiet").place
    assert place(PlacementRequest(5, 4), free).tolist() == [0, 1, 2, 3, 4]
    free.traffic_bps[0][:] = [9.0, 2.0, 1.0, 3.0]
    assert place(PlacementRequest(5, 4), free).tolist() == [3, 4, 5, 6, 7]
    assert place(PlacementRequest(6, 4), free).tolist() == [3, 4, 5, 8, 9, 10]
    assert place(PlacementRequest(2, 4), free).tolist() == [6, 7]  # the tightest: it sends nothing out of a leaf
    assert place(PlacementRequest(12, 4), free) is None


def test_compatible_asks_the_contention_model():
    """Leafs of 2: whoever shares leaf 0 or 1 is said to miss nothing, so that the job of 4 goes to both."""
    free = FreeNodes(tree_of([2, 2, 2, 2]))
    place = policies.get("compatible").place
    free.traffic_bps[0][:] = [5.0, 5.0, 0.0, 0.0]
    assert place(PlacementRequest(4, 4), free).tolist() == [4, 5, 6, 7]
    asked = []

    def judge(request, nodes):
        asked.append(nodes.tolist())
        return 0.25 * len(set(nodes.tolist()) - {0, 1, 2, 3})

    free.judge = judge
    assert place(PlacementRequest(4, 4), free).tolist() == [0, 1, 2, 3]
    assert asked[0] == [4, 5, 6, 7]
    assert len(asked) == len({tuple(nodes) for nodes in asked}) > 3
    asked.clear()
    assert place(PlacementRequest(2, 4), free).tolist() == [4, 5]
    assert not asked


def listed(leafs=(3, 5, 2), each=4):
    names = [f"n{i}" for i in range(sum(leafs))]
    leaf = [f"l{i}" for i, size in enumerate(leafs) for _ in range(size)]
    return NodeTree.listed(names, each, [("leaf", leaf)])


def test_levels_of_clusters():
    shelves = catalog.load()
    plain = NodeTree.of(cluster.build(ClusterSpec(1024, "hgx-h100"), shelves))
    assert plain.levels == ("leaf",)
    assert set(plain.size[0].tolist()) == {8}
    racks = NodeTree.of(cluster.build(ClusterSpec(1152, "gb200-nvl72"), shelves))
    assert racks.levels == ("leaf", "domain")
    assert set(racks.size[1].tolist()) == {18}


def test_equal_names_in_different_groups_are_different_groups():
    tree = NodeTree.listed(["a", "b", "c"], 8, [("pod", ["p", "q", "q"]), ("leaf", ["x", "x", "y"])])
    assert tree.group[1].tolist() == [0, 1, 2]
    assert tree.parent[1].tolist() == [0, 1, 1]
    assert [list(nodes) for nodes in tree.members[0]] == [[0], [1, 2]]
    with pytest.raises(InputError, match="called `a`"):
        NodeTree.listed(["a", "b", "a"], 8, [])
    with pytest.raises(InputError, match="did you mean `leaf`"):
        tree.level("leef")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4), st.sampled_from(["take", "give", "out", "back"]))))
def test_free_counts_what_is_free(steps):
    tree = listed()
    free, left, up = FreeNodes(tree), tree.accelerators.copy(), np.ones(10, bool)
    for node, each, what in steps:
        one = np.array([node], np.int32)
        if what == "take" and free.room[node] >= each:
            free.take(one, each)
            left[node] -= each
        elif what == "give" and left[node] + each <= 4:
            free.give(one, each)
            left[node] += each
        elif what in ("out", "back"):
            getattr(free, what)(one)
            up[node] = what == "back"
        room = np.where(up, left, 0)
        assert free.room.tolist() == room.tolist()
        assert free.accelerators == room.sum()
        assert free.idle == (room == 4).sum()
        assert free.idle_in[0].tolist() == np.bincount(tree.group[0][room == 4], minlength=3).tolist()
        for wanted in (1, 2, 3, 4):
            fits = [(int(room[n]), n) for n in range(10) if room[n] >= wanted]
            assert free.tightest(wanted) == (min(fits)[1] if fits else -1)
            assert free.copy().tightest(wanted) == free.tightest(wanted)
        assert free.counts(0, 2).tolist() == np.bincount(tree.group[0][room >= 2], minlength=3).tolist()


def test_circles_of_dependencies_are_named():
    jobs = JobTable.of(np.array([5, 3, 4]), np.ones(3, np.int64), np.ones(3, np.int32), after=[[1], [2], []])
    check_dependencies(jobs)
    assert jobs.name == ("1", "2", "0")
    assert [jobs.after[a:b].tolist() for a, b in zip(jobs.after_ptr, jobs.after_ptr[1:], strict=False)] == [
        [1],
        [],
        [0],
    ]
    around = JobTable.of(np.arange(3), np.ones(3, np.int64), np.ones(3, np.int32), after=[[1], [2], [1]])
    with pytest.raises(InputError, match="`1` waits for `2` waits for `1`"):
        check_dependencies(around)


# Jobs drawn of several kinds.

LEAFS = {"topology": {"kind": "leaf-spine", "ports_per_leaf": 32}}
CLUSTER = {"accelerators": 256, "server": "hgx-h100", "back_end": LEAFS}
KINDS = [
    {"share": 3, "sizes": {"1": 1.0}, "median": "10 min", "p90": "1 h", "tenant": "lab"},
    {"sizes": {"32": 1.0}, "within": "leaf", "priority": 5, "tenant": "train", "least_accelerators": 16},
    {"share": 0.5, "sizes": {"64": 0.5, "128": 0.5}, "segment": 4, "segment_within": "leaf", "work": "language"},
    {"share": 0.5, "sizes": {"64": 1.0}, "replica_accelerators": 16, "load": 0.7, "prefers": "leaf"},
]


def jobs(kinds=KINDS, seed=0, **section):
    drawn = {"count": 2000, "load": 0.9, "sizes": {"8": 1.0}, "tenants": 2, "kinds": kinds, **section}
    work = {"operate": {"jobs": {"synthetic": drawn}, "placement": "kueue"}}
    return prepare(expand(from_values({"name": "x", "seed": seed, "cluster": CLUSTER, "workload": work}))[0]).jobs


def test_each_kind_has_what_it_says():
    found = jobs()
    size = found.accelerators
    tenant = np.array(found.tenants)[found.tenant]
    asks = np.array([found.asks[number] for number in found.ask], object)
    small, medium, serving = size == 1, size == 32, found.replica > 0
    sliced = ~small & ~medium & ~serving
    share = np.array([one.mean() for one in (small, medium, sliced, serving)])
    assert share == pytest.approx([0.6, 0.2, 0.1, 0.1], abs=0.03)
    assert set(tenant[small]) == {"lab"}
    assert set(tenant[medium]) == {"train"}
    assert set(tenant[sliced]) == {"tenant-0", "tenant-1"}
    assert {(one.within, one.prefers, one.segment, one.segment_within) for one in asks[sliced]} == {("", "", 4, "leaf")}
    assert {one.within for one in asks[medium]} == {"leaf"}
    assert {one.prefers for one in asks[serving]} == {"leaf"}
    assert set(found.priority[medium]) == {5}
    assert set(found.least_nodes[medium]) == {2}
    assert (found.least_nodes[~medium] == found.nodes[~medium]).all()
    assert set(found.replica[serving]) == {2}
    assert set(found.load_ppm[serving]) == {700_000}
    assert {found.classes[one] for one in found.work[sliced]} == {"language"}
    assert np.median(found.work_us[small]) == pytest.approx(600e6, rel=0.15)
    assert np.median(found.work_us[medium]) == pytest.approx(1800e6, rel=0.25)
    asked = float((found.accelerators * found.work_us).sum())
    assert asked / 256 / found.submit_us[-1] == pytest.approx(0.9, rel=1e-3)


def test_one_kind_is_what_jobs_without_kinds_are():
    plain, named = jobs([]), jobs([{"sizes": {"8": 1.0}}])
    for name in ("submit_us", "work_us", "nodes", "tenant"):
        assert np.array_equal(getattr(plain, name), getattr(named, name))
    assert not np.array_equal(plain.work_us, jobs([], seed=1).work_us)
