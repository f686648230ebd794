"""NVLS: the scale-up switch adds and multicasts (NVLink SHARP).

Each rank is the head of one part of the data: it reads its part as the sum over all ranks, which the switch forms on
the way, and writes the result once, which the switch hands to all. A rank's link carries the whole data once in each
direction plus its own part, instead of nearly twice the data. Across domains see `nvls_sharp` and `nvls_tree`.

NVLS with SHARP: the scale-up switch adds inside each domain, the network's switches add what the domains have.

Each rank is the head of one part. NCCL calls it NVLS as it does inside one domain; between domains it needs a fabric
whose switches reduce, where `nvls-tree` needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import (
    ALGORITHMS,
    NETWORK,
    Algorithm,
    Pattern,
    Schedule,
    Send,
    Steps,
    backwards,
    domain_switch,
)
from railyard.collective.collnet import network_refusal
from railyard.collective.tree import double_tree, levels, up_and_down
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.machine import CollectiveMachine, Shape


def switch_refusal(shape: Shape, machine: CollectiveMachine) -> str | None:
    """Why the scale-up switch cannot add for this shape; None when it can."""
    if not machine.nvls:
        return "the scale-up switch cannot reduce"
    if shape.per_domain < 3:
        return "in-switch reduction needs at least 3 ranks in a domain"
    if not shape.even:
        return "the domains hold different numbers of ranks"
    return None


def _refuses(_kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    return switch_refusal(shape, machine) or ("there are several domains" if shape.domains > 1 else None)


def switch_edges(
    kind: CollectiveKind, shape: Shape
) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64] | float]]:
    """Edges between every rank and the switch of its domain."""
    rank = np.arange(shape.ranks)
    switch = -1 - shape.domain_of
    part = 1 / shape.counts[shape.domain_of]
    if kind == CollectiveKind.ALL_GATHER:
        return [(rank, switch, part), (switch, rank, 1.0)]
    if kind == CollectiveKind.REDUCE_SCATTER:
        return [(rank, switch, 1.0), (switch, rank, part)]
    return [(rank, switch, 1.0 + part), (switch, rank, 1.0 + part)]


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    return Pattern.of(switch_edges(kind, shape))


def _steps(_kind: CollectiveKind, _shape: Shape) -> Steps:
    return Steps(switch=1)


def reduce_to_heads(shape: Shape) -> list[tuple[Send, ...]]:
    """Every rank's data through the switch, part j to the j-th member of each domain."""
    p = shape.per_domain
    everything = tuple(range(p))
    rises = tuple(Send(rank, domain_switch(rank // p), everything, reduce=True) for rank in range(shape.ranks))
    falls = tuple(Send(domain_switch(rank // p), rank, (rank % p,)) for rank in range(shape.ranks))
    return [rises, falls]


def multicast_from_heads(shape: Shape) -> list[tuple[Send, ...]]:
    """Part j from the j-th member of each domain through the switch to all."""
    p = shape.per_domain
    everything = tuple(range(p))
    rises = tuple(Send(rank, domain_switch(rank // p), (rank % p,)) for rank in range(shape.ranks))
    falls = tuple(Send(domain_switch(rank // p), rank, everything) for rank in range(shape.ranks))
    return [rises, falls]


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    p = shape.per_domain
    steps: list[tuple[Send, ...]] = []
    if kind != CollectiveKind.ALL_GATHER:
        steps += reduce_to_heads(shape)
    if kind != CollectiveKind.REDUCE_SCATTER:
        steps += multicast_from_heads(shape)
    return Schedule(kind, shape.ranks, p, tuple(steps), tuple(range(p)))


NVLS = ALGORITHMS.enter(
    Algorithm(
        name="nvls",
        summary="The scale-up switch adds and multicasts, inside one domain",
        kinds=(CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER),
        protocols=("simple",),
        family="nvls",
        refuses=_refuses,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        sources=("Klenk et al., ISCA 2020", "NCCL 2.30, NVLS"),
    ),
)


def _nvls_sharp_refuses(_kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    return network_refusal(shape, machine) or switch_refusal(shape, machine)


def _nvls_sharp_pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    rank = np.arange(shape.ranks)
    network = np.full(shape.ranks, NETWORK)
    part = 1 / shape.per_domain
    return Pattern.of([*switch_edges(kind, shape), (rank, network, part), (network, rank, part)])


def _nvls_sharp_steps(_kind: CollectiveKind, _shape: Shape) -> Steps:
    return Steps(switch=1, reduction=1)


def _nvls_sharp_schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    p = shape.per_domain
    rises = tuple(Send(rank, NETWORK, (rank % p,), reduce=True) for rank in range(shape.ranks))
    steps = (*reduce_to_heads(shape), rises, *backwards([rises]), *multicast_from_heads(shape))
    return Schedule(kind, shape.ranks, p, steps)


NVLS_SHARP = ALGORITHMS.enter(
    Algorithm(
        name="nvls-sharp",
        summary="NCCL's NVLS over several domains: the scale-up switch adds inside, the network's switches between",
        kinds=(CollectiveKind.ALL_REDUCE,),
        protocols=("simple",),
        family="nvls",
        refuses=_nvls_sharp_refuses,
        pattern=_nvls_sharp_pattern,
        steps=_nvls_sharp_steps,
        schedule=_nvls_sharp_schedule,
        sources=("Klenk et al., ISCA 2020", "NCCL 2.18: NVLS over several nodes with SHARP"),
    ),
)


def _nvls_tree_refuses(_kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    return "there is one domain only" if shape.domains < 2 else switch_refusal(shape, machine)


def _nvls_tree_pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    edges = switch_edges(kind, shape)
    local = np.arange(shape.per_domain)
    share = 1 / (2 * shape.per_domain)
    for parent in double_tree(shape.domains):
        child = np.flatnonzero(parent >= 0)
        below = (shape.offsets[child][:, None] + local).ravel()
        above = (shape.offsets[parent[child]][:, None] + local).ravel()
        edges += [(below, above, share), (above, below, share)]
    return Pattern.of(edges)


def _nvls_tree_steps(_kind: CollectiveKind, shape: Shape) -> Steps:
    return Steps(switch=1, scale_out=2 * levels(shape.domains))


def _nvls_tree_schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
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


NVLS_TREE = ALGORITHMS.enter(
    Algorithm(
        name="nvls-tree",
        summary="In-switch reduction inside the domain, a double binary tree on every rail between domains",
        kinds=(CollectiveKind.ALL_REDUCE,),
        protocols=("simple",),
        family="nvls",
        refuses=_nvls_tree_refuses,
        pattern=_nvls_tree_pattern,
        steps=_nvls_tree_steps,
        schedule=_nvls_tree_schedule,
        sources=("NCCL 2.30, NVLSTree",),
    ),
)
