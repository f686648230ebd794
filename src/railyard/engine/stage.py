"""What every stage is to those around it: requests come in at times, go out at times, and these are made of parts."""

from __future__ import annotations

import heapq
import zlib
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from railyard.cluster.routes import finalized
from railyard.engine.serving import Speculative, simulate
from railyard.engine.serving.running import STATUS
from railyard.graph import Record, RequestTable
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Progress = Callable[[int, int], None]
    from collections.abc import Callable

    from railyard.engine.serving import Deployment


def uniform(seed: int, name: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number from 0 to 1, both excluded, for each request.

    Args:
        seed: Of the run.
        name: What is drawn.
        rows: Numbers of the requests.
    """
    salt = np.full(1, zlib.crc32(name.encode()), np.uint64) << np.uint64(32)
    key = finalized(finalized(np.full(1, seed % 2**64, np.uint64)) ^ salt)
    bits = finalized(key ^ finalized(rows.astype(np.uint64) + np.uint64(1))) >> np.uint64(11)
    return (bits.astype(np.float64) + 0.5) * 2.0**-53


@dataclass(frozen=True)
class RequestRule:
    """Rule that selects the requests of a stage; the others pass it by.

    Attributes:
        long_tokens: Prompts of more tokens than this have a share of their own; None: none have.
        unless: Only those that did not take this stage.
    """

    share: float = 1.0
    long_tokens: int | None = None
    share_long: float = 1.0
    unless: str | None = None


def takers(
    when: RequestRule, seed: int, name: str, input_tokens: NDArray[np.int32], others: NDArray[np.bool_] | None
) -> NDArray[np.bool_]:
    """The requests that take a stage.

    Args:
        when: Which do.
        seed: Of the run.
        name: The stage.
        input_tokens: int32[n], of each request as it was asked.
        others: bool[n], who took the stage that excludes this one; None where there is none.
    """
    share = np.full(len(input_tokens), when.share)
    if when.long_tokens is not None:
        share[input_tokens > when.long_tokens] = when.share_long
    taken = uniform(seed, name, np.arange(len(input_tokens))) < share
    return taken if others is None else taken & ~others


def delays(mean_s: float, p99_s: float | None, u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Delays in seconds: all alike, or log-normal with that mean and 99th percentile.

    With ln(p99 / mean) = z s - s^2 / 2, of the two widths s the smaller is taken.

    Raises:
        InputError: No log-normal law has this mean and percentile.
    """
    if p99_s is None:
        return np.full(len(u), mean_s)
    law = NormalDist()
    z = law.inv_cdf(0.99)
    if not mean_s <= p99_s <= mean_s * np.exp(z**2 / 2):
        raise InputError(
            "no log-normal law has this mean and 99th percentile",
            key="p99",
            found=f"{p99_s:g} s",
            allowed=f"{mean_s:g} s to {mean_s * float(np.exp(z**2 / 2)):.3g} s",
        )
    sigma = z - (z**2 - 2 * np.log(p99_s / mean_s)) ** 0.5
    normal = np.array([law.inv_cdf(one) for one in u.tolist()], np.float64)
    found: NDArray[np.float64] = mean_s * np.exp(sigma * normal - sigma**2 / 2)
    return found


def starts(arrival_ps: NDArray[np.int64], service_ps: NDArray[np.int64], servers: int | None) -> NDArray[np.int64]:
    """Start of each request's service.

    Args:
        arrival_ps: int64[n], ascending.
        service_ps: int64[n].
        servers: How many; None: one for everybody.
    """
    if servers is None:
        return arrival_ps.copy()
    begins = np.empty_like(arrival_ps)
    free = [0] * min(servers, max(len(arrival_ps), 1))
    for row, (arrives, takes) in enumerate(zip(arrival_ps.tolist(), service_ps.tolist(), strict=True)):
        begin = max(arrives, free[0])
        begins[row] = begin
        heapq.heapreplace(free, begin + takes)
    return begins


CAUSES = ("queue", "compute", "collectives", "transfer")
"""The parts of every time: waiting, computing, collectives that nothing hides, data on its way."""
PS = 1e12


SPENT = tuple(f"{cause}_s" for cause in CAUSES)
"""Columns of a request's time at a stage."""
FIRST = tuple(f"first_{cause}_s" for cause in CAUSES)
"""The same up to the first token of a language model."""
SERVING = "serving"
"""Part of a record of visits: the run of the serving engine, where the stage has one."""


class Stage(Protocol):
    """A stage, ready to run."""

    @property
    def nic_bps(self) -> float:
        """Rate at which one of its requests' data may come and go; infinite where nothing bounds it."""

    def sends_bytes(self, requests: RequestTable) -> NDArray[np.float64]:
        """f64[n], what each request carries on from here."""

    def run(self, requests: RequestTable, rows: NDArray[np.int64], seed: int, progress: Progress | None) -> Record:
        """Serves requests.

        Args:
            requests: Those that take the stage, with the times at which they come, ascending.
            rows: int64[m], their numbers among all requests.
            seed: Of everything random.
            progress: Called with how many have left, and the simulated time in ps.

        Returns:
            What `visits` makes.
        """


def parts(**seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """f64[m, 4] of columns by cause; causes that are left out are zero."""
    count = len(next(iter(seconds.values())))
    return np.column_stack([seconds.get(cause, np.zeros(count)) for cause in CAUSES])


def columns(names: tuple[str, ...], seconds: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The parts of a time as columns of a record.

    Args:
        names: `SPENT` or `FIRST`.
        seconds: f64[m, 4], by `CAUSES`.
    """
    return {name: np.ascontiguousarray(seconds[:, place]) for place, name in enumerate(names)}


def visits(
    rows: NDArray[np.int64],
    start_ps: NDArray[np.int64],
    end_ps: NDArray[np.int64],
    spent: NDArray[np.float64],
    *,
    refused: NDArray[np.bool_] | None = None,
    overloaded: bool = False,
    optional: Mapping[str, NDArray[Any]] | None = None,
    run: Record | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Record:
    """What became of the requests of one stage; one row per request, in the order in which they came.

    Args:
        rows: int64[m], their numbers among all requests.
        start_ps: int64[m], when they came.
        end_ps: int64[m], when the stage was through with them; -1 where it never was.
        spent: f64[m, 4], seconds from start to end by `CAUSES`.
        refused: bool[m], it can never be served here; None: all can.
        overloaded: The stage's queue grew without bound.
        optional: Further columns.
        run: Of the serving engine; None where the stage has none.
        meta: What else is known of the stage.
    """
    left = np.where(False if refused is None else refused, STATUS.index("dropped"), STATUS.index("unfinished"))
    status = np.where(end_ps >= 0, STATUS.index("done"), left).astype(np.uint8)
    return Record(
        rows="visits",
        who=rows.astype(np.int32),
        what=np.zeros(len(rows), np.int32),
        start_ps=start_ps,
        end_ps=end_ps,
        size_bytes=np.zeros(len(rows), np.int64),
        optional={**columns(SPENT, spent), "status": status, **(optional or {})},
        parts={} if run is None else {SERVING: run},
        meta={"overloaded": overloaded, **(meta or {})},
    )


_ROUNDS = 2


@dataclass(frozen=True, eq=False)
class Drafting:
    """Guesses from other accelerators.

    Attributes:
        tokens: Guessed ahead.
        acceptance: Chance that a guess is right.
        pass_law_s: Seconds of a pass of the draft model over so many sequences.
        checked_by: Replicas that check, for each copy.
        latency_s: One way between the pools, of few bytes.
        rate_bps: Between them.
        batch: Sequences that decode at once on a replica that checks.
    """

    tokens: int
    acceptance: float
    pass_law_s: Callable[[float], float]
    checked_by: float
    latency_s: float
    rate_bps: float
    guess_bytes: float
    batch: float = 1.0

    @property
    def pass_s(self) -> float:
        """One pass of the draft model over the sequences of all the replicas that a copy serves."""
        return self.pass_law_s(max(self.batch * self.checked_by, 1.0))

    @property
    def travel_s(self) -> float:
        """There and back of an iteration: accepted tokens go, guesses come."""
        return 2 * self.latency_s + self.batch * self.tokens * self.guess_bytes * 8 / self.rate_bps

    @property
    def each_s(self) -> float:
        """Wait of an iteration for guesses, per guess."""
        return self.pass_s + self.travel_s / self.tokens

    @property
    def guess(self) -> Speculative:
        """What the replicas that check have to do with it."""
        return Speculative(self.tokens, self.acceptance, self.each_s)

    def settled(self, serve: Callable[[Drafting], Record], decodes: NDArray[np.bool_]) -> Drafting:
        """The stage with the batch that the checking replicas turn out to have.

        Args:
            serve: A run of some requests with such guesses.
            decodes: bool[replicas], which of them check.
        """
        found = self
        for _ in range(_ROUNDS):
            totals = serve(found).table("replicas")
            tokens = float((totals["output_tokens"][decodes]).sum())
            steps = max(float(totals["iterations"][decodes].sum()), 1.0)
            found = replace(found, batch=max(tokens / steps / found.guess.yields, 1.0))
        return found

    def applied(self, deployment: Deployment) -> Deployment:
        """The deployment whose iterations wait for guesses."""
        pools = tuple(
            pool if pool.role == "prefill" else replace(pool, speculative=self.guess) for pool in deployment.pools
        )
        return replace(deployment, pools=pools)


_BYTES_PER_TOKEN = 4.0
"""Text of a token."""


@dataclass(frozen=True)
class Tool:
    """Something outside that takes its time.

    Attributes:
        delay_s: Mean time of a call.
        p99_s: 99th percentile, log-normal; None: all alike.
        at_most: Calls at once; the others wait. None: no limit.
        nic_bps: Nothing bounds it.
    """

    name: str
    delay_s: float
    p99_s: float | None = None
    at_most: int | None = None
    size_bytes: float = 0.0
    nic_bps: float = float("inf")

    def __post_init__(self) -> None:
        """Refuses delays that no law has."""
        delays(self.delay_s, self.p99_s, np.zeros(0))

    def sends_bytes(self, requests: RequestTable) -> NDArray[np.float64]:
        """What comes back from it."""
        return np.full(len(requests), float(self.size_bytes))

    def run(self, requests: RequestTable, rows: NDArray[np.int64], seed: int, progress: Progress | None) -> Record:
        """Calls, each after its delay; where there is a limit, the others wait."""
        del progress
        seconds: NDArray[np.float64] = delays(self.delay_s, self.p99_s, uniform(seed, f"{self.name} delay", rows))
        return _queued(requests, rows, seconds, self.at_most)


@dataclass(frozen=True)
class Cores:
    """Cores of a server's processors, each with one request at a time.

    Attributes:
        count: Of cores.
        per_request_s, per_input_token_s, per_output_token_s: What a request takes of one.
    """

    count: int
    per_request_s: float
    per_input_token_s: float
    per_output_token_s: float
    nic_bps: float

    def sends_bytes(self, requests: RequestTable) -> NDArray[np.float64]:
        """The text of prompt and answer."""
        return np.asarray(_BYTES_PER_TOKEN * (requests.input_tokens + requests.output_tokens), np.float64)

    def run(self, requests: RequestTable, rows: NDArray[np.int64], seed: int, progress: Progress | None) -> Record:
        """Requests, one a core."""
        del seed, progress
        tokens = self.per_input_token_s * requests.input_tokens + self.per_output_token_s * requests.output_tokens
        return _queued(requests, rows, np.asarray(self.per_request_s + tokens, np.float64), self.count)


def _queued(
    requests: RequestTable, rows: NDArray[np.int64], seconds: NDArray[np.float64], servers: int | None
) -> Record:
    service = np.rint(seconds * PS).astype(np.int64)
    begin = starts(requests.arrival_ps, service, servers)
    return visits(
        rows,
        requests.arrival_ps,
        begin + service,
        parts(queue=(begin - requests.arrival_ps) / PS, compute=service / PS),
        meta={"busy_s": float(service.sum()) / PS},
    )


@dataclass(frozen=True, eq=False)
class BatchingStage:
    """A stage on the serving core.

    Attributes:
        items: Texts of a request; it is through when the last one is.
        tokens: Of each text; None: those of the request.
        most_tokens: Longer texts are cut, as encoders do.
        entry_ps: From its coming until a replica has it.
        carries_bytes: What each request carries on.
    """

    deployment: Deployment
    nic_bps: float
    items: int
    tokens: int | None
    most_tokens: int
    entry_ps: int
    carries_bytes: float

    def sends_bytes(self, requests: RequestTable) -> NDArray[np.float64]:
        """Vectors, scores or passages."""
        return np.full(len(requests), self.carries_bytes)

    def run(self, requests: RequestTable, rows: NDArray[np.int64], seed: int, progress: Progress | None) -> Record:
        """Every text of every request, in batches."""
        given = requests.input_tokens if self.tokens is None else np.full(len(requests), self.tokens, np.int32)
        texts = RequestTable(
            arrival_ps=np.repeat(requests.arrival_ps, self.items) + self.entry_ps,
            input_tokens=np.repeat(np.minimum(given, np.int32(self.most_tokens)), self.items),
            output_tokens=np.ones(len(requests) * self.items, np.int32),
        )
        run = simulate(texts, self.deployment, seed=seed, progress=progress)
        return self._visits(requests, rows, texts, run)

    def _visits(self, requests: RequestTable, rows: NDArray[np.int64], texts: RequestTable, run: Record) -> Record:
        done = run.end_ps.reshape(-1, self.items)
        last = np.arange(len(done)) * self.items + done.argmax(axis=1)
        answered = (run.column("status") == 0).reshape(-1, self.items).all(axis=1)
        end = run.end_ps[last]
        queue = (run.column("admitted_ps")[last] - texts.arrival_ps[last]) / PS
        collectives = run.column("collectives_ps")[last] / PS
        total = (end - texts.arrival_ps[last] + self.entry_ps) / PS
        return visits(
            rows,
            requests.arrival_ps,
            np.where(answered, end, -1),
            parts(queue=queue, collectives=collectives, compute=total - queue - collectives),
            refused=(run.column("status") == 1).reshape(-1, self.items).any(axis=1),
            overloaded=run.meta["overloaded"],
            run=run,
        )
