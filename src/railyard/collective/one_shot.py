"""One-shot: every rank writes all of its data to every other, which adds what arrives: one kernel, no library.

For messages of a few kilobytes inside one domain. It is taken only where it is asked for by name.

    floor = 2 local round trips to L2 + one way + last arrival

The last of n arrivals is later than the first. Barriers of the same study take 0.85 us among 2 ranks and 1.68 us among
32: 0.058 us beyond one way, and 0.2075 us more for each doubling. Its all-reduces chose
between a line and doublings, and set no constant.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Pattern, Schedule, Send, Steps
from railyard.collective.direct import all_pairs
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from railyard.collective.machine import Case, CollectiveMachine, Shape

LOCAL_US = 0.306
"""Round trip to the local L2, GB200 (arXiv 2607.16100, section VI); data leaves by one and is read by another."""

ARRIVAL_US, DOUBLING_US = 0.058, 0.2075
"""Last arrival among 2 ranks, and what each doubling adds (barriers of the same source)."""

MOST_RANKS = 512


def floor_us(case: Case) -> float:
    """What the smallest message takes, us."""
    last = ARRIVAL_US + DOUBLING_US * (math.log2(case.shape.ranks) - 1)
    return 2 * LOCAL_US + case.machine.scale_up_latency_ps * 1e-6 + last


def _refuses(_kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    if shape.domains > 1 or machine.pcie:
        return "it stores into the memory of peers, which one scale-up domain holds"
    return f"{shape.ranks} ranks are too many peers" if shape.ranks > MOST_RANKS else None


def _pattern(_kind: CollectiveKind, shape: Shape) -> Pattern:
    source, target = all_pairs(shape.ranks)
    return Pattern.of([(source, target, np.ones(len(source)))])


def _steps(_kind: CollectiveKind, shape: Shape) -> Steps:
    return Steps(scale_up=1, peers=shape.ranks - 1)


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    pairs = zip(*(end.tolist() for end in all_pairs(shape.ranks)), strict=True)
    sends = tuple(Send(source, target, (0,), reduce=True) for source, target in pairs)
    return Schedule(kind, shape.ranks, 1, (sends,))


ONE_SHOT = ALGORITHMS.enter(
    Algorithm(
        name="one-shot",
        summary="Every rank writes its data to all others, in one low-latency kernel; only where asked for",
        kinds=(CollectiveKind.ALL_REDUCE,),
        protocols=("simple",),
        family="one-shot",
        refuses=_refuses,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        sources=("arXiv 2607.16100, section VI: floors, barriers and kernels on GB200 NVL72",),
        floor_us=floor_us,
    ),
)
