"""Stages that serve batches on the serving core: requests are prompts without answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.serving import simulate
from railyard.engine.stages.stage import PS, parts, visits
from railyard.graph import RequestTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.engine.serving import Deployment
    from railyard.engine.stages.stage import Progress
    from railyard.graph import Record


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
