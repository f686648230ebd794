"""The tables of Kueue's own tests of topology assignments (data/README.md says where they are from)."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from railyard.work.operate.discipline import policies
from railyard.work.operate.free import FreeNodes, PlacementRequest
from railyard.work.operate.kueue.flavor import Flavor, FlavorNodes
from railyard.work.operate.kueue.manifests import assignment, node, selection, taken_by, topology_request
from railyard.work.operate.kueue.objects import GATES, Gates, PodSet, Refusal
from railyard.work.operate.kueue.place import PlaceSearch, RunningPods, Wanted, place
from railyard.work.operate.tree import NodeTree

TABLE = json.loads((Path(__file__).parent / "data" / "kueue_assignments.json").read_text())


def wanted_of(one):
    """A pod set of a case; nothing asked of the topology: a place is implied."""
    asks = one.get("topologyRequest")
    if "podSetGroupName" in one and asks is not None:
        asks = {**asks, "podSetGroupName": one["podSetGroupName"]}
    spec = {key: one[key] for key in ("tolerations", "nodeSelector") if key in one}
    if one.get("nodeAffinity"):
        spec["affinity"] = {"nodeAffinity": one["nodeAffinity"]}
    requests = {key: int(value) for key, value in one["requests"].items()}
    pods = PodSet(one.get("podSetName", ""), one["count"], requests, topology_request(asks), selection(spec))
    return Wanted(pods, asks is None, assignment(one.get("previousAssignment")))


def running_of(workload):
    """The workload of a case, where a node of it is lost."""
    if not (workload or {}).get("status", {}).get("unhealthyNodes"):
        return None
    owners = workload["metadata"].get("ownerReferences", [])
    places = {
        one["name"]: assignment(one["topologyAssignment"])
        for one in workload["status"]["admission"]["podSetAssignments"]
    }
    alone = len(owners) == 1 and owners[0]["kind"] == "Pod" and "annotations" not in workload["metadata"]
    return RunningPods(places, workload["status"]["unhealthyNodes"][0]["name"], alone)


def facts_of(reason):
    """(fit, wanted, nodes, excluded) out of Kueue's words."""
    fit = re.search(r"only (\d+) out of (\d+)|any of (\d+)", reason)
    nodes = re.search(r"Total nodes: (\d+); excluded: (.*)", reason)
    causes = re.findall(r'(?:resource|taint) "([^"]+)": (\d+)|(\w+): (\d+)', nodes[2]) if nodes else []
    excluded = {(one or three): int(two or four) for one, two, three, four in causes}
    layers = tuple((int(one), int(two)) for one, two in re.findall(r"(\d+)/(\d+) slice", reason))
    fit = (int(fit[1] or 0), int(fit[2] or fit[3])) if fit else None
    return fit, excluded, layers


@pytest.mark.parametrize("case", TABLE["cases"], ids=[case["name"] for case in TABLE["cases"]])
def test_same_assignment(case):
    gates = Gates(**{GATES[name]: on for name, on in case.get("featureGates", {}).items() if name in GATES})
    nodes = [node(one) for one in TABLE["nodes"][case["nodes"]]]
    flavor = Flavor(FlavorNodes(case["levels"], nodes, case.get("nodeLabels", {}), taken_by(case.get("pods", ()))))
    used = case.get("priorFlavorUsage", []) + case.get("priorOwnUsage", [])
    for one in used:
        each = {**one["singlePodRequests"], "pods": 1}
        flavor.take({tuple(one["values"]): {key: value * one["count"] for key, value in each.items()}})
    found = place(
        PlaceSearch(flavor, gates), [wanted_of(one) for one in case["podSets"]], running_of(case.get("workload"))
    )
    for one in case["podSets"]:
        ours, theirs = found.get(one.get("podSetName", "")), assignment(one.get("wantAssignment"))
        if one.get("wantReason"):
            assert isinstance(ours, Refusal), one["wantReason"]
            fit, excluded, layers = facts_of(one["wantReason"])
            if fit:
                assert (ours.fit, ours.wanted) == fit, one["wantReason"]
            assert ours.excluded == excluded, one["wantReason"]
            assert ours.layers == layers, one["wantReason"]
        else:
            assert ours == theirs


def test_small_jobs_break_racks_until_slices_are_asked_for():
    """Racks of 4: a job of 2 goes where least is free; 8 nodes in slices of 4 take two racks that are not broken.

    Ranks go by the names of racks and nodes as texts: n10 stands before n8.
    """
    tree = NodeTree.listed([f"n{i}" for i in range(12)], 4, [("rack", [f"r{i // 4}" for i in range(12)])])
    free = FreeNodes(tree)
    free.take(np.array([4], np.int32), 4)
    kueue = policies.get("kueue").place
    assert kueue(PlacementRequest(8, 4, segment=4, segment_within="rack"), free).tolist() == [0, 1, 2, 3, 10, 11, 8, 9]
    assert kueue(PlacementRequest(9, 4, segment=3, segment_within="rack"), free).tolist() == [
        0,
        1,
        2,
        5,
        6,
        7,
        10,
        11,
        8,
    ]
    assert kueue(PlacementRequest(5, 4, within="rack"), free) is None
    assert kueue(PlacementRequest(3, 4, within="rack"), free).tolist() == [5, 6, 7]


def test_a_preferred_level_gets_equal_shares_below_it():
    """Racks of 4, one node of the second busy: 6 nodes of a pod take 4 of a rack and 2 of the tightest, or 3 and 3."""
    levels = [("pod", ["p"] * 12), ("rack", [f"r{i // 4}" for i in range(12)])]
    tree = NodeTree.listed([f"n{i}" for i in range(12)], 4, levels)
    free = FreeNodes(tree)
    free.take(np.array([4], np.int32), 4)
    ask = PlacementRequest(6, 4, prefers="pod")
    assert policies.get("kueue").place(ask, free).tolist() == [0, 1, 2, 3, 5, 6]
    assert policies.get("kueue-balanced").place(ask, free).tolist() == [0, 1, 2, 5, 6, 7]
