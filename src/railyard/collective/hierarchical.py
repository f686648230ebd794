"""Hierarchical: reduce-scatter inside each domain, then a ring along each rail, then all-gather inside each domain.

Hierarchical all-to-all: first inside the domain to the member on the target's rail, then along the rail.

The bytes are those of direct sends that cross rails through a peer (PXN), but a rank talks to the p-1 peers of its
domain and the N-1 ranks of its rail instead of to all n-1 others, so the messages are larger and fewer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Pattern, Schedule, Send, Steps
from railyard.collective.direct import all_pairs
from railyard.collective.ring import per_edge
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.machine import CollectiveMachine, Shape


def _refuses(_kind: CollectiveKind, shape: Shape, _machine: CollectiveMachine) -> str | None:
    if not shape.even:
        return "the domains hold different numbers of ranks"
    if shape.domains < 2 or shape.per_domain < 2:
        return "it needs several domains with several ranks each"
    return None


def _hierarchical_all_to_all_pattern(_kind: CollectiveKind, shape: Shape) -> Pattern:
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


def _hierarchical_all_to_all_steps(_kind: CollectiveKind, shape: Shape) -> Steps:
    return Steps(scale_up=1, scale_out=1, peers=shape.per_domain + shape.domains - 2)


def _hierarchical_all_to_all_schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
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


HIERARCHICAL_ALL_TO_ALL = ALGORITHMS.enter(
    Algorithm(
        name="hierarchical-all-to-all",
        summary="All-to-all inside the domain by rail, then along the rails; fewer and larger messages",
        kinds=(CollectiveKind.ALL_TO_ALL,),
        protocols=("ll", "simple"),
        family="peer",
        refuses=_refuses,
        pattern=_hierarchical_all_to_all_pattern,
        steps=_hierarchical_all_to_all_steps,
        schedule=_hierarchical_all_to_all_schedule,
        sources=("DeepSpeed-MoE, ICML 2022 (hierarchical all-to-all)", "NCCL PXN"),
        route="exchange",
        phased=True,
    ),
)


_REDUCES = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)
_GATHERS = (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER)


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    p, domains = shape.per_domain, shape.domains
    source, target = all_pairs(p)
    base = np.repeat(shape.offsets, len(source))
    rounds = (kind in _REDUCES) + (kind in _GATHERS)
    position = np.arange(shape.ranks)
    return Pattern.of(
        [
            (base + np.tile(source, domains), base + np.tile(target, domains), rounds / p),
            (position, (position + p) % shape.ranks, per_edge(kind, domains) / p),
        ]
    )


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    rounds = (kind in _REDUCES) + (kind in _GATHERS)
    return Steps(scale_up=rounds, scale_out=rounds * (shape.domains - 1), peers=rounds * (shape.per_domain - 1))


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    p, domains = shape.per_domain, shape.domains
    chunk = np.arange(shape.ranks).reshape(p, domains)  # chunk[j, e] is reduced on rail j and rests in domain e
    steps: list[tuple[Send, ...]] = []
    if kind in _REDUCES:
        steps.append(_inside(shape, reduce=True))
        steps += [_along_rails(shape, chunk, -turn, reduce=True) for turn in range(1, domains)]
    if kind in _GATHERS:
        steps += [_along_rails(shape, chunk, 1 - turn, reduce=False) for turn in range(1, domains)]
        steps.append(_inside(shape, reduce=False))
    owner = tuple(domain * p + local for local in range(p) for domain in range(domains))
    return Schedule(kind, shape.ranks, shape.ranks, tuple(steps), owner)


def _inside(shape: Shape, *, reduce: bool) -> tuple[Send, ...]:
    """Inside every domain: to each member its rail's chunks (reducing), or from each member its rail's chunks."""
    p, domains = shape.per_domain, shape.domains
    source, target = all_pairs(p)
    sends = []
    for domain in range(domains):
        for a, b in zip(source.tolist(), target.tolist(), strict=True):
            rail = b if reduce else a
            chunks = tuple(range(rail * domains, (rail + 1) * domains))
            sends.append(Send(domain * p + a, domain * p + b, chunks, reduce))
    return tuple(sends)


def _along_rails(shape: Shape, chunk: NDArray[np.int64], shift: int, *, reduce: bool) -> tuple[Send, ...]:
    """One turn of the ring on every rail; domain d sends the chunk that rests `shift` domains further on."""
    p, domains = shape.per_domain, shape.domains
    return tuple(
        Send(
            domain * p + local,
            (domain + 1) % domains * p + local,
            (int(chunk[local, (domain + shift) % domains]),),
            reduce,
        )
        for domain in range(domains)
        for local in range(p)
    )


HIERARCHICAL = ALGORITHMS.enter(
    Algorithm(
        name="hierarchical",
        summary="Inside the domain, along the rails, inside the domain; each NIC carries only its rail's part",
        kinds=(CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER),
        protocols=("ll", "simple"),
        family="peer",
        refuses=_refuses,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        route="ring",
        phased=True,
        sources=("Jia et al. 2018 (hierarchical all-reduce)", "BlueConnect, SysML 2019"),
    ),
)
