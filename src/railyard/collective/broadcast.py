"""Broadcast: the root's data in chunks down a chain in ring order (NCCL's ring broadcast)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Steps, always
from railyard.collective.pattern import Pattern, Schedule, Send
from railyard.collective.ring import Order, orders
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from railyard.collective.machine import Shape


def chains(shape: Shape) -> list[Order]:
    """The rings of `ring.orders`, each turned so that the root, position 0, comes first."""
    return [np.roll(order, -int(np.flatnonzero(order == 0)[0])) for order in orders(shape)]


def chain_steps(shape: Shape) -> Steps:
    """A chain crosses every domain boundary once."""
    return Steps(scale_up=shape.ranks - shape.domains, scale_out=shape.domains - 1)


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    del kind
    channels = chains(shape)
    return Pattern.of([(chain[:-1], chain[1:], 1 / len(channels)) for chain in channels])


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    del kind
    return chain_steps(shape)


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    channels = [chain.tolist() for chain in chains(shape)]
    steps = tuple(
        tuple(Send(chain[link], chain[link + 1], (channel,)) for channel, chain in enumerate(channels))
        for link in range(shape.ranks - 1)
    )
    return Schedule(kind, shape.ranks, len(channels), steps)


ALGORITHM = ALGORITHMS.add(
    "broadcast",
    Algorithm(
        name="broadcast",
        summary="Pipelined chains from the root, one a channel, rail aligned like the rings",
        kinds=(CollectiveKind.BROADCAST,),
        protocols=("ll", "ll128", "simple"),
        family="ring",
        refuses=always,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        route="chain",
        sources=("NCCL 2.30, ring broadcast",),
    ),
)
