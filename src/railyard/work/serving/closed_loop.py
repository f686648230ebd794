"""The means of a closed loop in closed form: each user of a replica sends the next request when answered.

This is the law by which engines' constants are fitted: many replicas and many values of the constants at once, each
with the mean lengths of its requests. What becomes of each request of a trace is another question, which
`railyard.engine.serving.closed_form` answers from the tables of one deployment; it knows no closed loops.

In the time in which one of C sequences is decoded, the others have their prompts computed in the same iterations:

    TPOT = T(B) / a + C dT / (O - 1 + TTFT / TPOT),     B = C (O - 1) TPOT / (TTFT + (O - 1) TPOT)

T(B) is the iteration of B sequences that decode, a the tokens that it yields of each (1 without drafts), dT what one
prompt adds. The fixed point is found by iteration over all rows at once. Time to the first token is the wait for the
running iteration, for the prompts ahead, and the own prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.engine.serving.deployment import accepted_tokens
from railyard.work.serving.iteration import IterationLoad, IterationTimes, parts, prompts_on_copies

if TYPE_CHECKING:
    from railyard.model.machine import F
    from railyard.work.serving.layout import Deployments
    from railyard.work.serving.software import ServingSoftware, ServingSoftwareColumns


ROUNDS = 6
# Prompt tokens that engines put into one iteration.
CHUNK = 8192.0
# The middle of a Poisson number, here the prompts that come to an iteration, stands a third below its mean (Adell and
# Jodra 2005).
_OFTEN = 1.0 / 3.0


@dataclass(frozen=True, slots=True)
class ServingDemand:
    """What is asked of a deployment; each a row or, where all rows have the same, one value.

    Attributes:
        prompt, output: Mean tokens of a request.
        most: Sequences that a replica can hold.
        drafts: Tokens drafted for each sequence in an iteration, 0 without speculation.
        drafting: 1 where drafts are sure; less where it is not known whether the engine drafts: the estimate then
            stands between both, by this share of the way in the logarithm.
        middle: 1 where the time of a token is the middle one of all gaps between two tokens, 0 where it is their mean.
    """

    users: F
    prompt: F
    output: F
    most: F
    drafts: F | float = 0.0
    drafting: F | float = 1.0
    middle: F | float = 0.0

    @property
    def context(self) -> F:
        """Mean length of a sequence that decodes."""
        return self.prompt + self.output / 2.0

    @property
    def steps(self) -> F:
        """Tokens behind the first."""
        return np.maximum(self.output - 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class SteadyState:
    """Means of a load that never ends.

    Attributes:
        tpot_s, ttft_s: Seconds a token, and to the first one.
        rate_per_s: Requests served by the whole deployment.
        batch: Sequences of a replica that decode.
        decode: One iteration of these.
        prompt_s: An iteration of one prompt alone.
    """

    tpot_s: F
    ttft_s: F
    rate_per_s: F
    batch: F
    decode: IterationTimes
    prompt_s: F


def decode_parts(
    deployments: Deployments, software: ServingSoftwareColumns, batch: F, traffic: ServingDemand
) -> IterationTimes:
    """One iteration in which `batch` sequences of mean length decode."""
    tokens = batch * (1.0 + traffic.drafts * traffic.drafting)
    return parts(deployments, software, IterationLoad(tokens, batch, batch * traffic.context, np.zeros_like(batch)))


def accepted(software: ServingSoftwareColumns, traffic: ServingDemand) -> F:
    """Tokens that an iteration yields of a sequence."""
    tokens: F = accepted_tokens(software.acceptance, traffic.drafts) ** traffic.drafting
    return tokens


def prompt_s(deployments: Deployments, software: ServingSoftwareColumns, tokens: F, count: F) -> F:
    """An iteration that computes `count` prompts of `tokens` each and nothing else."""
    pairs = count * deployments.model.causal_pairs(tokens)
    most = prompts_on_copies(deployments.model, count, tokens, deployments.layout.dp)
    load = IterationLoad(count * tokens, count, np.zeros_like(tokens), pairs, **most)
    return parts(deployments, software, load).total_s


def added_s(
    deployments: Deployments, software: ServingSoftwareColumns, traffic: ServingDemand, batch: F, waiting: F
) -> F:
    """What one prompt adds to the iterations of `batch` sequences that decode, with so many others waiting."""
    prompt = traffic.prompt
    most = np.floor(CHUNK * deployments.layout.dp / prompt)
    count = np.clip(most, 1.0, np.maximum(waiting, 1.0))
    pairs = count * deployments.model.causal_pairs(prompt)
    decoding = batch * (1.0 + traffic.drafts * traffic.drafting)
    crowd = prompts_on_copies(deployments.model, count, prompt, deployments.layout.dp, decoding)
    load = IterationLoad(decoding + count * prompt, batch + count, batch * traffic.context, pairs, **crowd)
    both = parts(deployments, software, load)
    alone = decode_parts(deployments, software, batch, traffic)
    each: F = (both.total_s - alone.total_s) / count * software.prompt_share
    return each


def wave_s(users: F, each: F, decoding: F, share: F) -> F:
    """Mean wait for the prompts ahead in a closed loop.

    Users who start together end together, less what answers differ in length: a wave of C prompts takes C s and makes a
    request wait for half of that; the more the ends of answers spread, the less.

    Args:
        users: Requests of a wave.
        each: Seconds of a prompt in the queue.
        decoding: Seconds of decoding one answer.
        share: The part of the wave that a request waits for.
    """
    wait: F = np.minimum(share * np.maximum(users - 1.0, 0.0) * each, users * each + decoding)
    return wait


def arrival_s(software: ServingSoftware | ServingSoftwareColumns, prompt: F | float) -> Any:
    """Seconds that a request takes outside device and queue: tokenizer, first schedule, the answer's way back.

    Args:
        software: Of one engine, or rows.
        prompt: Tokens; rows as long.
    """
    return software.prompt_s + software.prompt_token_s * prompt


def closed_loop(deployments: Deployments, software: ServingSoftwareColumns, traffic: ServingDemand) -> SteadyState:
    """The means of the users of one replica that does both prompts and decoding."""
    batch = np.minimum(traffic.users, traffic.most)
    steps, yields = traffic.steps, accepted(software, traffic)
    alone = prompt_s(deployments, software, traffic.prompt, np.ones_like(batch))
    share = np.ones_like(batch)
    found = decode_parts(deployments, software, batch, traffic)
    tpot, extra = found.total_s / yields, alone
    for _ in range(ROUNDS):
        found = decode_parts(deployments, software, batch * share, traffic)
        extra = added_s(deployments, software, traffic, batch * share, batch / 2.0)
        tpot = found.total_s / yields + batch * extra / (steps + alone / tpot)
        share = 0.5 * share + 0.5 * steps * tpot / (steps * tpot + alone)
    decoding = steps * tpot
    queued = (traffic.users - batch) / np.maximum(batch, 1.0) * decoding
    wait = wave_s(batch, extra, decoding, software.wave_share) + 0.5 * found.total_s
    rate = batch / (decoding + alone)
    middle = np.maximum(rate * found.total_s - _OFTEN, 0.0) * extra + found.total_s / yields
    tpot = np.where(traffic.middle > 0, np.minimum(middle, tpot), tpot)
    return SteadyState(
        tpot, alone + wait + queued + arrival_s(software, traffic.prompt), rate, batch * share, found, alone
    )
