"""Placement policies that minimize leafs and the traffic over their uplinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.work.operate.discipline import first_nodes, nodes_in, placement_policy, policies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.work.operate.free import FreeNodes, PlacementRequest


@placement_policy("quiet", "Few leafs, and those with the least traffic from running jobs")
def _quiet(request: PlacementRequest, free: FreeNodes) -> NDArray[np.int32] | None:
    """As few leafs as possible; among such choices, the leafs from which running jobs send least.

    A job that fits into a leaf gets the tightest one, since it sends nothing over uplinks. A larger one needs a minimum
    number of leafs, and the traffic of running jobs decides which (`FreeNodes.traffic_bps`, a mean over their steps;
    zeros if contention is not modeled). Ranks go leaf by leaf, so that a ring leaves each leaf once.
    """
    level = leaf_level(free)
    return few_leafs(request, free, free.traffic_bps[level].tolist() if level >= 0 else ())


def leaf_level(free: FreeNodes) -> int:
    """The level whose groups have shared uplinks; -1: none."""
    levels = free.tree.levels
    return levels.index("leaf") if "leaf" in levels else len(levels) - 1


def few_leafs(request: PlacementRequest, free: FreeNodes, noise: Sequence[float]) -> NDArray[np.int32] | None:
    """Nodes on as few leafs as the job fits; among such choices, those with the least total noise."""
    room = free.with_room(request.each)
    if int(room.sum()) < request.nodes:
        return None
    level = leaf_level(free)
    if level < 0:
        return first_nodes(room, request.nodes)
    count: list[int] = free.counts(level, request.each).tolist()
    fitting = [leaf for leaf, nodes in enumerate(count) if nodes >= request.nodes]
    if fitting:
        leafs = [min(fitting, key=lambda leaf: (count[leaf], noise[leaf], leaf))]
    else:
        leafs = _least_noise(count, noise, request.nodes)
    return nodes_in(leafs, free.tree.members[level], room, request.nodes)


def _least_noise(count: Sequence[int], noise: Sequence[float], wanted: int) -> list[int]:
    """The fewest leafs that fit a job: the quietest first, as long as the largest others can take the rest."""
    largest = sorted(range(len(count)), key=lambda leaf: (-count[leaf], leaf))
    few = int(np.searchsorted(np.cumsum([count[leaf] for leaf in largest]), wanted)) + 1
    found: list[int] = []
    for leaf in sorted(range(len(count)), key=lambda one: (noise[one], -count[one], one)):
        others = [one for one in largest if one != leaf and one not in found][: few - len(found) - 1]
        if sum(count[one] for one in (*found, leaf, *others)) >= wanted:
            found.append(leaf)
        if len(found) == few:
            break
    return sorted(found)


@placement_policy(
    "communication",
    "Groups of ranks that communicate most, each in one leaf; few leafs in total",
    source="after Arnold (NeurIPS 2025)",
)
def _communication(request: PlacementRequest, free: FreeNodes) -> NDArray[np.int32] | None:
    """Puts each of the most communicating rank groups on one leaf, and neighbors in rank order on the same leaf.

    A job gives the sizes in nodes of its communication groups, innermost first (such as a stage's data-parallel group).
    Each group goes to the narrowest switch that fits it, preferring leafs with room for several groups so that few
    leafs are used; groups that fit no leaf are spread over the emptiest ones. Arnold (NeurIPS 2025) aligns data- and
    pipeline-parallel groups with leafs in this way: 1.67 times less spread and 10.6 % more throughput on over 9,600
    GPUs.
    """
    tree = free.tree
    room = free.with_room(request.each)
    if int(room.sum()) < request.nodes:
        return None
    if not tree.levels:
        return first_nodes(room, request.nodes)
    left = [members[room[members]].tolist() for members in tree.members[-1]]
    size = next((one for one in request.groups if 1 < one <= max(map(len, left))), 1)
    found: list[int] = []
    groups, rest = divmod(request.nodes, size)
    for group in (*[size] * groups, *([rest] if rest else [])):
        found += _group(tree.parent[-1], left, group, request.nodes - len(found))
    return np.array(found, np.int32)


def _group(above: NDArray[np.int32], left: list[list[int]], size: int, wanted: int) -> list[int]:
    """Takes the nodes of one group: from the tightest leaf that fits them, else from the emptiest."""
    found: list[int] = []
    while len(found) < size:
        lack = size - len(found)
        fitting = [leaf for leaf, nodes in enumerate(left) if len(nodes) >= lack]
        room = np.bincount(above, weights=[len(nodes) for nodes in left]).tolist()
        if fitting:
            leaf = min(fitting, key=lambda one: _order(len(left[one]), wanted, room[above[one]], one))
        else:
            leaf = max(range(len(left)), key=lambda one: (len(left[one]), room[above[one]], -one))
        found += left[leaf][:lack]
        left[leaf] = left[leaf][lack:]
    return found


def _order(nodes: int, wanted: int, near: float, leaf: int) -> tuple[int, float, float, int]:
    """Sort key: leafs that fit everything still needed come first, the fullest of them first; then the emptiest."""
    return (0, nodes, -near, leaf) if nodes >= wanted else (1, -nodes, -near, leaf)


OTHERS = ("quiet", "slurm-tree", "communication")
MOST = 10
"""Number of candidates, as in CASSINI."""


@placement_policy(
    "compatible",
    "Of ten placements the one that fits best between the steps of running jobs",
    source="after CASSINI (NSDI 2024)",
    seeded=True,
)
def _compatible(request: PlacementRequest, free: FreeNodes) -> NDArray[np.int32] | None:
    """The placement whose job interleaves best with the steps of its neighbors.

    Candidates come from other policies, and from further choices of as few leafs. The contention model judges each
    (`FreeNodes.judge`) by the demand above the capacity of shared uplinks, with the best time shifts if those are used,
    otherwise averaged over phases. Ties go to fewer leafs, then to the first. Without a contention model it is `quiet`.
    """
    first = policies.get(OTHERS[0]).place(request, free)
    level = leaf_level(free)
    if first is None or free.judge is None or level < 0:
        return first
    group = free.tree.group[level]
    if len(np.unique(group[first])) == 1:
        return first
    best, least = first, (np.inf, 0)
    for nodes in _candidates(request, free, first):
        cost = round(free.judge(request, nodes), 6), len(np.unique(group[nodes]))
        if cost < least:
            best, least = nodes, cost
    return best


def _candidates(request: PlacementRequest, free: FreeNodes, first: NDArray[np.int32]) -> list[NDArray[np.int32]]:
    """Placements of other policies, then the fewest leafs in random orders seeded by the job's number."""
    draws = np.random.default_rng([request.seed, request.job])
    leafs = len(free.tree.size[leaf_level(free)])
    found = [first, *(policies.get(name).place(request, free) for name in OTHERS[1:])]
    found += [few_leafs(request, free, draws.random(leafs).tolist()) for _ in range(MOST - len(found))]
    seen: dict[bytes, NDArray[np.int32]] = {}
    for nodes in found:
        if nodes is not None:
            seen.setdefault(nodes.tobytes(), nodes)
    return list(seen.values())
