"""Scheduling cycles of Kueue's own tests (data/README.md says where they are from)."""

import json
from pathlib import Path

import pytest

from railyard.work.operate.kueue.play import after, cycle
from railyard.work.operate.kueue.state import admission, cluster

TABLE = json.loads((Path(__file__).parent / "data" / "kueue_cycles.json").read_text())


def cluster_of(case):
    nodes = [{"kind": "Node", **one} for one in TABLE["nodes"][case["nodes"]]]
    settings = {
        "kind": "Configuration",
        "featureGates": case["gates"],
        "resources": {"transformations": case.get("resourceTransformations", [])},
    }
    return cluster([settings, *nodes, *case["items"]])


def in_order(queues):
    return {name: sorted(keys) for name, keys in (queues or {}).items()}


# The patch that evicts a workload fails in these, by the API server: what Railyard says is what Kueue wanted to write.
REFUSED = [case["name"] for case in TABLE["cases"] if "patchStatusErr" in case]
# Judged by functions in place of a table: see `test_second_pass`.
BY_FUNCTION = "TestSecondPassSkipsWaitForPodsReadyBlock"
JUDGED = [case for case in TABLE["cases"] if case["name"] not in REFUSED and case["test"] != BY_FUNCTION]


@pytest.mark.parametrize("case", JUDGED, ids=[case["name"] for case in JUDGED])
def test_same_outcome(case):
    before = cluster_of(case)
    outcome = cycle(before)
    second = case["test"] == "TestScheduleForTAS"  # whose table lists workloads that lost a node too
    was = {one.key for one in before.workloads if one.admitted and not (second and one.unhealthy)}
    ours = {key: one for key, one in after(before, outcome).items() if key not in was}
    assert ours == {key: admission(one) for key, one in case["admitted"].items()}
    assert sorted([*outcome.preempted, *outcome.evicted]) == case["evicted"]
    assert in_order(outcome.left) == in_order(case["left"])
    assert in_order(outcome.inadmissible) == in_order(case["inadmissible"])


@pytest.mark.parametrize("name", REFUSED)
def test_evicts_what_the_server_refuses_to_write(name):
    outcome = cycle(cluster_of(next(case for case in TABLE["cases"] if case["name"] == name)))
    assert outcome.evicted == ["default/foo"]


@pytest.mark.parametrize("name", ["delayed topology assignment", "failed node replacement"])
def test_second_pass(name):
    """A provisioned workload gets its place; one that lost x1 goes elsewhere, and keeps its quota."""
    case = next(case for case in TABLE["cases"] if case["name"] == name)
    assert case["test"] == BY_FUNCTION
    (share,) = cycle(cluster_of(case)).admitted["default/wl"].shares
    assert share.place
    assert share.used == {"cpu": 1000}
    if name.startswith("delayed"):
        assert share.delayed == "Ready"
    else:
        assert [values for values, _ in share.place.domains] == [("x2",)]


def test_all_cases_are_looked_at():
    assert (len(TABLE["cases"]), len(JUDGED), len(REFUSED)) == (107, 103, 2)
