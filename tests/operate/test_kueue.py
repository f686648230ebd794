"""The cases of Kueue's own table of topology assignments (data/README.md says which are left out, and why)."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from railyard.operate.free import Free
from railyard.operate.placement.kueue import Ask, Domains, assign
from railyard.operate.policy import policies
from railyard.operate.request import Request
from railyard.operate.tree import NodeTree

CASES = json.loads((Path(__file__).parent / "data" / "kueue_tas.json").read_text())
HOST = "kubernetes.io/hostname"


def capacity(free, requests):
    """Pods that fit on each leaf, by every resource."""
    return np.array([max(0, min(one.get(key, 0) // need for key, need in requests.items() if need)) for one in free])


def ask_of(pod_set, levels, *, mixed):
    """What is asked, or None where Kueue refuses the request itself."""
    level = pod_set["required"] or pod_set["preferred"]
    names = [name for name, _ in pod_set["layers"]] + ([level] if level else [])
    sizes = [size for _, size in pod_set["layers"]]
    if any(name not in levels for name in names) or not all(sizes):
        return None
    slices = tuple((levels.index(name), size) for name, size in pod_set["layers"])
    begin = levels.index(level) if level else (0 if slices else len(levels) - 1)
    rising = all(a[0] < b[0] and a[1] % b[1] == 0 for a, b in pairwise(slices))
    if not rising or (slices and begin > slices[0][0]):
        return None
    return Ask(pod_set["count"], begin, bool(pod_set["required"]), not level, slices, mixed)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_same_assignment(case):
    levels, paths = case["levels"], [tuple(values) for values, _ in case["leafs"]]
    free = [dict(resources) for _, resources in case["leafs"]]
    for pod_set in case["sets"]:
        requests = {"pods": 1, **pod_set["requests"]}
        ask = ask_of(pod_set, levels, mixed=case["mixed"])
        found = assign(Domains.of(paths), capacity(free, requests), ask) if ask and paths else None
        values = [[path[-1]] if levels[-1] == HOST else list(path) for path in paths]
        ours = None if found is None else sorted([values[at], int(pods)] for at, pods in enumerate(found) if pods)
        assert ours == (pod_set["want"] and sorted(pod_set["want"])), pod_set["reason"]
        for at, pods in enumerate(found if found is not None else ()):
            for key, need in requests.items():
                free[at][key] = free[at].get(key, 0) - need * int(pods)


def test_small_jobs_break_racks_until_slices_are_asked_for():
    """Racks of 4: a job of 2 goes where least is free; 8 nodes in slices of 4 take two racks that are not broken.

    Ranks go by the names of racks and nodes as texts: n10 stands before n8.
    """
    tree = NodeTree.listed([f"n{i}" for i in range(12)], 4, [("rack", [f"r{i // 4}" for i in range(12)])])
    free = Free(tree)
    free.take(np.array([4], np.int32), 4)
    kueue = policies.get("kueue").place
    assert kueue(Request(8, 4, segment=4, segment_within="rack"), free).tolist() == [0, 1, 2, 3, 10, 11, 8, 9]
    assert kueue(Request(9, 4, segment=3, segment_within="rack"), free).tolist() == [0, 1, 2, 5, 6, 7, 10, 11, 8]
    assert kueue(Request(5, 4, within="rack"), free) is None
    assert kueue(Request(3, 4, within="rack"), free).tolist() == [5, 6, 7]
