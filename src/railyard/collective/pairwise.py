"""Pairwise all-to-all: every rank sends each other rank its part directly, as grouped sends and receives.

NCCL orders the peers so that a domain talks to one other domain at a time; the bytes are the same in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Steps, always
from railyard.collective.direct import all_pairs
from railyard.collective.pattern import Pattern, Schedule, Send
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from railyard.collective.machine import Shape


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    del kind
    source, target = all_pairs(shape.ranks)
    return Pattern.of([(source, target, 1 / shape.ranks)])


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    del kind
    out = 1 if shape.domains > 1 else 0
    return Steps(scale_up=1 - out, scale_out=out, peers=shape.ranks - 1)


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    n = shape.ranks
    steps = tuple(
        tuple(Send(rank, (rank + turn) % n, (rank * n + (rank + turn) % n,)) for rank in range(n))
        for turn in range(1, n)
    )
    return Schedule(kind, n, n * n, steps)


ALGORITHM = ALGORITHMS.add(
    "pairwise",
    Algorithm(
        name="pairwise",
        summary="All-to-all by direct sends; across rails through the peer that owns the right NIC (PXN)",
        kinds=(CollectiveKind.ALL_TO_ALL,),
        protocols=("ll", "simple"),
        family="peer",
        refuses=always,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        sources=("NCCL 2.30, grouped sends and receives",),
        route="exchange",
        staged="hierarchical-all-to-all",
    ),
)
