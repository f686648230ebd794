"""Direct: every rank sends each other rank its chunk at once; in a full mesh this runs over all links alike.

It is also what the rings of a full mesh amount to: channels over all links of an eight-accelerator mesh load every link
with the same bytes.

Pairwise all-to-all: every rank sends each other rank its part directly, as grouped sends and receives.

NCCL orders the peers so that a domain talks to one other domain at a time; the bytes are the same in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Pattern, Schedule, Send, Steps
from railyard.graph import CollectiveKind
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.machine import CollectiveMachine, Shape


MOST_RANKS = 1 << 13


def all_pairs(ranks: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sources and targets of every ordered pair of different positions.

    Raises:
        InputError: There are too many pairs to write down.
    """
    if ranks > MOST_RANKS:
        raise InputError(
            f"messages between all pairs of {ranks} ranks are too many", allowed=f"at most {MOST_RANKS} ranks"
        )
    source = np.repeat(np.arange(ranks), ranks)
    target = np.tile(np.arange(ranks), ranks)
    different = source != target
    return source[different], target[different]


def _refuses(_kind: CollectiveKind, shape: Shape, _machine: CollectiveMachine) -> str | None:
    return f"{shape.ranks} ranks are too many peers" if shape.ranks > 512 else None


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    source, target = all_pairs(shape.ranks)
    rounds = 2 if kind == CollectiveKind.ALL_REDUCE else 1
    return Pattern.of([(source, target, rounds / shape.ranks)])


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    rounds = 2 if kind == CollectiveKind.ALL_REDUCE else 1
    out = rounds if shape.domains > 1 else 0
    return Steps(scale_up=rounds - out, scale_out=out, peers=rounds * (shape.ranks - 1))


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    n = shape.ranks
    pairs = [(source, target) for source in range(n) for target in range(n) if source != target]
    scatter = tuple(Send(source, target, (target,), reduce=True) for source, target in pairs)
    gather = tuple(Send(source, target, (source,)) for source, target in pairs)
    steps = {
        CollectiveKind.ALL_REDUCE: (scatter, gather),
        CollectiveKind.REDUCE_SCATTER: (scatter,),
        CollectiveKind.ALL_GATHER: (gather,),
    }[kind]
    return Schedule(kind, n, n, steps, tuple(range(n)))


DIRECT = ALGORITHMS.enter(
    Algorithm(
        name="direct",
        summary="Every rank to every other at once; the natural one on a full mesh",
        kinds=(CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER),
        protocols=("ll", "ll128", "simple"),
        family="ring",
        refuses=_refuses,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        sources=("RCCL develop 2026-08, direct all-gather and reduce-scatter; facts on MI300X meshes",),
        route="exchange",
    ),
)


def _pairwise_pattern(_kind: CollectiveKind, shape: Shape) -> Pattern:
    source, target = all_pairs(shape.ranks)
    return Pattern.of([(source, target, 1 / shape.ranks)])


def _pairwise_steps(_kind: CollectiveKind, shape: Shape) -> Steps:
    out = 1 if shape.domains > 1 else 0
    return Steps(scale_up=1 - out, scale_out=out, peers=shape.ranks - 1)


def _pairwise_schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    n = shape.ranks
    steps = tuple(
        tuple(Send(rank, (rank + turn) % n, (rank * n + (rank + turn) % n,)) for rank in range(n))
        for turn in range(1, n)
    )
    return Schedule(kind, n, n * n, steps)


PAIRWISE = ALGORITHMS.enter(
    Algorithm(
        name="pairwise",
        summary="All-to-all by direct sends; across rails through the peer that owns the right NIC (PXN)",
        kinds=(CollectiveKind.ALL_TO_ALL,),
        protocols=("ll", "simple"),
        family="peer",
        pattern=_pairwise_pattern,
        steps=_pairwise_steps,
        schedule=_pairwise_schedule,
        sources=("NCCL 2.30, grouped sends and receives",),
        route="exchange",
        staged="hierarchical-all-to-all",
    ),
)
