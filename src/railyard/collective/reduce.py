"""Reduce: a broadcast backwards; every rank of the chain adds its own data to what passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Steps, always
from railyard.collective.broadcast import chain_steps, chains
from railyard.collective.pattern import Pattern, Schedule, Send
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from railyard.collective.machine import Shape


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    del kind
    channels = chains(shape)
    return Pattern.of([(chain[1:], chain[:-1], 1 / len(channels)) for chain in channels])


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    del kind
    return chain_steps(shape)


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    channels = [chain.tolist() for chain in chains(shape)]
    steps = tuple(
        tuple(Send(chain[link], chain[link - 1], (channel,), reduce=True) for channel, chain in enumerate(channels))
        for link in range(shape.ranks - 1, 0, -1)
    )
    return Schedule(kind, shape.ranks, len(channels), steps)


ALGORITHM = ALGORITHMS.add(
    "reduce",
    Algorithm(
        name="reduce",
        summary="Pipelined chains to the root, one a channel, rail aligned like the rings",
        kinds=(CollectiveKind.REDUCE,),
        protocols=("ll", "ll128", "simple"),
        family="ring",
        refuses=always,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        route="chain",
        sources=("NCCL 2.30, ring reduce",),
    ),
)
