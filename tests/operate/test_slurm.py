"""Placement as Slurm's: against a real slurmctld where one is installed, and against what it answered before."""

import json
import os
import random
from pathlib import Path

import pytest

from railyard.work.operate.discipline import policies
from railyard.work.operate.free import FreeNodes, PlacementRequest
from railyard.work.operate.topology_file import read_topology, topology_formats

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
@pytest.mark.parametrize("seed", range(12))
def test_tree_as_the_installed_slurm(seed, tmp_path):
    rng = random.Random(seed)
    made = judge(draw_tree(rng, leafs=20, widest=16), seed, "slurm-tree-23.11", tmp_path / "s", jobs=60)
    assert len(made) > 5
    assert agrees(made) == []


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
