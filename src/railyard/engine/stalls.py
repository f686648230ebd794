"""Draws of what differs from step to step: a factor of all computations, and interruptions of single ranks.

Interruptions become faults of the kind `Late`, so that the core, and what explains a timeline, need to know nothing of
them. Their number is Poisson with mean rate x ranks x time, where the time is that of the rank which computes longest;
a step is longer than that by what it waits, in which an interruption would cost nothing.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.contract import Late
from railyard.graph import Kind, Stream

if TYPE_CHECKING:
    from railyard.engine.contract import Jitter
    from railyard.graph import TaskGraph

_STREAM = 0x57A11
_SIX = 6.0
_MOST = 100_000
"""Interruptions of one step beyond which a rate is no rate of rare events."""


def swung(graph: TaskGraph, jitter: Jitter, seed: int) -> TaskGraph:
    """The graph with every computation as much longer or shorter as this step's are."""
    if jitter.step_sigma <= 0:
        return graph
    draw = float(np.clip(np.random.default_rng([seed, _STREAM]).standard_normal(), -_SIX, _SIX))
    factor = max(1.0 + jitter.step_sigma * draw, 0.0)
    return dataclasses.replace(graph, duration_ps=np.rint(graph.duration_ps * factor).astype(np.int64))


def drawn(graph: TaskGraph, jitter: Jitter, seed: int) -> tuple[Late, ...]:
    """The interruptions of one step, by the seed."""
    own = (graph.kind == Kind.COMPUTE) & np.isin(graph.stream, (Stream.COMPUTE, Stream.FREE))
    busy_ps = np.bincount(graph.rank[own], graph.duration_ps[own], minlength=graph.ranks)
    longest_ps = float(busy_ps.max(initial=0.0))
    found: list[Late] = []
    for number, kind in enumerate(jitter.stalls):
        rng = np.random.default_rng([seed, _STREAM, number + 1])
        count = min(int(rng.poisson(kind.rate_hz * graph.ranks * longest_ps * 1e-12)), _MOST)
        rank = rng.integers(0, graph.ranks, count)
        at_ps = (rng.random(count) * busy_ps[rank]).astype(np.int64)
        by_ps = np.rint(-np.log1p(-rng.random(count)) * kind.mean_s * 1e12).astype(np.int64)
        found += [Late(int(r), int(by), int(at)) for r, by, at in zip(rank, by_ps, at_ps, strict=True) if by > 0]
    return tuple(found)
