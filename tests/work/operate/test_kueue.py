"""The tables of Kueue's own tests of topology assignments (data/README.md says where they are from)."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.face.cli.guard import run
from railyard.work.operate.discipline import policies
from railyard.work.operate.free import FreeNodes, PlacementRequest
from railyard.work.operate.kueue.flavor import Flavor, FlavorNodes
from railyard.work.operate.kueue.manifests import assignment, node, pod_requests, selection, taken_by, topology_request
from railyard.work.operate.kueue.objects import GATES, Fits, Gates, Given, PodAsk, PodSet, Refusal, amount
from railyard.work.operate.kueue.place import PlaceSearch, RunningPods, Wanted, place
from railyard.work.operate.kueue.play import cycle, play
from railyard.work.operate.kueue.queues import ClusterQueue, QueueCohort, Quota, ResourceGroup
from railyard.work.operate.kueue.room import Domains
from railyard.work.operate.kueue.search import assign
from railyard.work.operate.kueue.snapshot import accounts
from railyard.work.operate.kueue.state import admission, cluster, read_cluster
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


# Scheduling cycles of Kueue's own tests (data/README.md says where they are from).

KUEUE_CYCLES_TABLE = json.loads((Path(__file__).parent / "data" / "kueue_cycles.json").read_text())


def cluster_of(case):
    nodes = [{"kind": "Node", **one} for one in KUEUE_CYCLES_TABLE["nodes"][case["nodes"]]]
    settings = {
        "kind": "Configuration",
        "featureGates": case["gates"],
        "resources": {"transformations": case.get("resourceTransformations", [])},
    }
    return cluster([settings, *nodes, *case["items"]])


def in_order(queues):
    return {name: sorted(keys) for name, keys in (queues or {}).items()}


# The patch that evicts a workload fails in these, by the API server: what Railyard says is what Kueue wanted to write.
REFUSED = [case["name"] for case in KUEUE_CYCLES_TABLE["cases"] if "patchStatusErr" in case]
# Judged by functions in place of a table: see `test_second_pass`.
BY_FUNCTION = "TestSecondPassSkipsWaitForPodsReadyBlock"
JUDGED = [case for case in KUEUE_CYCLES_TABLE["cases"] if case["name"] not in REFUSED and case["test"] != BY_FUNCTION]


@pytest.mark.parametrize("case", JUDGED, ids=[case["name"] for case in JUDGED])
def test_same_outcome(case):
    before = cluster_of(case)
    outcome = cycle(before)
    second = case["test"] == "TestScheduleForTAS"  # whose table lists workloads that lost a node too
    was = {one.key for one in before.workloads if one.admitted and not (second and one.unhealthy)}
    after = {one.key: one.admission for one in before.workloads if one.admission} | outcome.admitted
    ours = {key: one for key, one in after.items() if key not in was}
    assert ours == {key: admission(one) for key, one in case["admitted"].items()}
    assert sorted([*outcome.preempted, *outcome.evicted]) == case["evicted"]
    assert in_order(outcome.left) == in_order(case["left"])
    assert in_order(outcome.inadmissible) == in_order(case["inadmissible"])


@pytest.mark.parametrize("name", REFUSED)
def test_evicts_what_the_server_refuses_to_write(name):
    outcome = cycle(cluster_of(next(case for case in KUEUE_CYCLES_TABLE["cases"] if case["name"] == name)))
    assert outcome.evicted == ["default/foo"]


@pytest.mark.parametrize("name", ["delayed topology assignment", "failed node replacement"])
def test_second_pass(name):
    """A provisioned workload gets its place; one that lost x1 goes elsewhere, and keeps its quota."""
    case = next(case for case in KUEUE_CYCLES_TABLE["cases"] if case["name"] == name)
    assert case["test"] == BY_FUNCTION
    (share,) = cycle(cluster_of(case)).admitted["default/wl"].shares
    assert share.place
    assert share.used == {"cpu": 1000}
    if name.startswith("delayed"):
        assert share.delayed == "Ready"
    else:
        assert [values for values, _ in share.place.domains] == [("x2",)]


def test_all_cases_are_looked_at():
    assert (len(KUEUE_CYCLES_TABLE["cases"]), len(JUDGED), len(REFUSED)) == (107, 103, 2)


# Cycles of Kueue until nothing changes, and `railyard place` on its objects.

EXAMPLE = Path(__file__).parents[3] / "examples" / "operate" / "kueue.yaml"
GPU = ("h100", "nvidia.com/gpu")


def places(played, key):
    admission = played.workloads[key].admission
    return {share.name: dict(share.place.domains) for share in admission.shares}


def test_quota_is_taken_back_and_lost_nodes_are_replaced():
    played = play(read_cluster([EXAMPLE]))
    assert places(played, "default/heals") == {"main": {("b2-r3-n5",): 2}}
    assert places(played, "default/train") == {"main": {("b1-r1-n1",): 1, ("b1-r1-n2",): 1, ("b1-r2-n3",): 1}}
    assert places(played, "default/slices") == {"main": {("b2-r4-n7",): 1, ("b2-r4-n8",): 1}}
    assert places(played, "default/serve") == {"leader": {("b1-r2-n4",): 1}, "workers": {("b1-r2-n4",): 4}}
    assert played.gone == {"default/borrows": "default/slices"}
    assert played.moved == ["default/heals"]


def cut(tmp_path, old, new):
    path = tmp_path / "state.yaml"
    text = EXAMPLE.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return str(path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("queueName: team-a", "queueName: team-x", "default/train is for a queue that is not there"),
        ("topologyName: fabric", "topologyName: fabrik", "ResourceFlavor h100 names a Topology that is not there"),
        ("nominalQuota: 48", "nominalQuota: many", "no quantity of nvidia.com/gpu"),
        ("nominalQuota: 48", "nominalQuta: 48", "no `nominalQuota`; did you mean `nominalQuota`?"),
        ("count: 2", "count: -2", "a pod set has a number of pods"),
        ("kind: ClusterQueue", "kind: Clusterqueue", "is for a queue that is not there"),
        ("spec: {clusterQueue: team-a}", "spec: {}", "LocalQueue team-a has no 'clusterQueue'"),
        ("{kind: Node", "{kinds: Node", "an object has a `kind`"),
        ("spec:\n  levels", "spec: [\n  levels", "not YAML"),
        ("cohortName: all\n  preemption: {reclaimWithinCohort: Any}", "cohortName: [1]\n", "ClusterQueue team-b"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, capsys, old, new, words):
    path = cut(tmp_path, old, new)
    assert run(["place", path, "--nodes", path]) == 2
    message = capsys.readouterr().err
    assert words in message
    assert "state.yaml" in message


def test_command_line(capsys):
    assert run(["place", str(EXAMPLE), "--nodes", str(EXAMPLE)]) == 0
    assert "Kueue admits or moves 4 workloads and preempts 1; 1 wait." in capsys.readouterr().out
    assert run(["place", str(EXAMPLE), "--nodes", str(EXAMPLE), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [found[f"default/{name}"]["state"] for name in ("heals", "train", "borrows")] == [
        "moved",
        "admitted",
        "preempted",
    ]
    assert found["default/train"]["podSets"]["main"]["domains"][0] == [["b1-r1-n1"], 1]
    assert found["default/borrows"]["for"] == "default/slices"


def queue(name, cohort, nominal, borrowing=None, lending=None):
    limits = {"nvidia.com/gpu": Quota(nominal, borrowing, lending)}
    return ClusterQueue(name, cohort, (ResourceGroup(("nvidia.com/gpu",), (("h100", limits),)),))


def test_quota_of_a_tree_by_hand():
    """a has 10 and lends 4; b has 6 and borrows 3; both in `low` below `high`, where c has 5.

    b can use its 6, and of a's 4 and c's 5 no more than 3. When a uses 8, 2 of that lie on the lent part: 13 of 15 are
    left there, and b can still have 9. When a uses 10 and c 5, 4 and 5 lie there: 6 of the 15 are left to both.
    """
    cohorts = [QueueCohort("low", "high"), QueueCohort("high")]
    found = accounts(
        [queue("a", "low", 10, lending=4), queue("b", "low", 6, borrowing=3), queue("c", "high", 5)], cohorts
    )
    a, b, c = (found[name] for name in "abc")
    assert (b.free(GPU), b.most(GPU), a.most(GPU), c.most(GPU)) == (9, 9, 21, 15)
    assert b.reach(GPU, 6) == (0, True)
    assert b.reach(GPU, 9) == (1, True)
    a.add(GPU, 8)
    assert (b.free(GPU), a.free(GPU)) == (9, 13)
    a.add(GPU, 2)
    c.add(GPU, 5)
    assert (b.free(GPU), a.free(GPU)) == (6, 6)
    assert c.reach(GPU, 1) == (2, False)
    a.remove(GPU, 10)
    c.remove(GPU, 5)
    assert (b.free(GPU), a.parent.used[GPU], c.parent.used[GPU]) == (9, 0, 0)


@pytest.mark.parametrize(
    ("resource", "text", "value"),
    [
        ("cpu", "1500m", 1500),
        ("cpu", "2", 2000),
        ("memory", "1536Mi", 1610612736),
        ("memory", "1e3", 1000),
        ("x", "0.5", 1),
    ],
)
def test_quantities(resource, text, value):
    assert amount(resource, text) == value


def test_requests_of_a_pod():
    """A sidecar runs beside all containers; a step before them counts with the sidecars that run by then."""
    spec = {
        "initContainers": [
            {"resources": {"requests": {"cpu": "3"}}},
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
            {"resources": {"requests": {"cpu": "4"}}},
        ],
        "containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"limits": {"cpu": "2"}}}],
        "overhead": {"cpu": "100m"},
    }
    assert pod_requests(spec) == {"cpu": 4600}


def test_assignments_in_slices():
    """The compact form of v1beta2: values of all domains at once, or roots between a prefix and a suffix."""
    manifest = {
        "levels": ["rack", "kubernetes.io/hostname"],
        "slices": [
            {
                "domainCount": 2,
                "valuesPerLevel": [{"universal": "r1"}, {"individual": {"prefix": "n", "roots": ["3", "4"]}}],
                "podCounts": {"individual": [2, 5]},
            },
            {
                "domainCount": 1,
                "valuesPerLevel": [{"universal": "r2"}, {"individual": {"roots": ["x"], "suffix": "y"}}],
                "podCounts": {"universal": 1},
            },
        ],
    }
    assert assignment(manifest).domains == ((("r1", "n3"), 2), (("r1", "n4"), 5), (("r2", "xy"), 1))


CHECK = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: provision}
spec: {controllerName: kueue.x-k8s.io/provisioning-request}
---
"""


def test_a_provisioning_check_delays_the_place(tmp_path, capsys):
    """Workloads of the queue get quota, and a place only once their check is ready."""
    checked = "  admissionChecksStrategy: {admissionChecks: [{name: provision}]}\n  cohortName: all"
    path = cut(tmp_path, "  cohortName: all", checked)
    Path(path).write_text(CHECK + Path(path).read_text())
    assert run(["place", path, "--nodes", path, "--json"]) == 0
    train = json.loads(capsys.readouterr().out)["default/train"]
    assert (train["state"], train["podSets"]["main"]["domains"]) == ("has quota", [])
    assert run(["place", path, "--nodes", path]) == 0
    assert "once nodes are provisioned" in capsys.readouterr().out


@pytest.mark.parametrize(("strategy", "serve"), [("BestEffortFIFO", "admitted"), ("StrictFIFO", "waits")])
def test_a_head_that_does_not_fit_holds_up_a_strict_queue(tmp_path, capsys, strategy, serve):
    """`train` wants a block of five nodes, which there is none of."""
    path = cut(tmp_path, "count: 3\n      topologyRequest: {required", "count: 5\n      topologyRequest: {required")
    text = Path(path).read_text().replace("  cohortName: all", f"  queueingStrategy: {strategy}\n  cohortName: all")
    Path(path).write_text(text)
    assert run(["place", path, "--nodes", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["default/train"]["state"] == "waits"
    assert (
        found["default/train"]["why"] == "main: too little nvidia.com/gpu in h100, 4 of 5 pods fit if nothing else ran"
    )
    assert found["default/serve"]["state"] == serve


# What every assignment keeps to, on random topologies: none of it is about which of several right ones is
# taken.


@st.composite
def questions(draw):
    """Nodes in racks in blocks with room for up to five pods each, and what is asked of them."""
    racks = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    blocks = draw(st.lists(st.integers(0, 2), min_size=len(racks), max_size=len(racks)))
    paths = [
        (f"b{blocks[rack]}", f"r{rack}", f"n{rack}-{node}") for rack, count in enumerate(racks) for node in range(count)
    ]
    room = np.array(draw(st.lists(st.integers(0, 5), min_size=len(paths), max_size=len(paths))), np.int64)
    leaders = draw(st.integers(0, 1))
    size = draw(st.integers(1, 4))
    slice_level = draw(st.integers(0, 2))
    level = draw(st.integers(0, slice_level))
    kind = draw(st.sampled_from(["required", "preferred", "anywhere"]))
    leads = np.minimum(room, 1) if leaders else np.zeros_like(room)
    fits = Fits(room, np.maximum(room - leads, 0), leads, np.zeros_like(room))
    slices = ((slice_level, size),) if size > 1 else ()
    if kind == "anywhere":
        level = 0 if slices else 2
    ask = PodAsk(
        size * draw(st.integers(1, 8)),
        level,
        required=kind == "required",
        anywhere=kind == "anywhere",
        slices=slices,
        leaders=leaders,
        least_free=draw(st.booleans()),
        balanced=draw(st.booleans()),
    )
    return Domains.of(paths, 3), fits, ask


def sums(domains, pods, level):
    """Pods in each group of a level."""
    for below in range(domains.lowest, level, -1):
        parent = domains.parent[below]
        pods = np.bincount(parent, weights=pods, minlength=len(domains.parent[below - 1])).astype(np.int64)
    return pods


@given(questions())
@settings(max_examples=300, deadline=None)
def test_assignments_keep_to_what_is_asked(question):
    domains, fits, ask = question
    found = assign(domains, fits, ask)
    if not isinstance(found, Given):
        return
    assert found.pods.sum() == ask.pods
    assert found.leaders.sum() == ask.leaders
    assert np.all(found.pods <= np.where(found.leaders > 0, fits.led, fits.pods))
    if ask.slices:
        assert np.all(sums(domains, found.pods, ask.slices[0][0]) % ask.size == 0)
    if ask.required:
        assert np.count_nonzero(sums(domains, found.pods + found.leaders, ask.level)) == 1


@given(questions())
@settings(max_examples=300, deadline=None)
def test_nothing_that_fits_is_refused(question):
    """Without a leader, a set fits if a group holds its slices, or all groups together where none is required."""
    domains, fits, ask = question
    if ask.leaders:
        return
    slice_level = ask.slices[0][0] if ask.slices else domains.lowest
    slices = sums(domains, fits.pods, slice_level) // ask.size
    within = slices
    for below in range(slice_level, ask.level, -1):
        parent = domains.parent[below]
        within = np.bincount(parent, weights=within, minlength=len(domains.parent[below - 1])).astype(np.int64)
    holds = within.max() >= ask.wanted if ask.required else slices.sum() >= ask.wanted
    assert isinstance(assign(domains, fits, ask), Given) == holds


@given(questions())
@settings(max_examples=100, deadline=None)
def test_the_names_of_nodes_only_break_ties(question):
    """The same room under leafs in another order of the file gives the same."""
    domains, fits, ask = question
    order = np.arange(len(fits.pods))[::-1]
    turned = Domains.of([domains.paths[-1][one] for one in order], 3)
    other = Fits(fits.pods[order], fits.led[order], fits.leads[order], fits.score[order])
    first, second = assign(domains, fits, ask), assign(turned, other, ask)
    assert isinstance(first, Given) == isinstance(second, Given)
    if isinstance(first, Given):
        assert first.pods[order].tolist() == second.pods.tolist()
