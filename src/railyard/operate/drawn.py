"""Jobs drawn from distributions by a seed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from railyard.operate.jobs import JobTable
from railyard.operate.rules import SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.operate.tree import NodeTree

_P90 = 1.2815515655446004
"""The standard normal distribution's 90th percentile."""


def drawn(
    tree: NodeTree,
    *,
    count: int,
    load: float,
    sizes: Mapping[int, float],
    median_s: float,
    p90_s: float,
    tenants: int = 1,
    seed: int = 0,
) -> JobTable:
    """Jobs whose times are log-normal and whose arrivals are a Poisson process, cut so that the load comes out.

    Args:
        tree: The cluster.
        count: Jobs.
        load: Accelerator time that they ask for, over what the cluster has until the last arrives.
        sizes: Accelerators of a job, and how often.
        median_s: Half of the jobs take less.
        p90_s: Nine in ten take less.
        tenants: Tenants, drawn evenly.
        seed: Of every draw.
    """
    random = np.random.Generator(np.random.Philox(key=[seed, 0x10B5]))
    listed = np.array(list(sizes), np.int64)
    share = np.array(list(sizes.values()), float)
    wanted = random.choice(listed, count, p=share / share.sum())
    full = int(tree.accelerators.max())
    nodes = -(-wanted // full)
    each = np.where(nodes > 1, full, wanted)
    sigma = math.log(p90_s / median_s) / _P90 if p90_s > median_s else 0.0
    work = np.maximum(np.rint(random.lognormal(math.log(median_s), sigma, count) * SECOND), 1).astype(np.int64)
    gaps = random.exponential(1.0, count)
    asked = float((nodes * each * work).sum())
    submit = np.cumsum(gaps) / gaps.sum() * asked / tree.total / load
    return JobTable.of(
        np.rint(submit).astype(np.int64),
        work,
        nodes.astype(np.int32),
        each=each.astype(np.int32),
        tenant=random.integers(0, tenants, count).astype(np.int32),
        tenants=tuple(f"tenant-{number}" for number in range(tenants)) if tenants > 1 else ("all",),
    )
