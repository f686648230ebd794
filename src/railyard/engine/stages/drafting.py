"""Speculative decoding whose guesses come from other accelerators.

An iteration that checks k guesses of B sequences waits for them:

    k x (pass of the draft model over its batch) + there and back + k B x bytes / rate of the NIC

The batch of a copy of the draft model is that of all replicas that it serves. B is what the checking replicas turn out
to have: a run finds it, and another run follows with the guesses' time that belongs to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from railyard.engine.serving import Speculative

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from railyard.engine.serving import Deployment
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
