import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard import catalog, cluster
from railyard.cluster import ClusterSpec
from railyard.kit.errors import InputError
from railyard.work.operate.free import FreeNodes
from railyard.work.operate.jobs import JobTable, check_dependencies
from railyard.work.operate.tree import NodeTree


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
