"""NVLS tree: the scale-up switch adds inside each domain, a double binary tree joins the domains on every rail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Steps
from railyard.collective.nvls import multicast_from_heads, reduce_to_heads, switch_edges, switch_refusal
from railyard.collective.pattern import Pattern, Schedule, Send
from railyard.collective.tree import double_tree, levels, up_and_down
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.machine import CollectiveMachine, Shape


def _refuses(kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    del kind
    return "there is one domain only" if shape.domains < 2 else switch_refusal(shape, machine)


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    edges = switch_edges(kind, shape)
    local = np.arange(shape.per_domain)
    share = 1 / (2 * shape.per_domain)
    for parent in double_tree(shape.domains):
        child = np.flatnonzero(parent >= 0)
        below = (shape.offsets[child][:, None] + local).ravel()
        above = (shape.offsets[parent[child]][:, None] + local).ravel()
        edges += [(below, above, share), (above, below, share)]
    return Pattern.of(edges)


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    del kind
    return Steps(switch=1, scale_out=2 * levels(shape.domains))


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    p = shape.per_domain
    steps = [_halved(step) for step in reduce_to_heads(shape)]
    parents, chunks = _trees(shape)
    steps += up_and_down(parents, chunks)
    steps += [_halved(step) for step in multicast_from_heads(shape)]
    return Schedule(kind, shape.ranks, 2 * p, tuple(steps))


def _halved(step: tuple[Send, ...]) -> tuple[Send, ...]:
    """The same messages when every part is cut into two chunks, one for each tree."""
    return tuple(
        send._replace(chunks=tuple(2 * chunk + half for chunk in send.chunks for half in (0, 1))) for send in step
    )


def _trees(shape: Shape) -> tuple[list[NDArray[np.int64]], list[tuple[int, ...]]]:
    """A tree over positions for every (rail, half), and the chunk it carries."""
    parents: list[NDArray[np.int64]] = []
    chunks: list[tuple[int, ...]] = []
    for half, tree in enumerate(double_tree(shape.domains)):
        for local in range(shape.per_domain):
            parent = np.full(shape.ranks, -1, np.int64)
            heads = shape.offsets + local
            parent[heads] = np.where(tree < 0, -1, heads[np.maximum(tree, 0)])
            parents.append(parent)
            chunks.append((2 * local + half,))
    return parents, chunks


ALGORITHM = ALGORITHMS.add(
    "nvls-tree",
    Algorithm(
        name="nvls-tree",
        summary="In-switch reduction inside the domain, a double binary tree on every rail between domains",
        kinds=(CollectiveKind.ALL_REDUCE,),
        protocols=("simple",),
        family="nvls",
        refuses=_refuses,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        sources=("NCCL 2.30, NVLSTree",),
    ),
)
