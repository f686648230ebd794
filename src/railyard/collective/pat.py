"""PAT: parallel aggregated trees; all-gather and reduce-scatter in log2(n) steps for one rank a domain.

Every rank's chunk travels down a binomial tree of its own; all trees are the same but for a shift, so each step is one
message of aggregated chunks to one neighbour. The far neighbours come first, when there is little to send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Pattern, Schedule, Send, Steps, backwards
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from railyard.collective.machine import CollectiveMachine, Shape


def _refuses(_kind: CollectiveKind, shape: Shape, _machine: CollectiveMachine) -> str | None:
    return "it needs one rank in each domain" if shape.per_domain > 1 else None


def hops(ranks: int) -> list[tuple[int, list[int]]]:
    """For each step: its distance, and how far from their home the chunks are that a rank passes on."""
    distances = [1 << bit for bit in reversed(range(max(ranks - 1, 0).bit_length()))]
    return [
        (distance, [offset for offset in range(0, ranks, 2 * distance) if offset + distance < ranks])
        for distance in distances
    ]


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    n = shape.ranks
    sign = 1 if kind == CollectiveKind.ALL_GATHER else -1
    rank = np.arange(n)
    return Pattern.of([(rank, (rank + sign * distance) % n, len(offsets) / n) for distance, offsets in hops(n)])


def _steps(_kind: CollectiveKind, shape: Shape) -> Steps:
    return Steps(scale_out=max(shape.ranks - 1, 0).bit_length(), peers=shape.ranks - 1)


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    n = shape.ranks
    gather = [
        tuple(Send(rank, (rank + distance) % n, tuple((rank - offset) % n for offset in offsets)) for rank in range(n))
        for distance, offsets in hops(n)
    ]
    steps = gather if kind == CollectiveKind.ALL_GATHER else backwards(gather, reduce=True)
    return Schedule(kind, n, n, tuple(steps), tuple(range(n)))


ALGORITHM = ALGORITHMS.enter(
    Algorithm(
        name="pat",
        summary="Parallel aggregated trees; logarithmic all-gather and reduce-scatter, one rank a domain",
        kinds=(CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER),
        protocols=("simple",),
        family="pat",
        refuses=_refuses,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        sources=("NCCL 2.30, PAT", "Jeaugey, arXiv 2506.20252"),
    ),
)
