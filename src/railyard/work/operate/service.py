"""Latencies of serving jobs while replicas are out: the serving engine runs each number of live replicas.

A run of months gives how long each deployment had how many live replicas, and to how many requests were sent. The
engine runs each such state separately, with the requests of its class at the rate that its replicas received. States
last for minutes to days and requests for seconds, so each state is measured once it has settled. A state whose replicas
receive more than they can serve has no latency: its queue grows.

The rate is the job's `load` times the throughput of all its replicas when there is always a request waiting.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.measure.result.operate import ServedState, ServiceRow
from railyard.work.operate.rules import PPM
from railyard.work.scenario.load import dump, expand, from_values
from railyard.work.serving.measuring import latencies, objective_of
from railyard.work.serving.prepare import job_of
from railyard.work.serving.summary import scaled
from railyard.work.study.provenance import Memo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.measure.serving.latencies import Served
    from railyard.work.operate.jobs import JobTable
    from railyard.work.operate.loop import ClusterRun
    from railyard.work.scenario.load import Draft
    from railyard.work.serving.prepare import ServingJob

ENDLESS = 1e6
"""Requests per second high enough that all of them arrive before the first is answered."""


@dataclass(frozen=True)
class ServedUsers:
    """Latencies that users see in one state.

    Attributes:
        ttft_s: float64[requests], time to first token; NaN if none came.
        tpot_s: float64[requests], time per further token.
        in_time: Share of the requests that met the objective.
    """

    ttft_s: NDArray[np.float64]
    tpot_s: NDArray[np.float64]
    in_time: float


class Service:
    """A class of serving jobs with a given number of accelerators per replica."""

    def __init__(self, draft: Draft, name: str, accelerators: int) -> None:
        self.draft, self.name, self.accelerators = draft, name, accelerators
        self._memo = Memo()
        self.rate_per_s = lru_cache(None)(self._rate_per_s)
        self.seen = lru_cache(None)(self._seen)

    def job(self, replicas: int) -> ServingJob:
        """A serving job of `replicas` replicas with a cluster to itself.

        Raises:
            InputError: The section does not match the replicas of the trace.
        """
        scenario = self.draft.scenario
        section = scenario.operate.serving[self.name]
        if section.pools.both is None:
            raise InputError("replicas of a trace compute prompts and answers", key="pools", allowed="both: {...}")
        pools = section.pools.model_copy(update={"both": section.pools.both.model_copy(update={"replicas": replicas})})
        machine = scenario.cluster.model_copy(update={"accelerators": replicas * self.accelerators})
        values = {
            "name": self.name,
            "seed": scenario.seed,
            "cluster": dump(machine),
            "workload": {"serving": dump(section.model_copy(update={"pools": pools}))},
        }
        found = job_of(expand(replace(from_values(values), folder=self.draft.folder))[0], self._memo)
        if found.pools[0].ranks.shape[1] != self.accelerators:
            raise InputError(
                "replicas of the trace have another number of accelerators",
                key="pools.both",
                found=int(found.pools[0].ranks.shape[1]),
                allowed=self.accelerators,
            )
        return found

    def _rate_per_s(self) -> float:
        """Throughput of a replica under a full queue, between the first and the last tenth of the answers."""
        served = self._served(self.job(1), ENDLESS)[0]
        first, last = np.quantile(served.done_s[served.done], [0.1, 0.9])
        return float(0.8 * served.done.sum() / max(last - first, 1e-9))

    def _seen(self, replicas: int, rate_per_s: float) -> ServedUsers | None:
        """What users see of these replicas at a rate; None: the queue keeps growing."""
        if rate_per_s >= replicas * self.rate_per_s():
            return None
        job = self.job(replicas)
        served, overloaded = self._served(job, rate_per_s)
        return (
            None
            if overloaded
            else ServedUsers(served.ttft_s, served.tpot_s, float(objective_of(job.section.slo).met(served).mean()))
        )

    @staticmethod
    def _served(job: ServingJob, rate_per_s: float) -> tuple[Served, bool]:
        requests = scaled(job.requests, rate=rate_per_s)
        run = job.run(requests)
        return latencies(job, requests, run), bool(run.meta["overloaded"])


def check_services(draft: Draft, jobs: JobTable) -> None:
    """Rejects classes without a serving job, and replicas that do not match their class.

    Raises:
        InputError: Names the key.
    """
    for name in draft.scenario.operate.serving:
        if name not in jobs.classes:
            allowed = jobs.classes[1:] or "no job of the trace names a class"
            raise InputError("no job is of this class", key=f"serving.{name}", found=name, allowed=allowed)
        theirs = (jobs.work == jobs.classes.index(name)) & (jobs.replica > 0)
        if not theirs.any():
            raise InputError("no job of this class has replicas", key=f"serving.{name}", found=name)
        for size in np.unique((jobs.replica * jobs.each)[theirs]).tolist():
            try:
                Service(draft, name, size).job(1)
            except InputError as error:
                wrong = error.problems[0]
                key = f"serving.{name}" + (f" ({wrong.key})" if wrong.key else "")
                raise InputError(wrong.message, key=key, found=wrong.found, allowed=wrong.allowed) from None


def services(draft: Draft, run: ClusterRun) -> tuple[ServiceRow, ...]:
    """A row for each kind of deployment of the classes that describe requests."""
    jobs, names = run.jobs, draft.scenario.operate.serving
    alike: dict[tuple[str, int, int, int], list[int]] = defaultdict(list)
    for job in np.flatnonzero(jobs.replica > 0).tolist():
        name = jobs.classes[jobs.work[job]]
        if name in names:
            each = int(jobs.replica[job])
            key = name, each * int(jobs.each[job]), int(jobs.nodes[job]) // each, int(jobs.load_ppm[job])
            alike[key].append(job)
    made: dict[tuple[str, int], Service] = {}
    rows = []
    for (name, accelerators, replicas, load_ppm), theirs in sorted(alike.items()):
        service = made.setdefault((name, accelerators), Service(draft, name, accelerators))
        spent = _spent(run.state.live_us, theirs)
        if spent:
            rows.append(_row(service, replicas, load_ppm / PPM, len(theirs), spent))
    return tuple(rows)


def _spent(live_us: Mapping[tuple[int, int, int], int], jobs: Sequence[int]) -> dict[tuple[int, int], int]:
    """Time of some jobs together in each state (replicas that answer, replicas that requests are sent to)."""
    found: dict[tuple[int, int], int] = defaultdict(int)
    for (job, live, asked), time_us in live_us.items():
        if job in jobs and time_us:
            found[live, asked] += time_us
    return dict(found)


def _row(service: Service, replicas: int, load: float, jobs: int, spent: Mapping[tuple[int, int], int]) -> ServiceRow:
    rate_per_s, total = load * replicas * service.rate_per_s(), sum(spent.values())
    states, seen = [], []
    for (live, asked), time_us in sorted(spent.items(), reverse=True):
        reached = live / asked if asked else 0.0
        found = service.seen(live, rate_per_s * reached) if live else None
        states.append(_state(live, asked, time_us / total, found))
        seen.append((time_us / total * reached, found))
    return ServiceRow(
        name=service.name,
        jobs=jobs,
        replicas=replicas,
        accelerators=service.accelerators,
        load=load,
        rate_per_s=rate_per_s,
        failed=max(1 - sum(weight for weight, _ in seen), 0.0),
        in_time=sum(weight * found.in_time for weight, found in seen if found),
        goodput_per_s=rate_per_s * sum(weight * found.in_time for weight, found in seen if found),
        ttft_p99_s=_mixed([(weight, found.ttft_s if found else None) for weight, found in seen]),
        tpot_p99_s=_mixed([(weight, found.tpot_s if found else None) for weight, found in seen]),
        states=tuple(states),
    )


def _state(live: int, asked: int, time: float, found: ServedUsers | None) -> ServedState:
    return ServedState(
        answer=live,
        asked=asked,
        time=time,
        ttft_p99_s=None if found is None else _mixed([(1.0, found.ttft_s)]),
        tpot_p99_s=None if found is None else _mixed([(1.0, found.tpot_s)]),
        in_time=0.0 if found is None else live / asked * found.in_time,
    )


def _mixed(parts: Sequence[tuple[float, NDArray[np.float64] | None]], q: float = 0.99) -> float | None:
    """A percentile of what users see over all states; None if it falls into a state whose queue grows.

    Args:
        parts: The weight of each state, and its latencies; None: longer than any.
        q: The quantile.
    """
    values, weights = [np.empty(0)], [np.empty(0)]
    for weight, part in parts:
        known = np.array([np.inf]) if part is None else part[~np.isnan(part)]
        values.append(known)
        weights.append(np.full(len(known), weight / max(len(known), 1)))
    every, share = np.concatenate(values), np.concatenate(weights)
    if not share.sum():
        return None
    order = np.argsort(every, kind="stable")
    reached = np.cumsum(share[order])
    place = min(int(np.searchsorted(reached, q * reached[-1])), len(every) - 1)
    found = float(every[order][place])
    return None if np.isinf(found) else found
