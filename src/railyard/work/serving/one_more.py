"""One more replica of each pool, tried: which pool requests wait for is what changes when it grows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, SimulationError
from railyard.measure.result.serving import ReplicaTrial
from railyard.measure.serving.objective import goodput
from railyard.measure.serving.percentiles import quantiles
from railyard.work.scenario.variants import Variant
from railyard.work.serving.prepare import job_of
from railyard.work.serving.spending import idle_of
from railyard.work.study.memo import Memo

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.measure.result.serving import ServingFigures
    from railyard.measure.serving.objective import Objective
    from railyard.measure.serving.served import Served
    from railyard.work.serving.measuring import MeasuredServing
    from railyard.work.serving.placing import PlacedPool
    from railyard.work.serving.prepare import ServingJob

    Serve = Callable[[ServingJob], Served]

QUEUED = 0.5
"""Share of the 99th percentile of the first token that is queue, from which on a run is worth the trials."""
_POOLS = "workload.serving.pools"


def is_worth(serving: ServingFigures) -> bool:
    """Whether requests are late, or wait so long for a replica that one more could matter."""
    parts = serving.ttft_parts.get("p99")
    late = serving.slo.attainment < serving.slo.target
    return late or (parts is not None and parts.queue_s > QUEUED * parts.total_s)


def with_trials(found: MeasuredServing, job: ServingJob, objective: Objective, serve: Serve) -> MeasuredServing:
    """Adds the result's `trials`: the same requests with one more replica of each pool, a pool at a time.

    Args:
        found: The run that was asked for.
        job: Behind it.
        objective: To be met.
        serve: Simulates a job.
    """
    trials = tuple(trial(job, number, objective, serve) for number in range(len(job.pools)))
    serving = found.variant.serving.model_copy(update={"trials": trials})
    return replace(found, variant=found.variant.model_copy(update={"serving": serving}))


def trial(job: ServingJob, number: int, objective: Objective, serve: Serve) -> ReplicaTrial:
    """What one more replica of a pool gives, or why it cannot be had.

    Accelerators that belong to no pool are taken first; the cluster grows by whole servers for the rest.
    """
    pool = job.pools[number]
    each = pool.accelerators // pool.replicas
    replicas, served, reason = pool.replicas + 1, None, ""
    try:
        served = serve(_with_one_more(job, pool, each))
    except (InputError, SimulationError) as error:
        text = error.problems[0].message if isinstance(error, InputError) else str(error)
        reason = text.splitlines()[0]
    good = None if served is None else goodput(served, objective)
    return ReplicaTrial(
        pool=pool.role,
        replicas=replicas,
        accelerators=each,
        ttft_p99_s=None if served is None else quantiles(served.ttft_s)["p99"],
        tpot_p99_s=None if served is None else quantiles(served.tpot_s)["p99"],
        attainment=None if good is None else good.attainment,
        goodput_rps=None if good is None else good.requests_per_s,
        reason=reason,
    )


def _with_one_more(job: ServingJob, pool: PlacedPool, each: int) -> ServingJob:
    """The job with a replica more, on accelerators that idle or on servers more.

    Raises:
        InputError: Such a cluster cannot be.
    """
    if pool.home or pool.server is not None or pool.ffn is not None:
        raise InputError("a pool on servers of its own grows with them; try it by hand")
    changes = {f"{_POOLS}.{one.role}.replicas": one.replicas + (one is pool) for one in job.pools}
    missing = max(each - idle_of(job, pool.home), 0)
    if missing:
        server = job.cluster.server.accelerators
        changes["cluster.accelerators"] = job.cluster.ranks + math.ceil(missing / server) * server
    draft = job.variant.draft.with_values(changes, f"one more replica of {pool.role}")
    return job_of(Variant(job.variant.name, job.variant.settings, draft), Memo())
