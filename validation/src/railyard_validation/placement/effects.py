"""Small settings in which published effects of placement and of traffic control are to be seen.

What papers publish of their settings is used; what they leave open is assumed, and said on the page.
"""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from railyard import engine
from railyard.graph import Job
from railyard.work.operate.advice import advise, question
from railyard.work.operate.contention.intensity import TOLERANCE, off_beat, realigning, shifts
from railyard.work.operate.contention.pattern import PatternJob, WorkClass
from railyard.work.operate.contention.speeds import Manner, Speeds
from railyard.work.operate.discipline import policies
from railyard.work.operate.free import FreeNodes, PlacementRequest
from railyard.work.operate.tree import NodeTree
from railyard.work.scenario.load import from_values
from railyard.work.study import compose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster

SKIPPED = 4
DRIFT = 0.005
"""Standard deviation of a step, over the step: assumed."""
PEAK = 0.8
"""Share of GPUs in use at the busiest hour."""


def cluster_of(accelerators: int, server: str, ports: int, oversubscription: str, fabric: str) -> Cluster:
    """A leaf-spine network of servers."""
    topology = {"kind": "leaf-spine", "oversubscription": oversubscription, "ports_per_leaf": ports}
    cluster = {"accelerators": accelerators, "server": server, "back_end": {"topology": topology, "fabric": fabric}}
    draft = from_values(
        {"name": "x", "cluster": cluster, "workload": {"operate": {"jobs": {"synthetic": {"count": 1}}}}}
    )
    return compose.cluster_of(draft, compose.catalog_of(draft))


def ranks_of(nodes: NDArray[np.int64], each: int) -> NDArray[np.int32]:
    """int32[ranks], accelerators of nodes."""
    return (nodes[:, None] * each + np.arange(each)).ravel().astype(np.int32)


def steps_s(
    cluster: Cluster, jobs: Sequence[Job], works: Sequence[WorkClass], alone_s: Sequence[float], steps: int = 30
) -> NDArray[np.float64]:
    """float64[jobs], mean steps of jobs that run together (their graphs are made here)."""
    counts = [math.ceil(steps * max(alone_s) / one) for one in alone_s]
    every = [
        Job(work.steps(len(job.accelerators), count), job.placement, job.start_ps, job.name, priority=job.priority)
        for job, work, count in zip(jobs, works, counts, strict=True)
    ]
    record = engine.get("flow").simulate(every, cluster)
    last = min(record.of(number).end_ps.max() for number in range(len(every)))
    found = []
    for number, count in enumerate(counts):
        ends = record.of(number).end_ps.reshape(count, -1).max(axis=1)
        ends = ends[ends <= last]
        found.append((ends[-1] - ends[SKIPPED - 1]) / (len(ends) - SKIPPED) * 1e-12)
    return np.array(found)


def cassini(jobs: int, share: float) -> dict[str, float]:
    """Steps of equal jobs over one uplink, each of which sends for a share of its step, over the step alone.

    Every job has a node on each of two leafs with one uplink. `in phase`: all begin at once; `any phase`: the mean over
    eight draws; `shifted`: by the shifts that fit them into one another; `drifting`: the same while steps vary by
    `DRIFT`, so that jobs leave their places and go back to them.
    """
    cluster = cluster_of(4 * jobs, "gh200-node", 2 * jobs, f"{2 * jobs}:1", "infiniband")
    tree = NodeTree.of(cluster)
    work = WorkClass("equal", 0.255 * (1 - share), round(0.255 * share * 400e9 / 8), 0.0)
    speeds = Speeds(cluster, tree.members[-1], [work], Manner())
    pairs = [np.array([tree.members[-1][0][one], tree.members[-1][1][one]]) for one in range(jobs)]
    member = PatternJob(0, 1, (0, 1))
    alone = speeds.alone(member).step_s
    random = np.random.default_rng(3)
    turned = shifts([speeds.beat(member)] * jobs)
    starts = {"in phase": [[0.0] * jobs], "shifted": [turned]}
    starts["any phase"] = [(random.random(jobs) * alone).tolist() for _ in range(8)]
    off = [[TOLERANCE + off_beat(one) for one in random.random(jobs)] for _ in range(8)]
    starts["drifting"] = [[at + far * alone for at, far in zip(turned, draw, strict=True)] for draw in off]
    found = {"share": speeds.alone(member).lasts_s / alone}
    for name, draws in starts.items():
        took = [
            steps_s(
                cluster,
                [
                    Job(work.steps(2, 1), ranks_of(pair, 1), round(at * 1e12))
                    for pair, at in zip(pairs, draw, strict=True)
                ],
                [work] * jobs,
                [alone] * jobs,
            ).mean()
            for draw in draws
        ]
        found[name] = float(np.mean(took)) / alone
    found["drifting"] *= 1 + realigning(DRIFT)
    return found


def racks(policy: str, *, load: float = 0.3, moves: int = 6000, racks: int = 33) -> dict[str, float]:
    """Idle racks of 18 nodes of four GPUs while jobs of one GPU come and go (kubernetes-sigs/kueue 10406).

    At first jobs take `PEAK` of the GPUs; then as many of them end, anywhere, as leave the load; from there on each
    that ends is followed by one that comes.

    Args:
        policy: Who places.
        load: Share of GPUs in use.
        moves: Jobs that end and come at that load.
        racks: How many there are.

    Returns:
        Means over the second half of the moves: idle racks, and how many would be idle if jobs lay as tight as can be.
    """
    nodes = 18 * racks
    tree = NodeTree.listed(
        [f"n{one:04d}" for one in range(nodes)], 4, [("rack", [f"r{one // 18:02d}" for one in range(nodes)])]
    )
    free, random, place = FreeNodes(tree), np.random.default_rng(5), policies.get(policy).place
    running: list[NDArray[np.int32]] = []
    idle: list[int] = []
    peak, low = round(PEAK * 4 * nodes), round(load * 4 * nodes)
    for move in range(peak + moves):
        while len(running) >= (peak if move < peak else low):
            free.give(running.pop(int(random.integers(len(running)))), 1)
        where = place(PlacementRequest(1, 1, job=move, seed=1), free)
        if where is not None:
            free.take(where, 1)
            running.append(where)
        idle.append(int((free.idle_in[0] == 18).sum()))
    return {"idle": float(np.mean(idle[-moves // 2 :])), "least": float(racks - math.ceil(len(running) / 72))}


SCENARIO = """name: arnold
cluster:
  accelerators: {machine}
  server: hgx-h100
  back_end: {{topology: {{kind: leaf-spine, oversubscription: "{over}", ports_per_leaf: 64}}, fabric: roce-untuned}}
workload:
  jobs:
    - name: job
      accelerators: {job}
      training: {{model: llama-3-70b, global_batch: {batch}, sequence: 4096, parallelism: {parallelism}}}
"""


def arnold(
    policies_wanted: Sequence[str], *, nodes: int = 96, wanted: int = 32, oversubscription: str = "2:1", seed: int = 0
) -> dict[str, dict[str, float]]:
    """A job of TP 8, PP 4 and data parallelism on a cluster of which two thirds are free, anywhere.

    Returns:
        For each policy the step and the leafs that its data-parallel groups touch at most.
    """
    layout = "{tp: 8, pp: 4, zero: 1, micro_batch: 1}"
    text = SCENARIO.format(
        machine=8 * nodes, job=8 * wanted, over=oversubscription, batch=4 * wanted, parallelism=layout
    )
    free = np.sort(np.random.default_rng(seed).permutation(nodes)[: 2 * nodes // 3])
    with TemporaryDirectory() as folder:
        job, listed = Path(folder) / "job.yaml", Path(folder) / "free.txt"
        job.write_text(text, encoding="utf-8")
        listed.write_text("\n".join(f"node{one}" for one in free), encoding="utf-8")
        asked = question(job, listed)
        found = advise(asked, policies_wanted[0], policies_wanted[1:])
    leaf, size = asked.tree.group[-1], wanted // 4
    return {
        one.policy: {
            "step_s": one.step_s,
            "spread": max(len(np.unique(leaf[one.nodes[at : at + size]])) for at in range(0, wanted, size)),
        }
        for one in found
        if one.nodes is not None
    }
