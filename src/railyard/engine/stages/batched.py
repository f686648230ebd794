"""Stages that serve batches on the serving core: requests are prompts without answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.serving import Speculative, simulate
from railyard.engine.stages.stage import PS, delays, parts, starts, uniform, visits
from railyard.graph import RequestTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.engine.serving import Deployment
    from railyard.engine.stages.stage import Progress
    from railyard.graph import Record


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
        guess_bytes: Of one guess on its way.
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
        """Of an iteration's wait for guesses, the share of one guess."""
        return self.pass_s + self.travel_s / self.tokens

    @property
    def yields(self) -> float:
        """Tokens of an iteration and sequence: the first always, each guess if all before it were right."""
        share = min(self.acceptance, 1 - 1e-12)
        return (1 - share ** (self.tokens + 1)) / (1 - share)

    def settled(self, serve: Callable[[Drafting], Record], decodes: NDArray[np.bool_]) -> Drafting:
        """With the batch that the checking replicas turn out to have.

        Args:
            serve: A run of some requests with such guesses.
            decodes: bool[replicas], which of them check.
        """
        found = self
        for _ in range(_ROUNDS):
            totals = serve(found).table("replicas")
            tokens = float((totals["output_tokens"][decodes]).sum())
            steps = max(float(totals["iterations"][decodes].sum()), 1.0)
            found = replace(found, batch=max(tokens / steps / found.yields, 1.0))
        return found

    def applied(self, deployment: Deployment) -> Deployment:
        """The deployment whose iterations wait for guesses."""
        guess = Speculative(self.tokens, self.acceptance, self.each_s)
        pools = tuple(pool if pool.role == "prefill" else replace(pool, speculative=guess) for pool in deployment.pools)
        return replace(deployment, pools=pools)


_BYTES_PER_TOKEN = 4.0
"""Text of a token."""


@dataclass(frozen=True)
class Tool:
    """Something outside that takes its time.

    Attributes:
        name: By which its delays are drawn.
        delay_s: Mean time of a call.
        p99_s: 99th percentile, log-normal; None: all alike.
        at_most: Calls at once; the others wait. None: no limit.
        size_bytes: Of what comes back.
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
        nic_bps: Of the server.
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
class Batched:
    """A stage on the serving core.

    Attributes:
        deployment: What runs.
        nic_bps: Of a replica.
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
