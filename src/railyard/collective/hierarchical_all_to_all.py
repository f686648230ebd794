"""Hierarchical all-to-all: first inside the domain to the member on the target's rail, then along the rail.

The bytes are those of direct sends that cross rails through a peer (PXN), but a rank talks to the p-1 peers of its
domain and the N-1 ranks of its rail instead of to all n-1 others, so the messages are larger and fewer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Steps
from railyard.collective.direct import all_pairs
from railyard.collective.pattern import Pattern, Schedule, Send
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from railyard.collective.machine import CollectiveMachine, Shape


def _refuses(kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    del kind, machine
    if not shape.even:
        return "the domains hold different numbers of ranks"
    if shape.domains < 2 or shape.per_domain < 2:
        return "it needs several domains with several ranks each"
    return None


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    del kind
    p, domains, n = shape.per_domain, shape.domains, shape.ranks
    source, target = all_pairs(p)
    base = np.repeat(shape.offsets, len(source))
    here, there = all_pairs(domains)
    local = np.arange(p)
    return Pattern.of(
        [
            (base + np.tile(source, domains), base + np.tile(target, domains), domains / n),
            ((here[:, None] * p + local).ravel(), (there[:, None] * p + local).ravel(), p / n),
        ]
    )


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    del kind
    return Steps(scale_up=1, scale_out=1, peers=shape.per_domain + shape.domains - 2)


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    p, domains, n = shape.per_domain, shape.domains, shape.ranks
    inside = tuple(
        Send(
            domain * p + a,
            domain * p + b,
            tuple((domain * p + a) * n + other * p + b for other in range(domains)),
        )
        for domain in range(domains)
        for a in range(p)
        for b in range(p)
        if a != b
    )
    along = tuple(
        Send(
            here * p + local,
            there * p + local,
            tuple((here * p + a) * n + there * p + local for a in range(p)),
        )
        for here in range(domains)
        for there in range(domains)
        if here != there
        for local in range(p)
    )
    return Schedule(kind, n, n * n, (inside, along))


ALGORITHM = ALGORITHMS.add(
    "hierarchical-all-to-all",
    Algorithm(
        name="hierarchical-all-to-all",
        summary="All-to-all inside the domain by rail, then along the rails; fewer and larger messages",
        kinds=(CollectiveKind.ALL_TO_ALL,),
        protocols=("ll", "simple"),
        family="peer",
        refuses=_refuses,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        sources=("DeepSpeed-MoE, ICML 2022 (hierarchical all-to-all)", "NCCL PXN"),
        route="exchange",
        phased=True,
    ),
)
