"""NVLS: the scale-up switch adds and multicasts (NVLink SHARP).

Each rank is the head of one part of the data: it reads its part as the sum over all ranks, which the switch forms on
the way, and writes the result once, which the switch hands to all. A rank's link carries the whole data once in each
direction plus its own part, instead of nearly twice the data. Across domains see `nvls_sharp` and `nvls_tree`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Steps
from railyard.collective.pattern import Pattern, Schedule, Send, domain_switch
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


def _refuses(kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    del kind
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


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    del kind, shape
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


ALGORITHM = ALGORITHMS.add(
    "nvls",
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
