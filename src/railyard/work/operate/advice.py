"""Placement advice: where each policy would put a scenario's job on the free nodes of a cluster, and how fast it runs.

The job is the scenario's training, or the last of its `jobs`. The earlier jobs are already running on nodes that are
not free. The flow engine simulates all of these jobs together to get the step time of each placement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import railyard.engine as engine
from railyard.cluster.placement import place as place_ranks
from railyard.graph import Job, Kind
from railyard.graph.repeat import repeat
from railyard.kit.errors import InputError
from railyard.kit.schema.yaml import Mark, Node
from railyard.work.jobs.prepare import tenant, whose
from railyard.work.operate.checks import usd_per_h
from railyard.work.operate.discipline import policies
from railyard.work.operate.free import FreeNodes, PlacementRequest
from railyard.work.operate.place_input import is_scenario, numbers_of_nodes, read_nodes
from railyard.work.operate.rules import HOUR, SECOND
from railyard.work.scenario.load import blaming, expand, load
from railyard.work.study import compose
from railyard.work.study.provenance import Memo

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.graph import TaskGraph
    from railyard.work.jobs.prepare import JobTenant
    from railyard.work.operate.tree import NodeTree
    from railyard.work.scenario.load import Draft

STEPS = 4
"""Steps simulated for the job being placed; the first is left out of the mean."""
LONGER = 1.5
"""The other jobs run this many times longer than the job alone would."""
LAST = ("random", "worst")
"""Bounds: they are shown, but never recommended."""


@dataclass(frozen=True, eq=False)
class Advice:
    """The placement that one policy gives the job.

    Attributes:
        nodes: int32[nodes] in rank order; None: the job waits.
        groups: For each level of the tree: groups that the placement spans, and the fewest that the free nodes allow.
        step_s: Mean step time on these nodes; NaN if the job waits.
        usd: Cost of 1,000 steps, as the job's share of the cluster.
    """

    policy: str
    nodes: NDArray[np.int32] | None
    groups: tuple[tuple[int, int], ...] = ()
    step_s: float = float("nan")
    usd: float = float("nan")


@dataclass(frozen=True, eq=False)
class Question:
    """A job to place, the machine, and its free nodes.

    Attributes:
        draft: The scenario; the job to place is the last of `jobs`.
        free: Free nodes that the job may use. Where tenants share the cluster, these are its tenant's nodes, or unowned
            nodes.
        taken: bool[nodes], nodes where other jobs are running.
    """

    draft: Draft
    cluster: Cluster
    tree: NodeTree
    free: FreeNodes
    accelerators: int
    taken: NDArray[np.bool_]

    @property
    def nodes(self) -> int:
        """Nodes that the job needs."""
        return -(-self.accelerators // self.cluster.ranks_per_server)


def question(job: Path, nodes: Path, *, busy: Path | None = None, names: Path | None = None) -> Question:
    """Reads the job and the machine's free nodes.

    Args:
        job: A scenario with `training`, or with `jobs`, the last of which is placed.
        nodes: A list of free nodes of the scenario's cluster, or a scenario whose cluster is the machine.
        busy: A list of nodes in use.
        names: Names of the machine's servers, in order; None: as `railyard deploy` names them.

    Raises:
        InputError: A file, a name or a size is invalid.
    """
    draft = _with_jobs(load(job))
    listed = not is_scenario(nodes)
    if not listed:
        draft = draft.changed({"cluster": load(nodes).tree.value["cluster"]})
    draft = draft.changed({"cluster.placement": Node("packed", Mark("railyard place"))})
    cluster = compose.cluster_of(draft, compose.catalog_of(draft))
    tree = read_nodes(job if listed else nodes, None, names)
    free = FreeNodes(tree)
    if listed:
        here = numbers_of_nodes(tree, nodes)
        free.out(np.setdiff1d(np.arange(tree.nodes, dtype=np.int32), here))
    if busy is not None:
        free.out(numbers_of_nodes(tree, busy))
    taken = free.room == 0
    free.out(np.flatnonzero(~_own(draft, cluster)).astype(np.int32))
    wanted = draft.scenario.jobs[-1].accelerators
    asked = Question(draft, cluster, tree, free, wanted, taken)
    if asked.nodes > tree.nodes:
        raise InputError(
            f"the job wants {asked.nodes} nodes, and the cluster has {tree.nodes}",
            file=str(job),
            key="accelerators",
            found=wanted,
            allowed=f"at most {cluster.ranks}",
        )
    return asked


def _own(draft: Draft, cluster: Cluster) -> NDArray[np.bool_]:
    """bool[nodes], nodes that the job may use where tenants share the cluster.

    Raises:
        InputError: The cluster has no such tenant.
    """
    number = len(draft.scenario.jobs) - 1
    with blaming(draft, "workload", "jobs", str(number)):
        mine = whose(cluster, draft.scenario.jobs[number].tenant)
    return np.logical_and.reduceat(mine, np.arange(0, len(mine), cluster.ranks_per_server))


def _with_jobs(draft: Draft) -> Draft:
    work = draft.tree.value["workload"].value
    if "jobs" in work and draft.scenario.jobs[-1].training is not None:
        return draft
    if "training" not in work:
        error = InputError(
            "only a scenario's `training`, or the last of its `jobs` if it trains, can be placed",
            key="workload",
            found=", ".join(work),
            allowed=["training", "jobs"],
        )
        raise draft.blame(error)
    mark = work["training"].mark
    one = {"name": Node("job", mark), "accelerators": draft.tree.value["cluster"].value["accelerators"]}
    jobs = Node([Node({**one, "training": work["training"]}, mark)], mark)
    return draft.changed({"workload": Node({"jobs": jobs}, mark)})


def advise(asked: Question, chosen: str, others: Sequence[str] | None = None) -> list[Advice]:
    """The chosen policy's advice for the job, followed by the advice of the others.

    Args:
        asked: The job and the free nodes.
        chosen: Name of a policy.
        others: Names of other policies; None: all policies.
    """
    names = [chosen, *(name for name in (policies.names() if others is None else others) if name != chosen)]
    running = _running(asked)
    step, groups = _step(asked)
    price = usd_per_h(asked.cluster, asked.draft.scenario, {"work": 1.0})[0].typical
    usd_per_us = price * asked.accelerators / asked.cluster.ranks / HOUR
    each = min(asked.accelerators, asked.cluster.ranks_per_server)
    found, timed = [], dict[bytes, float]()
    for name in names:
        request = PlacementRequest(asked.nodes, each, groups=groups, seed=asked.draft.scenario.seed)
        nodes = policies.get(name).place(request, asked.free)
        if nodes is None:
            found.append(Advice(name, None))
            continue
        key = nodes.tobytes()
        if key not in timed:
            timed[key] = _step_s(asked, step, _ranks(asked, nodes), running)
        usd = 1000 * timed[key] * SECOND * usd_per_us
        found.append(Advice(name, nodes, _groups(asked, nodes, each), timed[key], usd))
    return found


def _running(asked: Question) -> list[JobTenant]:
    """The jobs already running on the nodes that are not free."""
    memo = Memo()
    variant = expand(asked.draft)[0]
    each = asked.cluster.ranks_per_server
    taken = np.repeat(asked.taken, each)[: asked.cluster.ranks]
    found = []
    for number, section in enumerate(asked.draft.scenario.jobs[:-1]):
        with blaming(asked.draft, "workload", "jobs", str(number)):
            here = taken & whose(asked.cluster, section.tenant)
            where = place_ranks(asked.cluster, section.placement.record(), section.accelerators, here)
        taken[where] = False
        one = tenant(variant, number, asked.cluster.part(where), where, memo)
        if one.step is not None:  # a serving job has no step on this engine
            found.append(one)
    return found


def _step(asked: Question) -> tuple[TaskGraph, tuple[int, ...]]:
    """One step of the job, and the nodes spanned by its communication groups, innermost first."""
    variant = expand(asked.draft)[0]
    number = len(asked.draft.scenario.jobs) - 1
    first = np.arange(asked.accelerators, dtype=np.int32)
    step = tenant(variant, number, asked.cluster.part(first), first, Memo()).step
    if step is None:  # only training gets here
        raise InputError("the job has no steps")
    return step, _filled(step, asked.cluster.ranks_per_server)


def _filled(step: TaskGraph, each: int) -> tuple[int, ...]:
    """Node counts of communicators whose nodes are consecutive in rank order, by size."""
    sizes: set[int] = set()
    talk = step.communicators
    for number in np.unique(step.rank[step.kind == Kind.COLLECTIVE]).tolist():
        nodes = np.unique(talk.members(number) // each)
        if 1 < len(nodes) < -(-step.ranks // each) and nodes[-1] - nodes[0] == len(nodes) - 1:
            sizes.add(len(nodes))
    return tuple(sorted(sizes))


def _ranks(asked: Question, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
    each = asked.cluster.ranks_per_server
    every = (nodes[:, None] * each + np.arange(each, dtype=np.int32)).ravel()
    return every[: asked.accelerators].astype(np.int32)


def _step_s(asked: Question, step: TaskGraph, ranks: NDArray[np.int32], running: Sequence[JobTenant]) -> float:
    flow, cluster = engine.get("flow"), asked.cluster
    jobs = [Job(repeat(step, STEPS), ranks, name="job")]
    until_ps = LONGER * int(flow.simulate(jobs, cluster).end_ps.max()) if running else 0.0
    for one in running:
        if one.step is not None:
            took_ps = int(flow.simulate([Job(one.step, one.placement)], cluster).end_ps.max())
            jobs.append(Job(repeat(one.step, math.ceil(until_ps / took_ps)), one.placement, name=one.name))
    record = flow.simulate(jobs, cluster).of(0)
    ends = record.end_ps.reshape(STEPS, -1).max(axis=1)
    return float(ends[-1] - ends[0]) / (STEPS - 1) * 1e-12


def _groups(asked: Question, nodes: NDArray[np.int32], each: int) -> tuple[tuple[int, int], ...]:
    found = []
    for level, group in enumerate(asked.tree.group):
        room = np.sort(asked.free.counts(level, each))[::-1]
        few = int(np.searchsorted(np.cumsum(room), len(nodes))) + 1
        found.append((len(np.unique(group[nodes])), few))
    return tuple(found)


ordered = partial(sorted, key=lambda one: (one.policy in LAST, np.isnan(one.step_s), round(one.step_s, 9), one.policy))
"""Advice by step time, fastest first; bounds come last."""
