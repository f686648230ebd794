"""Jobs on a cluster as the engines run them: one graph, and the cluster numbered in the order in which jobs fill it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.priorities import CLASSES
from railyard.graph.merge import Merged, merge
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.graph import Job

SEED_BITS = 40
"""A job's seed stands above these bits of the number of a task or rank, by which jitter is drawn."""


def joint(jobs: Sequence[Job], cluster: Cluster) -> tuple[Merged, Cluster]:
    """The graph of all jobs and the cluster that it runs on.

    Scale-up domains are numbered in the order in which jobs fill them, so that a job that keeps domains together has
    neighbouring ranks wherever it lies, and what one job alone finds does not depend on where that is.

    Args:
        jobs: At least one; none shares an accelerator with another.
        cluster: The machine.

    Raises:
        InputError: A job lies outside the cluster, two share an accelerator, or one starts before the run.
    """
    if not jobs:
        raise InputError("there is no job to run")
    placements = [job.accelerators for job in jobs]
    _check(jobs, placements, cluster)
    order = _domains_first(np.concatenate(placements), cluster)
    position = np.empty(cluster.ranks, np.int32)
    position[order] = np.arange(cluster.ranks, dtype=np.int32)
    return merge(jobs, [position[placement] for placement in placements]), cluster.arranged(order)


def _check(jobs: Sequence[Job], placements: Sequence[NDArray[np.int32]], cluster: Cluster) -> None:
    taken = np.full(cluster.ranks, -1, np.int32)
    for number, (job, placement) in enumerate(zip(jobs, placements, strict=True)):
        if job.start_ps < 0:
            raise InputError("a job starts before the run", key="start", found=job.start_ps, allowed="at least 0 ps")
        if not 0 <= job.priority < CLASSES:
            raise InputError("there is no such class of traffic", key="priority", found=job.priority, allowed="0 to 7")
        outside = placement[(placement < 0) | (placement >= cluster.ranks)]
        if outside.size:
            raise InputError(
                f"job `{job.name}` has more ranks than the cluster, or lies outside it",
                found=f"accelerator {outside[0]}",
                allowed=f"0 to {cluster.ranks - 1}",
            )
        shared = placement[taken[placement] >= 0]
        if shared.size or len(np.unique(placement)) < len(placement):
            raise InputError(f"job `{job.name}` has an accelerator that another rank has already")
        taken[placement] = number


def _domains_first(accelerators: NDArray[np.int32], cluster: Cluster) -> NDArray[np.int32]:
    """int32[ranks], all accelerators: full domains by the first rank on them, those without ranks behind."""
    domain = cluster.scale_up_domain
    full = cluster.ranks // domain
    of_domain = accelerators // domain
    used, first = np.unique(of_domain[of_domain < full], return_index=True)
    rest = np.setdiff1d(np.arange(-(-cluster.ranks // domain)), used)
    domains = np.concatenate([used[np.argsort(first)], rest])
    order = (domains[:, None] * domain + np.arange(domain)).ravel()
    return order[order < cluster.ranks].astype(np.int32)


@dataclass(frozen=True)
class Keys:
    """What jitter is drawn by.

    Attributes:
        task: int64[n]; None: the number of the task.
        rank: int64[ranks]; None: the number of the rank.
    """

    task: NDArray[np.int64] | None = None
    rank: NDArray[np.int64] | None = None


def jitter_keys(merged: Merged) -> Keys:
    """What the jitter of jobs is drawn by: each job counts from its seed on, so that others do not change its draws."""
    if merged.alone and merged.jobs[0].seed == 0 and merged.ranks[0].size == merged.graph.ranks:
        return Keys()
    task, rank = np.empty(len(merged.graph), np.int64), np.zeros(merged.graph.ranks, np.int64)
    for job, first, to in zip(merged.jobs, merged.task_ptr, merged.ranks, strict=False):
        shift = job.seed << SEED_BITS
        task[first : first + len(job.work)] = shift + np.arange(len(job.work))
        rank[to] = shift + np.arange(len(to))
    return Keys(task, rank)
