"""NVLS with SHARP: the scale-up switch adds inside each domain, the network's switches add what the domains have.

Each rank is the head of one part. NCCL calls it NVLS as it does inside one domain; between domains it needs a fabric
whose switches reduce, where `nvls-tree` needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Steps
from railyard.collective.network_reduction import network_refusal
from railyard.collective.nvls import multicast_from_heads, reduce_to_heads, switch_edges, switch_refusal
from railyard.collective.pattern import NETWORK, Pattern, Schedule, Send
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from railyard.collective.machine import CollectiveMachine, Shape


def _refuses(kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    del kind
    return network_refusal(shape, machine) or switch_refusal(shape, machine)


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    rank = np.arange(shape.ranks)
    network = np.full(shape.ranks, NETWORK)
    part = 1 / shape.per_domain
    return Pattern.of([*switch_edges(kind, shape), (rank, network, part), (network, rank, part)])


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    del kind, shape
    return Steps(switch=1, reduction=1)


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    p = shape.per_domain
    rises = tuple(Send(rank, NETWORK, (rank % p,), reduce=True) for rank in range(shape.ranks))
    falls = tuple(Send(NETWORK, send.source, send.chunks) for send in rises)
    steps = (*reduce_to_heads(shape), rises, falls, *multicast_from_heads(shape))
    return Schedule(kind, shape.ranks, p, steps)


ALGORITHM = ALGORITHMS.add(
    "nvls-sharp",
    Algorithm(
        name="nvls-sharp",
        summary="NCCL's NVLS over several domains: the scale-up switch adds inside, the network's switches between",
        kinds=(CollectiveKind.ALL_REDUCE,),
        protocols=("simple",),
        family="nvls",
        refuses=_refuses,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        sources=("Klenk et al., ISCA 2020", "NCCL 2.18: NVLS over several nodes with SHARP"),
    ),
)
