"""Rejects jobs, windows and spares that the cluster, its tenants or the placement policy can never satisfy.

Where tenants share the cluster (`cluster.tenancy`), a tenant's jobs run on its own servers. Jobs that name no tenant
run on unowned servers, and so do spares. A spare that takes over becomes the tenant's, and is erased if another tenant
used it before; the node that it replaces becomes unowned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.bill import bill_of
from railyard.cluster.tenancy import NOBODY
from railyard.kit.errors import InputError
from railyard.measure.cost.assumptions import Assumptions
from railyard.measure.cost.capital import parts_of_rows
from railyard.measure.cost.cost import hourly
from railyard.measure.cost.power import EqualShares
from railyard.measure.decompose import CAUSES, Cause, TimeRow
from railyard.work.operate.discipline import policies
from railyard.work.operate.free import FreeNodes, PlacementRequest
from railyard.work.operate.state import State
from railyard.work.operate.tree import DIVIDED

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.cluster import Cluster
    from railyard.measure.cost.assumptions import Source
    from railyard.measure.result.section import Band
    from railyard.work.operate.discipline import NodePolicy
    from railyard.work.operate.free import PlacementAsk
    from railyard.work.operate.jobs import JobTable
    from railyard.work.operate.rules import Rules
    from railyard.work.operate.section import OperateSection
    from railyard.work.operate.tree import NodeTree
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.model import Scenario


SECOND_PS = 10**12
_CAUSE = {"work": Cause.COMPUTE, "contention": Cause.CONTENTION, "straggler": Cause.STRAGGLER}
"""Any time that is neither work nor one of these is time in which accelerators wait."""


def usd_per_h(cluster: Cluster, scenario: Scenario, time: dict[str, float]) -> tuple[Band, tuple[Source, ...]]:
    """Dollars per hour, and the sources of every price."""
    assumptions = Assumptions.from_catalog(cluster.catalog, scenario.economics.given())
    parts = parts_of_rows(bill_of(cluster))
    cost = hourly(_spent(time, cluster.ranks), cluster.accelerator, parts, assumptions)
    return cost.section().usd_per_h, cost.sources


def _spent(time: dict[str, float], ranks: int) -> EqualShares:
    """The shares as a step of one second."""
    shares = np.zeros(CAUSES)
    for name, share in time.items():
        shares[_CAUSE.get(name, Cause.DEPENDENCY)] += max(share, 0.0)
    exact = np.rint(shares / shares.sum() * SECOND_PS).astype(np.int64)
    exact[Cause.DEPENDENCY] += SECOND_PS - exact.sum()
    rows = tuple(
        TimeRow(Cause(number).word, "", "", value / SECOND_PS, value / SECOND_PS, int(value) * ranks)
        for number, value in enumerate(exact.tolist())
        if value
    )
    return EqualShares(ranks, SECOND_PS * 1e-12, rows)


def check_owners(jobs: JobTable, tree: NodeTree, draft: Draft) -> None:
    """Rejects jobs of unknown tenants, and jobs that would need other tenants' nodes.

    Raises:
        InputError: Names the job's line.
    """
    if tree.tenancy is None or tree.owner is None:
        return
    divided = np.flatnonzero(tree.owner == DIVIDED)
    if len(divided):
        apart = InputError(
            f"server {divided[0]} has ports of several: a queue gives tenants whole servers",
            key="tenancy",
            found=f"{len(divided)} such servers",
            allowed="tenants without `nics`",
        )
        raise draft.blame(apart, "cluster")
    for number, name in enumerate(jobs.tenants):
        try:
            tree.owner_of(name)
        except InputError as error:
            problem = error.problems[0]
            raise jobs.refuse(
                int(np.flatnonzero(jobs.tenant == number)[0]),
                problem.message,
                key="tenant",
                found=name,
                allowed=problem.allowed,
                hint=problem.hint,
            ) from None
    if draft.scenario.operate.queue.borrow:
        lent = InputError(
            "borrowing is impossible: `cluster.tenancy` gives each tenant servers of its own",
            key="borrow",
            found=True,
            allowed=False,
        )
        raise draft.blame(lent, "workload", "operate", "queue")


def check_window(tree: NodeTree, number: int, tenant: str, nodes: tuple[int, int]) -> None:
    """Rejects a window that reserves other tenants' nodes for a tenant.

    Raises:
        InputError: The key is relative to the section.
    """
    if tree.owner is None or tree.tenancy is None:
        return
    first, last = nodes
    foreign = np.flatnonzero(tree.owner[first : last + 1] != tree.owner_of(tenant))
    if len(foreign):
        node = first + int(foreign[0])
        raise InputError(
            f"node {node} is not `{tenant}`'s but {_whose(tree, int(tree.owner[node]))}",
            key=f"windows.{number}.nodes",
            found=nodes,
            allowed="nodes that `cluster.tenancy` gives the tenant",
        )


def check_spares(tree: NodeTree, spares: int) -> None:
    """Rejects more spares than there are unowned nodes.

    Raises:
        InputError: The key is relative to the section.
    """
    if len(tree.spare(spares)) < spares:
        left = len(tree.spare(tree.nodes))
        raise InputError(
            "spares are nobody's until they take over", key="recovery.spares", found=spares, allowed=f"at most {left}"
        )


def owned_words(tree: NodeTree, owner: int) -> str:
    """Suffix of an error message: whose nodes were searched; empty if nodes have no owners."""
    if tree.owner is None:
        return ""
    return f" among {_whose(tree, owner)} {int(np.count_nonzero(tree.owner == owner))} nodes"


def owned_notes(tree: NodeTree, section: OperateSection) -> list[str]:
    """Notes on tenancy for the reader."""
    if tree.owner is None or section.turnaround is None or section.turnaround.between != "tenants":
        return []
    if section.recovery.spares and section.failures is not None:
        return ["servers have the tenants of `cluster.tenancy`: only spares that take over pass between them"]
    return [
        "servers keep their tenants of `cluster.tenancy`: none is erased between tenants"
        " (`turnaround.between: jobs` erases between a tenant's jobs)"
    ]


def _whose(tree: NodeTree, owner: int) -> str:
    if owner == NOBODY or tree.tenancy is None:
        return "nobody's"
    return f"`{tree.tenancy.tenants[owner].name}`'s"


def ignored(policy: NodePolicy, ask: PlacementAsk, tree: NodeTree) -> str:
    """The first of a job's requirements that a policy silently ignores, as Slurm's tree plugin does with segments.

    Empty: none. A preference may be ignored, a requirement may not. A cluster of one group cannot show the difference.
    """
    each = int(tree.accelerators.max())
    leaf = "leaf" if ask.switches and "leaf" in tree.levels else ""
    demands = {
        "within": (ask.within, lambda nodes: PlacementRequest(nodes, each, within=ask.within)),
        "switches": (leaf, lambda nodes: PlacementRequest(nodes, each, switches=1)),
        "segment": (
            _block(ask, tree),
            lambda nodes: PlacementRequest(nodes, each, segment=nodes, segment_within=ask.segment_within),
        ),
    }
    for name, (level, request) in demands.items():
        if level and _passes_over(policy, request, tree, level):
            return name
    return ""


def _block(ask: PlacementAsk, tree: NodeTree) -> str:
    if not ask.segment or not tree.levels:
        return ""
    return ask.segment_within or tree.levels[-1]


def _passes_over(policy: NodePolicy, request: Callable[[int], PlacementRequest], tree: NodeTree, level: str) -> bool:
    """Whether the policy still places as many nodes as the widest group has after every group has lost one node."""
    members = tree.members[tree.level(level)]
    nodes = max(map(len, members))
    if len(members) < 2 or nodes < 2 or tree.nodes - len(members) < nodes:
        return False
    free = FreeNodes(tree)
    free.out(np.array([group[0] for group in members], np.int32))
    return policy.place(request(nodes), free) is not None


def keeping(ask: PlacementAsk, tree: NodeTree) -> list[str]:
    """Names of the policies that honor all of a job's requirements."""
    return [name for name, policy in policies.items() if not ignored(policy, ask, tree)]


def check_placeable(jobs: JobTable, tree: NodeTree, rules: Rules) -> None:
    """Rejects jobs that could not be placed even on an empty cluster.

    Raises:
        InputError: Names the job's line.
    """
    empty = FreeNodes(tree)
    if rules.recovery.spares:
        empty.out(tree.spare(rules.recovery.spares))
    policy = policies.get(rules.policy)
    _check_kept(jobs, tree, rules)
    state = State(jobs, tree, rules)
    owner = np.array(state.owner_of, np.int64)[jobs.tenant]
    shapes = np.stack([jobs.least_nodes, jobs.each, jobs.ask, owner])
    _, first = np.unique(shapes, axis=1, return_index=True)
    parts = {one: empty.part(state.owner, one) for one in state.parts}
    for row in first.tolist():
        nodes, each = int(jobs.least_nodes[row]), int(jobs.each[row])
        request = state.request(row, nodes)
        if policy.place(request, parts.get(int(owner[row]), empty)) is None:
            where = f" within one {request.within}" if request.within else ""
            where += f" in segments of {request.segment}" if request.segment else ""
            where += f" on {request.switches} leafs" if request.switches else ""
            where += owned_words(tree, int(owner[row]))
            spared = rules.recovery.spares if owner[row] == NOBODY else 0
            kept = f" that keeps {spared} as spares" if spared else ""
            raise jobs.refuse(
                row,
                f"`{rules.policy}` cannot place {nodes} nodes of {each} accelerators{where} even on an empty cluster"
                f"{kept}: it would wait forever",
            )
    _check_quotas(jobs, rules)


def _check_kept(jobs: JobTable, tree: NodeTree, rules: Rules) -> None:
    """Rejects a policy that would silently ignore a job's requirement."""
    policy = policies.get(rules.policy)
    asks = {number: ask for number, ask in enumerate(jobs.asks) if (jobs.ask == number).any()}
    if rules.within and (jobs.nodes > 1).any():
        several = int(jobs.ask[np.flatnonzero(jobs.nodes > 1)[0]])
        asks[several] = replace(asks[several], within=asks[several].within or rules.within)
    for number, ask in asks.items():
        name = ignored(policy, ask, tree)
        if name:
            raise jobs.refuse(
                int(np.flatnonzero(jobs.ask == number)[0]),
                f"`{rules.policy}` would ignore what is asked by `{name}` without a warning",
                key="placement",
                found=rules.policy,
                allowed=keeping(ask, tree) or "no policy that keeps to it on this cluster",
            )


def _check_quotas(jobs: JobTable, rules: Rules) -> None:
    for name, quota in rules.quotas.items():
        tenants = jobs.tenants.index(name) if name in jobs.tenants else -1
        rows = np.flatnonzero((jobs.tenant == tenants) & (jobs.accelerators > quota))
        if len(rows) and not rules.borrow:
            row = int(rows[0])
            found = int(jobs.accelerators[row])
            raise jobs.refuse(row, f"it is larger than the quota of `{name}`", found=found, allowed=f"at most {quota}")
