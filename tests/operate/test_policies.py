"""What every placement policy keeps, and points of some by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.work.operate.discipline import policies
from railyard.work.operate.free import FreeNodes, PlacementRequest
from railyard.work.operate.tree import NodeTree


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
    elif not name.startswith("slurm-block"):  # a job wider than the widest block waits
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
