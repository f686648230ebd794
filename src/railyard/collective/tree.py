"""Double binary tree: two trees over the domains, each with half of the data, a chain inside each domain.

A rank is a leaf of one tree wherever it is an inner node of the other, so both directions of its NIC stay busy, and the
latency grows with the logarithm of the domains. Channel c has the c-th member of each domain at its NIC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Pattern, Schedule, Send, Steps, backwards
from railyard.collective.ring import Order, channels
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from railyard.collective.machine import Shape

Parents = NDArray[np.int64]


def binary_tree(nodes: int) -> Parents:
    """Parent of each node in the in-order binary tree, -1 for the root (node 0).

    A node whose lowest set bit is b hangs below the node with that bit cleared and the next one set, or with only that
    bit cleared where the former does not exist (NCCL's `ncclGetBtree`).
    """
    node = np.arange(nodes, dtype=np.int64)
    bit = node & -node
    above = (node ^ bit) | (bit << 1)
    parent = np.where(above < nodes, above, node ^ bit)
    parent[0] = -1
    return parent


def double_tree(nodes: int) -> tuple[Parents, Parents]:
    """The two trees: the second is the first mirrored (even number of nodes) or shifted by one (odd)."""
    first = binary_tree(nodes)
    if nodes % 2 == 0:
        mirrored = first[::-1]
        return first, np.where(mirrored < 0, -1, nodes - 1 - mirrored)
    shifted = np.roll(first, 1)
    return first, np.where(shifted < 0, -1, (shifted + 1) % nodes)


def rooted_channels(shape: Shape) -> list[Parents]:
    """Parent of each position, one array a (tree, channel): trees over domains, chains within."""
    return [_rooted(shape, tree, walks) for tree in double_tree(shape.domains) for walks in channels(shape)]


def _rooted(shape: Shape, tree: Parents, walks: list[Order]) -> Parents:
    parent = np.full(shape.ranks, -1)
    for walk in walks:
        parent[walk[1:]] = walk[:-1]
    heads = np.array([walk[0] for walk in walks])
    parent[heads] = np.where(tree < 0, -1, heads[np.maximum(tree, 0)])
    return parent


def both_ways(parents: list[Parents], share: float) -> Pattern:
    """Every edge of the trees, up and down, each with `share`."""
    edges = []
    for parent in parents:
        child = np.flatnonzero(parent >= 0)
        edges += [(child, parent[child], share), (parent[child], child, share)]
    return Pattern.of(edges)


def up_and_down(parents: list[Parents], chunk_of: list[tuple[int, ...]]) -> list[tuple[Send, ...]]:
    """Steps of reductions to each tree's root and of broadcasts from it; tree t carries the chunks `chunk_of[t]`."""
    rising: dict[int, list[Send]] = {}
    for parent, chunks in zip(parents, chunk_of, strict=True):
        height = _heights(parent)
        for child in np.flatnonzero(parent >= 0):
            rising.setdefault(int(height[child]), []).append(Send(int(child), int(parent[child]), chunks, reduce=True))
    ups = [tuple(rising[height]) for height in sorted(rising)]
    return ups + backwards(ups)


def _heights(parent: Parents) -> NDArray[np.int64]:
    """Longest way from each node down to a leaf."""
    height = np.zeros(len(parent), np.int64)
    for leaf in range(len(parent)):
        node, distance = int(parent[leaf]), 1
        while node >= 0:
            height[node] = max(height[node], distance)
            node, distance = int(parent[node]), distance + 1
    return height


def levels(nodes: int) -> int:
    """Levels between the root and the deepest leaf of a binary tree over `nodes`."""
    return max(nodes - 1, 0).bit_length()


def _pattern(_kind: CollectiveKind, shape: Shape) -> Pattern:
    parents = rooted_channels(shape)
    return both_ways(parents, 1 / len(parents))


def _steps(_kind: CollectiveKind, shape: Shape) -> Steps:
    return Steps(scale_up=2 * (shape.per_domain - 1), scale_out=2 * levels(shape.domains))


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    parents = rooted_channels(shape)
    chunks: list[tuple[int, ...]] = [(index,) for index in range(len(parents))]
    return Schedule(kind, shape.ranks, len(parents), tuple(up_and_down(parents, chunks)))


ALGORITHM = ALGORITHMS.enter(
    Algorithm(
        name="tree",
        summary="Double binary tree over domains, chains within; logarithmic latency",
        kinds=(CollectiveKind.ALL_REDUCE,),
        protocols=("ll", "ll128", "simple"),
        family="tree",
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        sources=("Sanders, Speck, Traff, Parallel Computing 2009", "NCCL 2.30, trees.cc"),
    ),
)
