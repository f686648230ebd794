"""Several jobs on one cluster, simulated together and alone, with the traffic of serving jobs on the fabric."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.flow import FREED, Conditions
from railyard.graph import Job, Kind, Label, Stream, TaskGraph
from railyard.graph.repeat import repeat
from railyard.kit.errors import Stopped
from railyard.measure.decompose import decompose
from railyard.measure.serving.latencies import quantiles
from railyard.model.machine import Machine
from railyard.work.serving.links import lanes_between
from railyard.work.serving.measuring import latencies
from railyard.work.training.graphs import losses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from threading import Event

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.engine.serving import Links
    from railyard.graph import Record
    from railyard.work.jobs.prepare import JobTenant, SharedCluster
    from railyard.work.serving.placing import PlacedPool
    from railyard.work.serving.prepare import ServingJob

    Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KvTransfers:
    """KV cache transfers from prefill to decode, in a part of a run.

    Attributes:
        graph: A transfer for every lane of every request, released when it was sent.
        source: int32[n], the sending replica.
        target: int32[n], the receiving replica.
    """

    graph: TaskGraph
    source: NDArray[np.int32]
    target: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.graph)


def middle_ps(run: Record) -> int:
    """Time by which half of the transfers have begun; 0 without transfers."""
    began = run.column("transfer_start_ps")
    began = began[began >= 0]
    return int(np.median(began)) if began.size else 0


def traffic_of(job: ServingJob, run: Record, from_ps: int, span_ps: int) -> KvTransfers:
    """Transfers that begin in a part of a run; release times are relative to its start.

    The part that is sent during prefill is released with it, the rest with the first token.
    """
    pools = {pool.role: pool for pool in job.pools}
    if not {"prefill", "decode"} <= set(pools) or any(pool.home for pool in job.pools):
        return _traffic(job, _Lanes.none())
    begin = run.column("transfer_start_ps")
    inside = (begin >= from_ps) & (begin < from_ps + span_ps) & (run.column("transfer_end_ps") >= 0)
    return _traffic(job, _lanes(job, run, np.flatnonzero(inside), from_ps))


@dataclass(frozen=True, eq=False)
class _Lanes:
    """Transfers between ranks, one row each."""

    rank: Ints
    peer: Ints
    size_bytes: Ints
    release_ps: Ints
    source: Ints
    target: Ints

    @staticmethod
    def none() -> _Lanes:
        return _Lanes(*(np.empty(0, np.int64) for _ in range(6)))


def _lanes(job: ServingJob, run: Record, rows: Ints, from_ps: int) -> _Lanes:
    order = [pool.role for pool in job.pools]
    send, take = (_pool(job, role) for role in ("prefill", "decode"))
    first = np.cumsum([0, *(pool.replicas for pool in job.pools)])
    source, target = run.who[rows].astype(np.int64), run.column("decode_replica")[rows].astype(np.int64)
    here, there = source - first[order.index("prefill")], target - first[order.index("decode")]
    turns = lcm(send.copies.shape[1], take.copies.shape[1])
    lanes = lanes_between(send, take, np.repeat(here, turns), np.repeat(there, turns), turns)
    chosen = lanes.lane % turns == (lanes.lane // turns) % turns
    request = (lanes.lane // turns)[chosen]
    size = job.costs[order.index("prefill")].kv_bytes_per_token * job.requests.input_tokens[rows].astype(np.float64)
    overlap = job.section.transfer.overlap
    begin, first_token = run.column("transfer_start_ps")[rows], run.column("first_token_ps")[rows]
    kept = [(share, at) for share, at in ((overlap, begin), (1 - overlap, np.maximum(first_token, begin))) if share > 0]
    bytes_of = size[request] * lanes.share[chosen]
    return _Lanes(
        np.tile(lanes.source[chosen], len(kept)),
        np.tile(lanes.target[chosen], len(kept)),
        np.concatenate([np.maximum(np.rint(bytes_of * share), 1) for share, _ in kept]).astype(np.int64),
        np.concatenate([at[request] - from_ps for _, at in kept]).astype(np.int64),
        np.tile(source[request], len(kept)),
        np.tile(target[request], len(kept)),
    )


def _pool(job: ServingJob, role: str) -> PlacedPool:
    return next(pool for pool in job.pools if pool.role == role)


def _traffic(job: ServingJob, lanes: _Lanes) -> KvTransfers:
    graph = TaskGraph.of(
        job.cluster.ranks,
        kind=Kind.TRANSFER,
        rank=lanes.rank,
        peer=lanes.peer,
        size_bytes=lanes.size_bytes,
        stream=Stream.FREE,
        labels=[Label("serving", "keys and values", "kv")],
        release_ps=lanes.release_ps,
    )
    return KvTransfers(graph, lanes.source.astype(np.int32), lanes.target.astype(np.int32))


def slowed(links: Links, traffic: KvTransfers, slowdown: NDArray[np.float64]) -> Links:
    """Links slowed by the mean slowdown of their traffic, weighted by bytes.

    Args:
        links: Links at their own rates.
        traffic: The transfers over them.
        slowdown: float64[n], time of each transfer with other jobs relative to without.
    """
    ends, inverse = np.unique(np.stack([traffic.source, traffic.target]), axis=1, return_inverse=True)
    size = traffic.graph.size_bytes.astype(np.float64)
    which = inverse.ravel()
    moved = np.bincount(which, size, minlength=ends.shape[1])
    slow = np.bincount(which, size * slowdown, minlength=ends.shape[1])
    number = {(int(a), int(b)): row for row, (a, b) in enumerate(ends.T)}
    lane = np.array(
        [number.get((int(a), int(b)), -1) for a, b in zip(links.from_replica, links.to_replica, strict=True)]
    )
    row = np.repeat(lane, np.diff(links.ptr))
    known = row >= 0
    weight = links.share[known]
    total = np.bincount(links.link[known], moved[row[known]] * weight, minlength=len(links.rate_bps))
    longer = np.bincount(links.link[known], slow[row[known]] * weight, minlength=len(links.rate_bps))
    factor = np.divide(longer, total, out=np.ones(len(total)), where=total > 0)
    return replace(links, rate_bps=links.rate_bps / np.maximum(factor, 1.0))


STEPS = 2
"""Number of steps of the slowest job during which all jobs run together."""
MARGIN = 1.5
"""Other jobs run this much longer than they would alone, so that they are still running when a slowed step ends."""
ENOUGH = 0.01
"""Serving and fabric have converged when nothing changes by more than this share between rounds."""
MOST_ROUNDS = 6
ONLY_SERVING_PS = 2 * 10**12
"""Simulated time on the fabric if no job has steps."""


@dataclass(frozen=True)
class JobSetSteps:
    """A training job together with others.

    Attributes:
        step_s: Mean of the steps within the time in which all jobs run.
    """

    step_s: float
    steps: int
    record: Record
    repeats: int

    @property
    def measure_s(self) -> float:
        """The time by which jobs are compared."""
        return self.step_s


@dataclass(frozen=True)
class Answering:
    """A serving job together with others.

    Attributes:
        transfer_s: Mean transfer time; 0 without transfers.
        slowdown: Transfer time relative to that without other jobs, weighted by bytes.
    """

    run: Record
    ttft_s: Mapping[str, float | None]
    tpot_s: Mapping[str, float | None]
    transfers: int = 0
    transfer_s: float = 0.0
    slowdown: float = 1.0
    links: Links | None = None

    @property
    def measure_s(self) -> float:
        """The time by which jobs are compared."""
        return float(self.ttft_s["p50"] or 0.0)


Figure = JobSetSteps | Answering


@dataclass(frozen=True)
class JobSetOutcome:
    """Some of the jobs together.

    Attributes:
        record: Record of the fabric; None if nothing was sent.
        rounds: Number of rounds between serving and fabric.
        moved: Largest relative change in the last round.
    """

    figures: Mapping[int, Figure]
    record: Record | None
    rounds: int = 1
    moved: float = 0.0


@dataclass(frozen=True)
class FreeNetworkRun:
    """Seconds of a step by cause on unlimited networks; see `measure.tax`."""

    without_scale_out: Mapping[str, float]
    without_networks: Mapping[str, float]
    engine: str


@dataclass
class JobSetRuns:
    """Runs sets of jobs of one variant, each set once."""

    shared: SharedCluster
    stop: Event
    done: Callable[[str], None]
    repeats: dict[int, int] = field(default_factory=dict)
    span_ps: int = ONLY_SERVING_PS
    _found: dict[tuple[int, ...], JobSetOutcome] = field(default_factory=dict)
    _from_ps: dict[int, int] = field(default_factory=dict)

    def plan(self) -> None:
        """Number of steps of each job that cover the time in which all run together."""
        stepping = [tenant for tenant in self.shared.tenants if tenant.step is not None]
        took = {t.number: self._record([Job(t.once, t.placement)]).makespan_ps for t in stepping}
        if not took:
            return
        last = max(tenant.start_ps for tenant in self.shared.tenants)
        self.span_ps = round(MARGIN * (last + STEPS * max(took.values())))
        for tenant in stepping:
            once = tenant.once.release_ps is not None
            steps = math.ceil((self.span_ps - tenant.start_ps) / max(took[tenant.number], 1))
            self.repeats[tenant.number] = 1 if once else max(steps, 1)

    def of(self, members: Sequence[int]) -> JobSetOutcome:
        """The outcome of some of the jobs running together."""
        key = tuple(sorted(members))
        if key not in self._found:
            self._found[key] = self._settled(key)
            self.done(self.shared.variant.name)
        return self._found[key]

    def unlimited(self, number: int) -> FreeNetworkRun:
        """Where a step's time goes without limits of the scale-out network, and of all networks, without other jobs."""
        shared, tenant = self.shared, self._tenant(number)
        plain = Conditions(shared.engine, shared.machine, shared.policy, shared.faults)

        def spent(on: Conditions) -> dict[str, float]:
            there = replace(shared, engine=on.engine, machine=on.cluster, policy=on.policy, faults=on.faults)
            record = replace(self, shared=there)._record([Job(_beside(tenant, on.cluster), tenant.placement)])
            return decompose(record.of(0)).by_cause()

        without_scale_out, without_networks = map(plain.unlimited, FREED)
        return FreeNetworkRun(spent(without_scale_out), spent(without_networks), without_networks.engine.name)

    def _settled(self, members: tuple[int, ...]) -> JobSetOutcome:
        serving = [number for number in members if self._tenant(number).serving is not None]
        found = self._round(members, {number: self._answered(number, None) for number in serving})
        if not serving or len(members) == 1:
            return found
        for number in range(2, MOST_ROUNDS + 1):
            answers = {one: figure for one, figure in found.figures.items() if isinstance(figure, Answering)}
            runs = {one: self._answered(one, figure.links) for one, figure in answers.items()}
            after = _damped(found, self._round(members, runs))
            found = replace(after, rounds=number, moved=_moved(found, after))
            if found.moved < ENOUGH:
                break
        return found

    def _round(self, members: tuple[int, ...], runs: Mapping[int, Record]) -> JobSetOutcome:
        """All jobs on the fabric, with serving jobs sending as in a previous run."""
        traffic = {number: self._traffic(number, run) for number, run in runs.items()}
        jobs = {number: self._job(number, traffic.get(number)) for number in members}
        running = [number for number, job in jobs.items() if len(job.work)]
        record = self._record([jobs[number] for number in running]) if running else None
        parts = {number: record.of(place) for place, number in enumerate(running)} if record else {}
        ends = [part.makespan_ps for number, part in parts.items() if number in self.repeats]
        window = (max(job.start_ps for job in jobs.values()), min(ends, default=0))
        figures: dict[int, Figure] = {}
        for number in members:
            if number in runs:
                figures[number] = self._figure(number, runs[number], traffic[number], parts.get(number), len(members))
            else:
                figures[number] = _stepped(parts[number], jobs[number], self.repeats[number], window)
        return JobSetOutcome(figures, record)

    def _figure(self, number: int, run: Record, traffic: KvTransfers, part: Record | None, members: int) -> Answering:
        job = self._tenant(number).answers
        sent = job.as_sent(run)
        served = latencies(sent, sent.requests, run)
        plain = Answering(run, quantiles(served.ttft_s), quantiles(served.tpot_s), len(traffic))
        links = job.deployment.links
        if part is None or links is None:
            return plain
        sent_as = self._job(number, traffic)
        took = _took(part, sent_as)
        if members == 1:
            return replace(plain, transfer_s=float(took.mean()) * 1e-12, links=links)
        alone = _took(self._record([sent_as]), sent_as)
        slowdown = np.maximum(took / np.maximum(alone, 1), 1.0)
        return replace(
            plain,
            transfer_s=float(took.mean()) * 1e-12,
            slowdown=float(np.average(slowdown, weights=traffic.graph.size_bytes)),
            links=slowed(links, traffic, slowdown),
        )

    def _answered(self, number: int, links: Links | None) -> Record:
        """A serving job's requests over links slowed as measured; None: links at their own rates."""
        job = self._tenant(number).answers
        if links is not None:
            job = replace(job, deployment=replace(job.deployment, links=links))
        return job.run(job.requests)

    def _traffic(self, number: int, run: Record) -> KvTransfers:
        job = self._tenant(number).answers
        middle = self._from_ps.setdefault(number, max(middle_ps(run) - self.span_ps // 2, 0))
        return traffic_of(job, run, middle, self.span_ps)

    def _job(self, number: int, traffic: KvTransfers | None) -> Job:
        tenant = self._tenant(number)
        work = repeat(tenant.once, self.repeats[number]) if traffic is None else traffic.graph
        return Job(work, tenant.placement, tenant.start_ps, tenant.name, number)

    def _tenant(self, number: int) -> JobTenant:
        return self.shared.tenants[number]

    def _record(self, jobs: Sequence[Job]) -> Record:
        shared = self.shared
        return shared.engine.simulate(
            jobs,
            shared.machine,
            seed=shared.seed,
            faults=shared.faults,
            jitter=shared.jitter,
            policy=shared.policy,
            progress=self._poll,
        )

    def _poll(self, ended: int, total: int, now_ps: int) -> None:
        del ended, total, now_ps
        if self.stop.is_set():
            raise Stopped("stopped")


def _beside(tenant: JobTenant, machine: Cluster) -> TaskGraph:
    """A step whose overlapped computations lose to communication what they lose on a machine."""
    step = tenant.once
    if tenant.training is None or step.loss is None:
        return step
    return replace(step, loss=losses(tenant.training.training, machine.accelerator, Machine.of(machine)))


def _took(part: Record, job: Job) -> NDArray[np.float64]:
    """float64[n], time from the release of each transfer to its end, ps."""
    release = 0 if job.work.release_ps is None else job.work.release_ps
    took: NDArray[np.float64] = (part.end_ps - job.start_ps - release).astype(np.float64)
    return took


def _stepped(part: Record, job: Job, repeats: int, window: tuple[int, int]) -> JobSetSteps:
    """The steps of a job within a window; all of them if none is."""
    ends = part.end_ps.reshape(repeats, -1).max(axis=1)
    begins = np.concatenate([[job.start_ps], ends[:-1]])
    inside = (begins >= window[0]) & (ends <= window[1])
    counted = inside if inside.any() else np.ones(repeats, np.bool_)
    seconds = float((ends - begins)[counted].mean()) * 1e-12
    return JobSetSteps(seconds, int(counted.sum()), part, repeats)


def _damped(before: JobSetOutcome, after: JobSetOutcome) -> JobSetOutcome:
    """Links halfway between two rounds, in time per byte, so that rounds do not oscillate."""
    figures = dict(after.figures)
    for number, figure in after.figures.items():
        old = before.figures[number]
        if isinstance(figure, Answering) and isinstance(old, Answering) and figure.links and old.links:
            rate_bps = 2 / (1 / figure.links.rate_bps + 1 / old.links.rate_bps)
            figures[number] = replace(figure, links=replace(figure.links, rate_bps=rate_bps))
    return replace(after, figures=figures)


def _moved(before: JobSetOutcome, after: JobSetOutcome) -> float:
    shares = [0.0]
    for number, figure in after.figures.items():
        old, new = before.figures[number].measure_s, figure.measure_s
        shares.append(abs(new / old - 1) if old > 0 else 0.0)
    return max(shares)
