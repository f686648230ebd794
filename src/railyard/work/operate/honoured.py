"""Whether a placement policy keeps to what a job asks, found by asking it for what cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.free import Free
from railyard.work.operate.policy import policies
from railyard.work.operate.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.work.operate.ask import Ask
    from railyard.work.operate.policy import NodePolicy
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
