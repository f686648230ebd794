"""Placement as one call: for jobs of a table, a scenario's job or Kueue objects, and the answer as a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.measure.result.choices import PlacedRow, PlacementAnswer, PolicyRow
from railyard.work.operate.advice import LAST, Advice, Question, advise, question
from railyard.work.operate.discipline import policies
from railyard.work.operate.free import FreeNodes
from railyard.work.operate.kueue.play import PlayedWorkloads, state_of, why_not
from railyard.work.operate.kueue.play import play as play_kueue
from railyard.work.operate.kueue.state import is_manifests, read_cluster
from railyard.work.operate.place_input import (
    PlacedJob,
    broken_promises,
    is_scenario,
    numbers_of_nodes,
    place_stream,
    read_nodes,
    read_stream,
)
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.work.operate.kueue.queues import Workload
    from railyard.work.operate.tree import NodeTree

KUEUE = "kueue"
"""Name of the policy if Kueue objects define everything."""


@dataclass(frozen=True)
class PlacedTable:
    """Placed jobs of a table.

    Attributes:
        tree: The cluster as a scheduler sees it.
    """

    tree: NodeTree
    free: FreeNodes
    jobs: Sequence[PlacedJob]


@dataclass(frozen=True)
class Advised:
    """Advice for a scenario's job."""

    asked: Question
    advice: Sequence[Advice]


@dataclass(frozen=True)
class Where:
    """Inputs of a placement.

    Attributes:
        jobs: The table, a scenario, or Kueue objects.
        nodes: The cluster; for a scenario's job a list of free nodes, or a scenario of the machine.
        format: Format of `nodes`; None: detected.
        busy: A list of nodes in use.
        names: A list of node names in the order of a scenario's servers.
    """

    jobs: Path
    nodes: Path
    format: str | None = None
    busy: Path | None = None
    names: Path | None = None


def place(where: Where, policy: str) -> PlacedTable | Advised | PlayedWorkloads:
    """Places jobs by a scheduler's policy; Kueue objects by Kueue's.

    Raises:
        InputError: A file or a name is invalid.
    """
    rule = policies.get(policy)
    if is_manifests(where.jobs):
        return _admitted(where)
    if is_scenario(where.jobs):
        asked = question(where.jobs, where.nodes, busy=where.busy, names=where.names)
        return Advised(asked, advise(asked, policy))
    tree = read_nodes(where.nodes, where.format, where.names)
    free = FreeNodes(tree)
    if where.busy is not None:
        free.out(numbers_of_nodes(tree, where.busy))
    return PlacedTable(tree, free, place_stream(read_stream(where.jobs, tree), free, rule))


def answer_of(found: PlacedTable | Advised | PlayedWorkloads, name: str, policy: str) -> PlacementAnswer:
    """The answer as a document."""
    tree = found.tree if isinstance(found, PlacedTable) else found.asked.tree if isinstance(found, Advised) else None
    free = found.free if isinstance(found, PlacedTable) else found.asked.free if isinstance(found, Advised) else None
    return PlacementAnswer(
        format="railyard-placement/1",
        name=name,
        version=version(),
        rule=policy if tree is not None else KUEUE,
        levels=() if tree is None else tuple(tree.levels),
        total=None if tree is None else tree.nodes,
        idle=None if free is None else int(free.idle) - _taken(found),
        jobs=tuple(_rows(found)),
        policies=tuple(_policy(found.asked, one) for one in found.advice) if isinstance(found, Advised) else (),
    )


def _taken(found: PlacedTable | Advised | PlayedWorkloads) -> int:
    """Free nodes that the advice would use; in a table they are already allocated."""
    nodes = found.advice[0].nodes if isinstance(found, Advised) else None
    return 0 if nodes is None else len(nodes)


def _rows(found: PlacedTable | Advised | PlayedWorkloads) -> list[PlacedRow]:
    if isinstance(found, PlacedTable):
        return [_of_table(one, found.tree) for one in found.jobs]
    if isinstance(found, Advised):
        asked, first = found.asked, found.advice[0]
        return [_row(asked.draft.scenario.jobs[-1].name, asked.nodes, first.nodes, asked.tree, ())]
    return [_of_kueue(found, key, one) for key, one in found.workloads.items()]


def _of_table(one: PlacedJob, tree: NodeTree) -> PlacedRow:
    return _row(one.job, one.request.nodes, one.nodes, tree, broken_promises(one, tree))


def _row(job: str, wanted: int, nodes: NDArray[np.int32] | None, tree: NodeTree, remarks: Sequence[str]) -> PlacedRow:
    return PlacedRow(
        job=job,
        state="waits" if nodes is None else "placed",
        wanted=wanted,
        nodes=_names(tree, nodes),
        groups=() if nodes is None else tuple(len(np.unique(group[nodes])) for group in tree.group),
        remarks=tuple(remarks),
    )


def _of_kueue(played: PlayedWorkloads, key: str, one: Workload) -> PlacedRow:
    names = ["/".join(values) for share in one.shares if share.place for values, _ in share.place.domains]
    why = why_not(played, key) if one.admission is None else ""
    return PlacedRow(
        job=key, state=state_of(played, one), wanted=None, nodes=tuple(names), groups=(), remarks=(why,) if why else ()
    )


def _policy(asked: Question, one: Advice) -> PolicyRow:
    waits = one.nodes is None
    return PolicyRow(
        policy=one.policy,
        bound=one.policy in LAST,
        nodes=_names(asked.tree, one.nodes),
        groups=tuple(touched for touched, _ in one.groups),
        least=tuple(least for _, least in one.groups),
        step_s=None if waits else one.step_s,
        usd_per_1000_steps=None if waits else one.usd,
    )


def _names(tree: NodeTree, nodes: NDArray[np.int32] | None) -> tuple[str, ...]:
    return () if nodes is None else tuple(tree.names[node] for node in nodes)


def _admitted(where: Where) -> PlayedWorkloads:
    cluster = read_cluster([where.nodes, where.jobs])
    for what, found in (("ClusterQueue", cluster.queues), ("Node", cluster.nodes), ("Workload", cluster.workloads)):
        if not found:
            raise InputError(f"there is no {what}", file=where.jobs if what == "Workload" else where.nodes)
    return play_kueue(cluster)
