"""`kueue`: Kueue's topology-aware scheduling with a required level, a preferred level or none, and slices.

Kueue counts how many pods fit below every group and finds the level at which one group fits the job (a required level,
or the preferred one and then those above it). From there it goes down: at each level it takes the groups with the most
room, and the tightest one that fits for the rest (BestFit). A job without a level goes to the nodes with the least room
(LeastFreeCapacity, since 0.15). Slices are counted at their level, and assigned slice by slice below it. Ties are
broken by name. A pod here is a node's share of a job, so that each node gets one. `kueue-balanced` gives equal shares
to groups of a preferred level. The search itself is in `operate/kueue`, together with leaders, replacements, flavors
and quotas.

Source: kubernetes-sigs/kueue, enhancement 2724, and the tables of its tests (Apache-2.0), against which this is
checked.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.discipline import NodePolicy, policies
from railyard.work.operate.kueue.objects import Fits, Given, PodAsk
from railyard.work.operate.kueue.room import Domains
from railyard.work.operate.kueue.search import assign

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.operate.free import FreeNodes, PlacementRequest
    from railyard.work.operate.tree import NodeTree


@lru_cache(maxsize=8)
def _domains(tree: NodeTree) -> Domains:
    words = [[tree.group_names[level][group] for group in tree.group[level]] for level in range(len(tree.levels))]
    return Domains.of(list(zip(*words, tree.names, strict=True)), len(tree.levels) + 1)


def _ask(request: PlacementRequest, tree: NodeTree, *, least_free: bool, balanced: bool) -> PodAsk:
    levels = {name: number for number, name in enumerate(tree.levels)}
    lowest = len(levels)
    slices = ((levels.get(request.segment_within, max(lowest - 1, 0)), request.segment),) if request.segment else ()
    return PodAsk(
        request.nodes,
        levels.get(request.within or request.prefers, 0 if slices else lowest),
        required=bool(request.within),
        anywhere=not (request.within or request.prefers),
        slices=slices,
        least_free=least_free,
        balanced=balanced,
    )


def _place(
    request: PlacementRequest, free: FreeNodes, *, least_free: bool = True, balanced: bool = False
) -> NDArray[np.int32] | None:
    domains, ask = _domains(free.tree), _ask(request, free.tree, least_free=least_free, balanced=balanced)
    if ask.pods % ask.size or (ask.slices and ask.level > ask.slices[0][0]):
        return None
    # A job of one pod goes to the node with least free, even a partly used one; pods of one job get a node each.
    pods = free.room // request.each if request.nodes == 1 else free.with_room(request.each)
    room, none = pods.astype(np.int64), np.zeros(free.tree.nodes, np.int64)
    found = assign(domains, Fits(room, room, none, none), ask)
    if not isinstance(found, Given):
        return None
    nodes = np.flatnonzero(found.pods)
    return nodes[np.argsort(domains.rank[-1][nodes])].astype(np.int32)


_SUMMARY = "The narrowest group that holds the job from the level asked for upward, slices together"
policies.enter(NodePolicy("kueue", _SUMMARY, _place, source="Kueue 0.15 and later, TASProfileMixed"))
policies.enter(
    NodePolicy("kueue-best-fit", _SUMMARY, partial(_place, least_free=False), source="Kueue, TASProfileMixed off"),
)
policies.enter(
    NodePolicy(
        "kueue-balanced",
        f"{_SUMMARY}; equal shares in groups of a preferred level",
        partial(_place, balanced=True),
        source="Kueue 0.15 and later, TASBalancedPlacement",
    ),
)
