#!/usr/bin/env python3
"""Steps of jobs by their patterns, as `railyard operate` takes them, against a run of all jobs together.

Usage: validation/tools/contention_error.py [--mixes 50] [--fabrics roce,infiniband] [--write]

A mix is 32 nodes of eight H100 under a leaf-spine network at 4:1, with up to nine jobs of 2 to 7 nodes, three classes
of work, all on random nodes. In which phase jobs meet and how switches hash them nobody chooses, so the run of all jobs
together is made eight times, in other phases and with jobs numbered in another order; its mean is the truth, and how
far one run is from it stands beside. `--write` puts the table into docs/validation/contention.md.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from railyard import engine
from railyard.graph import Job
from railyard.work.operate.contention.neighbours import Neighbours
from railyard.work.operate.contention.pattern import WorkClass, canonical
from railyard.work.operate.contention.speeds import mean_step_s
from railyard.work.operate.jobs import JobTable
from railyard.work.operate.rules import PPM, Rules
from railyard.work.operate.state import State
from railyard.work.operate.tree import NodeTree
from railyard.work.scenario.load import from_values
from railyard.work.study import compose

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster

PAGE = Path(__file__).parents[2] / "docs/validation/contention.md"
CLASSES = (
    WorkClass("dense", 0.5, 30_000_000_000, 0.5),
    WorkClass("small", 0.15, 6_000_000_000, 0.3),
    WorkClass("light", 0.3, 3_000_000_000, 0.5),
)
DRAWS = 8
STEPS = 60
SKIPPED = 4
MARK = "<!-- table: validation/tools/contention_error.py -->"


def machine(fabric: str) -> Cluster:
    """32 nodes."""
    topology = {"kind": "leaf-spine", "oversubscription": "4:1", "ports_per_leaf": 32}
    cluster = {"accelerators": 256, "server": "hgx-h100", "back_end": {"topology": topology, "fabric": fabric}}
    work = {"operate": {"jobs": {"synthetic": {"count": 1}}}}
    draft = from_values({"name": "mixes", "cluster": cluster, "workload": work})
    return compose.cluster_of(draft, compose.catalog_of(draft))


def drawn(tree: NodeTree, number: int) -> tuple[State, list[int]]:
    """A mix, its jobs running, and the class of each."""
    random = np.random.default_rng([0, number])
    order = random.permutation(tree.nodes).astype(np.int32)
    sizes: list[int] = []
    while sum(sizes) < tree.nodes - 2 and len(sizes) < 9:
        sizes.append(int(random.integers(2, 8)))
    parts = [np.sort(part) for part in np.split(order, np.cumsum(sizes))[: len(sizes)] if len(part) > 1]
    count = len(parts)
    zeros, nodes = np.zeros(count, np.int64), np.array([len(part) for part in parts], np.int32)
    mix = State(JobTable.of(zeros, zeros, nodes, each=np.full(count, 8, np.int32)), tree, Rules())
    mix.placed.update(enumerate(parts))
    return mix, random.integers(0, len(CLASSES), count).tolist()


def ranks_of(nodes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Accelerators of nodes."""
    return np.asarray(nodes[:, None] * 8 + np.arange(8), np.int32).ravel()


def together(cluster: Cluster, mix: State, work: list[int], alone: list[float], draw: int) -> NDArray[np.float64]:
    """float64[jobs], steps of all jobs in one run, by the draw's phases and order."""
    random = np.random.default_rng([1, draw])
    order = random.permutation(len(work)).tolist()
    counts = [math.ceil(STEPS * max(alone) / step_s) for step_s in alone]
    jobs = [
        Job(
            CLASSES[work[one]].steps(8 * len(mix.placed[one]), counts[one]),
            ranks_of(mix.placed[one]),
            start_ps=round(random.random() * alone[one] * 1e12),
            name=str(one),
        )
        for one in order
    ]
    record = engine.get("flow").simulate(jobs, cluster)
    last = min(record.of(place).end_ps.max() for place in range(len(jobs)))
    found = np.zeros(len(work))
    for place, one in enumerate(order):
        ends = record.of(place).end_ps.reshape(counts[one], -1).max(axis=1)
        ends = ends[ends <= last]
        found[one] = (ends[-1] - ends[SKIPPED - 1]) / (len(ends) - SKIPPED) * 1e-12
    return found


def errors(fabric: str, mixes: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Of every job: error of its pattern, error of one run of all jobs, its slowdown; relative to the mean run."""
    cluster = machine(fabric)
    tree = NodeTree.of(cluster)
    model, single, slowdown = [], [], []
    for number in range(mixes):
        mix, work = drawn(tree, number)
        known = Neighbours(cluster, tree, CLASSES, work)
        speeds = known.changed(mix, range(len(work)), [])
        alone = [_alone(cluster, CLASSES[one], mix.placed[job]) for job, one in enumerate(work)]
        runs = np.array([together(cluster, mix, work, alone, draw) for draw in range(DRAWS)])
        for job, step_s in enumerate(runs.mean(axis=0)):
            packed_s = _packed_s(known, mix, job, alone[job])
            model.append(packed_s * PPM / speeds.get(job, PPM) / step_s - 1)
            single.append(runs[0, job] / step_s - 1)
            slowdown.append(step_s / packed_s)
    return np.array(model), np.array(single), np.array(slowdown)


def _alone(cluster: Cluster, work: WorkClass, nodes: NDArray[np.int32]) -> float:
    job = Job(work.steps(8 * len(nodes), STEPS), ranks_of(nodes), name="alone")
    return mean_step_s(engine.get("flow").simulate([job], cluster), STEPS)


def _packed_s(known: Neighbours, mix: State, job: int, alone_s: float) -> float:
    """What a speed is relative to: the step alone on as few leafs as could be had, its flows apart."""
    member = known.member(known.work[job], mix.each[job], mix.placed[job])
    if member is None:
        return alone_s
    return known.speeds.ideal_s(canonical([member])[0])


def row(fabric: str, mixes: int) -> str:
    """A line of the table."""
    model, single, slowdown = errors(fabric, mixes)

    def words(found: NDArray[np.float64]) -> str:
        size = np.abs(found)
        return f"{size.mean():.1%} | {np.percentile(size, 95):.1%} | {size.max():.1%}"

    return (
        f"| {fabric} | {len(model)} | {words(model)} | {model.mean():+.1%} | {words(single)} | {slowdown.mean():.2f} |"
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixes", type=int, default=50)
    parser.add_argument("--fabrics", default="roce,infiniband")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = [
        "| fabric | jobs | mean error | 95th percentile | largest | bias | one run of all: mean | 95th | largest |"
        " mean slowdown |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(row(fabric, options.mixes) for fabric in options.fabrics.split(",")),
    ]
    print("\n".join(lines))
    if options.write:
        head, _, tail = PAGE.read_text().partition(MARK)
        rest = tail.partition("\n\n")[2].partition("\n\n")[2]
        PAGE.write_text(head + MARK + "\n\n" + "\n".join(lines) + "\n\n" + rest)


if __name__ == "__main__":
    main()
