"""In-network reduction (SHARP class): the members of a domain share out the data, the network's switches add the parts.

Each NIC sends its part once and gets the sum once, whatever the number of domains, where a ring sends nearly twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Steps
from railyard.collective.direct import all_pairs
from railyard.collective.pattern import NETWORK, Pattern
from railyard.collective.schedule import Schedule, Send
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from railyard.collective.machine import CollectiveMachine
    from railyard.collective.shape import Shape


def _refuses(kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    del kind
    if not machine.sharp:
        return "the fabric does not reduce in its switches"
    if shape.domains < 2:
        return "there is one domain only"
    return None if shape.even else "the domains hold different numbers of ranks"


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    del kind
    p = shape.per_domain
    source, target = all_pairs(p)
    base = np.repeat(shape.offsets, len(source))
    rank = np.arange(shape.ranks)
    network = np.full(shape.ranks, NETWORK)
    return Pattern.of(
        [
            (base + np.tile(source, shape.domains), base + np.tile(target, shape.domains), 2 / p),
            (rank, network, 1 / p),
            (network, rank, 1 / p),
        ]
    )


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    del kind
    inside = 2 if shape.per_domain > 1 else 0
    return Steps(scale_up=inside, scale_out=2, peers=inside * (shape.per_domain - 1))


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    p = shape.per_domain
    source, target = all_pairs(p)
    pairs = [
        (domain * p + a, domain * p + b)
        for domain in range(shape.domains)
        for a, b in zip(source.tolist(), target.tolist(), strict=True)
    ]
    up = tuple(Send(rank, NETWORK, (rank % p,), reduce=True) for rank in range(shape.ranks))
    steps = (
        tuple(Send(a, b, (b % p,), reduce=True) for a, b in pairs),
        up,
        tuple(Send(NETWORK, send.source, send.chunks) for send in up),
        tuple(Send(a, b, (a % p,)) for a, b in pairs),
    )
    return Schedule(kind, shape.ranks, p, steps)


ALGORITHM = ALGORITHMS.add(
    "collnet",
    Algorithm(
        name="collnet",
        summary="Switches of the network add (SHARP class); each NIC sends and gets its part once",
        kinds=(CollectiveKind.ALL_REDUCE,),
        protocols=("simple",),
        family="collnet",
        refuses=_refuses,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        sources=("Graham et al., COM-HPC 2016 (SHARP)", "NCCL 2.30, CollNetDirect"),
    ),
)
