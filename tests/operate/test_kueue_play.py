"""Cycles of Kueue until nothing changes, and `railyard place` on its objects."""

import json
from pathlib import Path

import pytest

from railyard.face.cli.guard import run
from railyard.work.operate.kueue.manifests import assignment, pod_requests
from railyard.work.operate.kueue.objects import amount
from railyard.work.operate.kueue.play import play
from railyard.work.operate.kueue.queues import ClusterQueue, QueueCohort, Quota, ResourceGroup
from railyard.work.operate.kueue.snapshot import accounts
from railyard.work.operate.kueue.state import read_cluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "operate" / "kueue.yaml"
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
        ("spec:\n  levels", "spec: [\n  levels", "no YAML"),
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
    assert "4 got in or moved, 1 had to go, 1 wait" in capsys.readouterr().out
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
