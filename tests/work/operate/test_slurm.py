"""Placement as Slurm's: against a real slurmctld where one is installed, and against what it answered before."""

import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from railyard.work.operate.discipline import policies
from railyard.work.operate.free import FreeNodes, PlacementRequest
from railyard.work.operate.kueue.objects import amount
from railyard.work.operate.placement.volcano import FADING, NOWHERE, HyperNodes, beside, packed, packed_alone
from railyard.work.operate.topology_file import read_topology, topology_formats
from railyard.work.operate.tree import NodeTree

from .draws import Rounds, draw_blocks, draw_tree
from .slurmctld import Slurmctld, missing

RECORDED = Path(__file__).parent / "data" / "slurm_placements.json"
NEWER = os.environ.get("RAILYARD_SLURM_ROOT", "")


def judge(drawn, seed, policy, folder, *, root="", rounds=3, jobs=25):
    """Placements that differ from the daemon's, and all that it made: (nodes, segment, its nodes or None, ours)."""
    tree = topology_formats.get(f"slurm-{drawn.kind}").read(drawn.topology, "drawn")
    play = Rounds(random.Random(seed), drawn, tree, rounds, jobs)
    place, made = policies.get(policy).place, []
    with Slurmctld(folder, drawn.kind, drawn.names, drawn.topology, port=20000 + seed, root=root) as slurm:
        for _ in range(rounds):
            gone = play.ends()
            if gone:
                slurm.cancel(gone)
            for job, ask, nodes in ask_for(slurm, play, place):
                ours = play.expect(place, *ask)
                theirs = None if nodes is None else sorted(tree.number[name] for name in nodes)
                made.append((*ask, theirs, ours))
                if theirs:
                    play.take(job, theirs)
    return made


def ask_for(slurm, play, place):
    """Submits a round and yields (job, what it asked, its nodes); nodes of one that is refused or waits are None.

    A job that waits holds up all behind it: what Railyard finds no place for is submitted last, and once a round.
    """
    trial, submitted, hopeless = play.free.copy(), [], []
    for nodes, segment in play.asks():
        ours = place(PlacementRequest(nodes, 1, segment=segment), trial)
        refused = segment and (nodes % segment or segment > play.drawn.least)
        if ours is None and not refused:
            hopeless.append((nodes, segment))
            continue
        if ours is not None:
            trial.take(ours, 1)
        submitted.append((submit(slurm, nodes, segment), (nodes, segment)))
    placed = slurm.placed([job for job, _ in submitted if job is not None])
    for job, ask in submitted:
        yield job, ask, None if job is None else placed[job]
    for nodes, segment in hopeless[:1]:
        job = submit(slurm, nodes, segment)
        names = [] if job is None else slurm.after_a_while(job)
        if not names and job is not None:
            slurm.cancel([job])
        yield job, (nodes, segment), names or None


def submit(slurm, nodes, segment):
    return slurm.submit(nodes, *([f"--segment={segment}"] if segment else []))


def agrees(made):
    return [one for one in made if one[2] != one[3]]


@pytest.mark.skipif(bool(missing()), reason=missing() or "-")
def test_trees_as_the_installed_slurm(tmp_path):
    """Twelve daemons side by side: each mostly waits for its scheduler."""

    def judged(seed):
        drawn = draw_tree(random.Random(seed), leafs=20, widest=16)
        return judge(drawn, seed, "slurm-tree-23.11", tmp_path / str(seed), jobs=60)

    with ThreadPoolExecutor(12) as pool:
        made = dict(enumerate(pool.map(judged, range(12))))
    assert min(map(len, made.values())) > 5
    assert {seed: differing for seed, found in made.items() if (differing := agrees(found))} == {}


@pytest.mark.skipif(
    not NEWER or bool(missing(NEWER)), reason="RAILYARD_SLURM_ROOT names no root of a system with Slurm 24.05 to 25.05"
)
@pytest.mark.parametrize(("seed", "draw", "policy"), [
    *((seed, draw_tree, "slurm-tree") for seed in range(100, 110)),
    *((seed, draw_blocks, "slurm-block") for seed in range(200, 210)),
])  # fmt: skip
def test_tree_and_block_as_a_newer_slurm(seed, draw, policy, tmp_path):
    made = judge(draw(random.Random(seed)), seed, policy, tmp_path / "s", root=NEWER)
    assert agrees(made) == []


def test_recorded_placements(tmp_path):
    """What slurmctld 22.05 (Debian 12) and 24.11 (Debian 13) answered to random jobs."""
    runs = json.loads(RECORDED.read_text())
    count = 0
    for run in runs:
        path = tmp_path / "topology.conf"
        path.write_text(run["topology"])
        tree = read_topology(path)
        free, live = FreeNodes(tree), {}
        place = policies.get(run["policy"]).place
        for number, step in enumerate(run["steps"]):
            if "end" in step:
                free.give(live.pop(step["end"]), 1)
                continue
            found = place(PlacementRequest(step["nodes"], 1, segment=step.get("segment", 0)), free)
            theirs = step["got"]
            assert (None if found is None else found.tolist()) == theirs, (run["topology"], step)
            count += 1
            if found is not None:
                free.take(found, 1)
                live[number] = found
    assert count >= 800


# Volcano's own tables of scores and of gangs that bind (data/README.md says where they are from).

CASES = json.loads((Path(__file__).parent / "data" / "volcano.json").read_text())["cases"]
TOP = "<cluster-top-hypernode>"
EPS = 0.1
"""Volcano's tables give scores to a decimal, cut off."""


class Scores:
    """A case, every node a column of the tiers; above all the cluster."""

    def __init__(self, case):
        self.case, self.nodes = case, list(case["nodes"])
        tiers = sorted({tier for tier, _ in case["hypernodes"].values()})
        self.groups = [[name for name, (tier, _) in case["hypernodes"].items() if tier == one] for one in tiers]
        self.groups.append([TOP])
        self.children = case["children"] | {TOP: self.nodes}
        self.members = {name: members for name, (_, members) in case["hypernodes"].items()} | {TOP: self.nodes}
        paths = [[self.at(names, node) for node in self.nodes] for names in self.groups]
        self.hyper = HyperNodes(np.array(paths), (*tiers, tiers[-1] + 1))
        self.task = next(one for one in case["pods"] if one["phase"] == "Pending")
        self.tasks = [one for one in case["pods"] if one["group"] == self.task["group"]]

    def at(self, names, node):
        return next((number for number, name in enumerate(names) if node in self.below(name)), NOWHERE)

    def below(self, name):
        """Nodes that lie below a HyperNode by its object, which may name fewer than Volcano has found."""
        if name not in self.children:
            return [name] if name in self.nodes else self.members[name]
        return [node for child in self.children[name] for node in self.below(child)]

    @property
    def weights(self):
        arguments = self.case["arguments"]
        found = {key: arguments.get(f"hypernode.binpack.{key}", 1) for key in ("cpu", "memory")}
        for key in filter(None, map(str.strip, arguments.get("hypernode.binpack.resources", "").split(","))):
            found[key] = arguments.get(f"hypernode.binpack.resources.{key}", 1)
        return found

    def pack(self, names, tasks):
        """How full groups get with some tasks."""
        weights = {key: weight for key, weight in self.weights.items() if key in self.task["requests"]}

        def held(requests):
            return np.array([float(amount(key, requests.get(key, 0))) for key in weights])

        total = [sum(held(self.case["nodes"][node]) for node in self.members[name]) for name in names]
        used = [
            sum((held(one["requests"]) for one in self.case["pods"] if one["node"] in self.members[name]), held({}))
            for name in names
        ]
        asked = sum(held(one["requests"]) for one in tasks)
        return packed(np.array(used), asked, np.array(total), np.array([float(one) for one in weights.values()]))

    def of_groups(self):
        names = [name for names in self.groups for name in names]
        there = np.array([sum(one["node"] in self.members[name] for one in self.tasks) for name in names])
        return dict(zip(names, beside(self.pack(names, self.tasks), there, len(self.tasks)), strict=True))

    def of_nodes(self):
        (group,) = self.case["groups"]
        if not group["mode"]:
            return self.of_nodes_alone()
        allocated, place = group["allocated"], None
        if not allocated:
            return dict.fromkeys(self.case["scored"] or self.nodes, 0.0)
        for level, names in enumerate(self.groups):
            if allocated in names:
                place = level, names.index(allocated)
        columns = [self.nodes.index(name) for name in self.case["scored"] or self.nodes]
        leaf = self.hyper.paths[0]
        there = np.array(
            [
                sum(leaf[self.nodes.index(one["node"])] == leaf[at] for one in self.tasks if one["node"])
                for at in columns
            ]
        )
        found = beside(self.hyper.nearness(place)[columns], there, len(self.tasks))
        return {self.nodes[at]: score for at, score in zip(columns, found, strict=True)}

    def of_nodes_alone(self):
        if self.case["arguments"].get("hypernode.binpack.normal-pod.enable") is False:
            return {}
        fading = self.case["arguments"].get("hypernode.binpack.normal-pod.fading", FADING)
        packs = np.ones(self.hyper.paths.shape)
        for level, names in enumerate(self.groups):
            found, inside = self.pack(names, [self.task]), self.hyper.paths[level] != NOWHERE
            packs[level, inside] = found[self.hyper.paths[level, inside]]
        return dict(zip(self.nodes, packed_alone(packs, self.hyper.tier, fading), strict=True))


SCORED = [case for case in CASES if case["of"] != "binds"]


@pytest.mark.parametrize("case", SCORED, ids=[f"{case['test']}: {case['name']}" for case in SCORED])
def test_same_scores(case):
    scores = Scores(case)
    ours = scores.of_groups() if case["of"] == "groups" else scores.of_nodes()
    want = {TOP if name == "ClusterTopHyperNode" else name: score for name, score in case["want"].items()}
    scale = 100 * case["arguments"].get("weight", 1)
    assert {name: scale * ours[name] for name in want} == pytest.approx(want, abs=EPS)
    assert bool(ours) == bool(want)


def tree_of(case):
    """The nodes as a tree of the policy, its levels named by tiers."""
    nodes = list(case["nodes"])
    tiers = sorted({tier for tier, _ in case["hypernodes"].values()}, reverse=True)
    levels = []
    for tier in tiers:
        groups = {node: name for name, (one, nodes) in case["hypernodes"].items() if one == tier for node in nodes}
        levels.append((str(tier), [groups[node] for node in nodes]))
    return NodeTree.listed(nodes, int(case["nodes"][nodes[0]]["cpu"]), levels)


def whole(case):
    """Whether a case is one job of equal pods that starts anew, anywhere in the tiers: what a policy is asked."""
    pods = [one["requests"]["cpu"] for one in case["pods"]]
    fresh = not case["groups"][0]["allocated"] and not any(one["node"] for one in case["pods"])
    return case["of"] == "binds" and fresh and len(case["groups"]) == 1 and len(set(pods)) == 1 and not case["labels"]


GANGS = [case for case in CASES if whole(case)]


@pytest.mark.parametrize("case", GANGS, ids=[case["name"] for case in GANGS])
def test_same_gangs_bind(case):
    (group,), tree = case["groups"], tree_of(case)
    tier = str(case["tier_names"].get(group["tier"], group["tier"]))
    ask = {"within": tier} if group["mode"] == "hard" else {"prefers": tree.levels[0]}
    request = PlacementRequest(len(case["pods"]), int(case["pods"][0]["requests"]["cpu"]), **ask)
    found = policies.get("volcano").place(request, FreeNodes(tree))
    assert (0 if found is None else len(found)) == case["want"]["ExpectBindsNum"]
    spread = case["want"].get("ExpectBindNumsInHyperNode")
    if spread:
        counts = np.bincount(tree.group[-1][found])
        assert sorted(counts[counts > 0].tolist()) == sorted(int(one) for one in spread)


def test_how_many_cases_are_judged():
    assert (len(CASES), len(SCORED), len(GANGS)) == (48, 21, 10)


def racks(taken):
    """Three racks of 4 in two pods; some nodes are taken."""
    levels = [("pod", ["p0"] * 8 + ["p1"] * 4), ("rack", [f"r{i // 4}" for i in range(12)])]
    free = FreeNodes(NodeTree.listed([f"n{i}" for i in range(12)], 8, levels))
    free.take(np.array(taken, np.int32), 8)
    return free


def test_the_fullest_group_of_the_lowest_tier_takes_a_job():
    """Racks have 4, 3 and 2 nodes left: 2 go to the last, 3 to the second, 5 only into the first pod, near together."""
    free, volcano = racks([4, 8, 9]), policies.get("volcano").place
    assert volcano(PlacementRequest(2, 8, within="rack"), free).tolist() == [10, 11]
    assert volcano(PlacementRequest(3, 8, within="pod"), free).tolist() == [5, 6, 7]
    assert volcano(PlacementRequest(5, 8, within="rack"), free) is None
    assert volcano(PlacementRequest(5, 8, within="pod"), free).tolist() == [0, 1, 2, 3, 5]


def test_soft_goes_on_where_it_began():
    """It fills the first rack, then the other of its pod, then the next pod: it does not look for the best start."""
    volcano = policies.get("volcano").place
    assert volcano(PlacementRequest(8, 8, prefers="rack"), racks([4])).tolist() == [0, 1, 2, 3, 5, 6, 7, 8]
    assert volcano(PlacementRequest(12, 8, prefers="rack"), racks([4])) is None


def test_pods_without_a_topology_fill_full_groups():
    """Weights 1, 0.8 and 0.64 of rack, pod and cluster: the last rack is fullest (2 of 4), then its pod is full."""
    assert policies.get("volcano").place(PlacementRequest(3, 8), racks([4, 8, 9])).tolist() == [10, 11, 5]
