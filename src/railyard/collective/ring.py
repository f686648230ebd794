"""Ring: every rank passes chunks to its neighbour; the fewest bytes a rank can send, in 2(n-1) steps.

Rings are rail aligned: channel c enters every domain at its c-th member, visits the members in turn, and leaves by the
NIC through which it entered (the last member reaches that NIC over scale-up), so that all NICs carry the same and none
crosses rails. In a full mesh the channels zigzag, so that together they use every link alike, and every second domain
is visited backwards, so that the ring leaves by the last member's own NIC.

Send and receive: one rank's data to one other. Pipelines use it; `lowering/table.py` puts it onto links.

As a test of nccl-tests (`sendrecv_perf`) every rank sends its whole buffer to the next one and receives from the one
before.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Pattern, Schedule, Send, Steps, backwards
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from railyard.collective.machine import Shape


Order = NDArray[np.int64]


@lru_cache(maxsize=256)
def orders(shape: Shape) -> list[Order]:
    """The positions in ring order, one array a channel; kept for a shape, not to be changed."""
    if shape.domains == 1 and shape.scale_up != "mesh":
        return [np.arange(shape.ranks)]
    return [np.concatenate(walks) for walks in channels(shape)]


@lru_cache(maxsize=256)
def channels(shape: Shape) -> list[list[Order]]:
    """For each channel the walk through the members of every domain, as positions; kept, not to be changed."""
    if shape.scale_up == "mesh" and shape.even and shape.per_domain > 2:
        walks = zigzags(shape.per_domain)
        return [
            [offset + (walk[::-1] if domain % 2 else walk) for domain, offset in enumerate(shape.offsets)]
            for walk in walks
        ]
    return [
        [
            offset + (channel % count + np.arange(count)) % count
            for offset, count in zip(shape.offsets, shape.counts, strict=True)
        ]
        for channel in range(shape.per_domain)
    ]


def zigzags(members: int) -> list[Order]:
    """Walks c, c+1, c-1, c+2, c-2, ... through a full mesh that together use every ordered pair equally often.

    For an even number of members the rotations of one zigzag are a row-complete Latin square: every ordered pair occurs
    once. For an odd number its mirror image is needed as well, and every pair occurs twice.
    """
    turn = np.arange(members)
    walk = np.where(turn % 2 == 1, (turn + 1) // 2, -(turn // 2))
    shapes = [walk] if members % 2 == 0 else [walk, -walk]
    return [(start + shape) % members for shape in shapes for start in range(members)]


def per_edge(kind: CollectiveKind, ranks: int) -> float:
    """Bytes over each edge of a ring per byte of the collective's size, all channels together."""
    rounds = 2 if kind == CollectiveKind.ALL_REDUCE else 1
    return rounds * (ranks - 1) / ranks


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    rings = orders(shape)
    share = per_edge(kind, shape.ranks) / len(rings)
    return Pattern.of([(order, np.roll(order, -1), share) for order in rings])


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    rounds = 2 if kind == CollectiveKind.ALL_REDUCE else 1
    # the longest way leaves out edges inside a domain, so it crosses every boundary of a ring of domains
    out = rounds * (shape.domains - (shape.per_domain == 1)) if shape.domains > 1 else 0
    return Steps(scale_up=rounds * (shape.ranks - 1) - out, scale_out=out)


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    n = shape.ranks
    rings = [order.tolist() for order in orders(shape)]
    turns: list[tuple[int, bool]] = []
    if kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER):
        turns += [(-turn, True) for turn in range(n - 1)]
    if kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER):
        turns += [(1 - turn, False) for turn in range(n - 1)]
    steps = tuple(
        tuple(
            Send(order[index], order[(index + 1) % n], (channel * n + (index + shift) % n,), add)
            for channel, order in enumerate(rings)
            for index in range(n)
        )
        for shift, add in turns
    )
    # after n-1 turns the rank at ring index i holds chunk i+1 complete
    owner = tuple(order[(index - 1) % n] for order in rings for index in range(n))
    return Schedule(kind, n, n * len(rings), steps, owner)


RING = ALGORITHMS.enter(
    Algorithm(
        name="ring",
        summary="Rail-aligned rings; bandwidth-optimal, latency grows with the ranks",
        kinds=(CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER),
        protocols=("ll", "ll128", "simple"),
        family="ring",
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        route="ring",
        sources=("Patarasuk and Yuan, JPDC 2009", "NCCL 2.30, rings of the graph search"),
    ),
)


def chains(shape: Shape) -> list[Order]:
    """The rings of `orders`, each turned so that the root, position 0, comes first."""
    return [np.roll(order, -int(np.flatnonzero(order == 0)[0])) for order in orders(shape)]


def _chain_pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    channels = chains(shape)
    ends = [(chain[:-1], chain[1:]) for chain in channels]
    if kind == CollectiveKind.REDUCE:
        ends = [(target, source) for source, target in ends]
    return Pattern.of([(source, target, 1 / len(channels)) for source, target in ends])


def chain_steps(_kind: CollectiveKind, shape: Shape) -> Steps:
    """A chain crosses every domain boundary once."""
    return Steps(scale_up=shape.ranks - shape.domains, scale_out=shape.domains - 1)


def _chain_schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    channels = [chain.tolist() for chain in chains(shape)]
    steps = [
        tuple(Send(chain[link], chain[link + 1], (channel,)) for channel, chain in enumerate(channels))
        for link in range(shape.ranks - 1)
    ]
    if kind == CollectiveKind.REDUCE:
        steps = backwards(steps, reduce=True)
    return Schedule(kind, shape.ranks, len(channels), tuple(steps))


BROADCAST = ALGORITHMS.enter(
    Algorithm(
        name="broadcast",
        summary="Pipelined chains from the root, one a channel, rail aligned like the rings",
        kinds=(CollectiveKind.BROADCAST,),
        protocols=("ll", "ll128", "simple"),
        family="ring",
        pattern=_chain_pattern,
        steps=chain_steps,
        schedule=_chain_schedule,
        route="chain",
        sources=("NCCL 2.30, ring broadcast",),
    )
)

REDUCE = ALGORITHMS.enter(
    replace(
        BROADCAST,
        name="reduce",
        summary="Pipelined chains to the root, one a channel, rail aligned like the rings",
        kinds=(CollectiveKind.REDUCE,),
        sources=("NCCL 2.30, ring reduce",),
    )
)


def neighbours(shape: Shape) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sources and targets of the transfers of `sendrecv_perf`, as positions."""
    order = orders(shape)[0]
    return order, (order + 1) % shape.ranks
