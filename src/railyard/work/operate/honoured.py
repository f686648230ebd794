"""Whether a placement policy keeps to what a job asks, found by asking it for what cannot be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.tenancy import NOBODY
from railyard.work.operate.discipline import policies
from railyard.work.operate.event import Request
from railyard.work.operate.free import Free
from railyard.work.operate.owned import owned_words
from railyard.work.operate.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.work.operate.discipline import NodePolicy
    from railyard.work.operate.event import Ask
    from railyard.work.operate.jobs import JobTable
    from railyard.work.operate.rules import Rules
    from railyard.work.operate.tree import NodeTree


def ignored(policy: NodePolicy, ask: Ask, tree: NodeTree) -> str:
    """The first of a job's demands that a policy passes over in silence, as Slurm's tree does with segments.

    Empty: none. A preference may be passed over, a demand may not. Clusters of one group cannot show it.
    """
    each = int(tree.accelerators.max())
    leaf = "leaf" if ask.switches and "leaf" in tree.levels else ""
    demands = {
        "within": (ask.within, lambda nodes: Request(nodes, each, within=ask.within)),
        "switches": (leaf, lambda nodes: Request(nodes, each, switches=1)),
        "segment": (
            _block(ask, tree),
            lambda nodes: Request(nodes, each, segment=nodes, segment_within=ask.segment_within),
        ),
    }
    for name, (level, request) in demands.items():
        if level and _passes_over(policy, request, tree, level):
            return name
    return ""


def _block(ask: Ask, tree: NodeTree) -> str:
    """Level of the blocks in which segments stay."""
    if not ask.segment or not tree.levels:
        return ""
    return ask.segment_within or tree.levels[-1]


def _passes_over(policy: NodePolicy, request: Callable[[int], Request], tree: NodeTree, level: str) -> bool:
    """Whether it places as many nodes as the widest group has where every group lacks one of its own."""
    members = tree.members[tree.level(level)]
    nodes = max(map(len, members))
    if len(members) < 2 or nodes < 2 or tree.nodes - len(members) < nodes:
        return False
    free = Free(tree)
    free.out(np.array([group[0] for group in members], np.int32))
    return policy.place(request(nodes), free) is not None


def keeping(ask: Ask, tree: NodeTree) -> list[str]:
    """Names of the policies that keep to all that a job asks."""
    return [name for name, policy in policies.items() if not ignored(policy, ask, tree)]


def check_placeable(jobs: JobTable, tree: NodeTree, rules: Rules) -> None:
    """Refuses jobs that an empty cluster could not place.

    Raises:
        InputError: With the job's line.
    """
    empty = Free(tree)
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
            kept = f" beside {spared} spares" if spared else ""
            raise jobs.refuse(
                row,
                f"`{rules.policy}` cannot place {nodes} nodes of {each} accelerators{where} even on an empty cluster"
                f"{kept}: it would wait for ever",
            )
    _check_quotas(jobs, rules)


def _check_kept(jobs: JobTable, tree: NodeTree, rules: Rules) -> None:
    """Refuses a policy that would pass over in silence what a job asks."""
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
                f"`{rules.policy}` passes over what is asked by `{name}` without a word",
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
