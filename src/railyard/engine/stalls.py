"""Draws of what differs from step to step: a factor of all computations, and interruptions of single ranks.

Interruptions become faults of the kind `Late`, so that the core, and what explains a timeline, need to know nothing of
them. Their number is Poisson with mean rate x ranks x time, where the time is that of the rank which computes longest;
a step is longer than that by what it waits, in which an interruption would cost nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fault import Late
from railyard.graph import Kind, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.engine.contract import Jitter
    from railyard.graph import Job, Merged, TaskGraph

_STREAM = 0x57A11
_SIX = 6.0
_MOST = 100_000
"""Interruptions of one step beyond which a rate is no rate of rare events."""


def swung(merged: Merged, jitter: Jitter, seed: int) -> TaskGraph:
    """The graph with every computation of a job as much longer or shorter as this step's are."""
    if jitter.step_sigma <= 0:
        return merged.graph
    duration_ps = merged.graph.duration_ps.copy()
    for job, first in zip(merged.jobs, merged.task_ptr, strict=False):
        rows = slice(first, first + len(job.work))
        draw = float(np.clip(_random(seed, job.seed).standard_normal(), -_SIX, _SIX))
        factor = max(1.0 + jitter.step_sigma * draw, 0.0)
        duration_ps[rows] = np.rint(duration_ps[rows] * factor)
    return replace(merged.graph, duration_ps=duration_ps)


def drawn(merged: Merged, jitter: Jitter, seed: int) -> tuple[Late, ...]:
    """The interruptions of one step of every job, by the seed."""
    found: list[Late] = []
    for job, to in zip(merged.jobs, merged.ranks, strict=True):
        found += [replace(late, rank=int(to[late.rank])) for late in _of_job(job, jitter, seed)]
    return tuple(found)


def _of_job(job: Job, jitter: Jitter, seed: int) -> Iterator[Late]:
    graph = job.work
    computes = (graph.kind == Kind.COMPUTE) & np.isin(graph.stream, (Stream.COMPUTE, Stream.FREE))
    busy_ps = np.bincount(graph.rank[computes], graph.duration_ps[computes], minlength=graph.ranks)
    longest_ps = float(busy_ps.max(initial=0.0))
    for number, kind in enumerate(jitter.stalls):
        rng = _random(seed, job.seed, number + 1)
        count = min(int(rng.poisson(kind.rate_hz * graph.ranks * longest_ps * 1e-12)), _MOST)
        rank = rng.integers(0, graph.ranks, count)
        at_ps = (rng.random(count) * busy_ps[rank]).astype(np.int64) + job.start_ps
        by_ps = np.rint(-np.log1p(-rng.random(count)) * kind.mean_s * 1e12).astype(np.int64)
        yield from (Late(int(r), int(by), int(at)) for r, by, at in zip(rank, by_ps, at_ps, strict=True) if by > 0)


def _random(seed: int, job_seed: int, *number: int) -> np.random.Generator:
    """The draws of one job; those of a job without a seed are the run's."""
    return np.random.default_rng([seed, _STREAM, *number, *((job_seed,) if job_seed else ())])
