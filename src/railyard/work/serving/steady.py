"""The steady state of a replica under a closed or an open loop, in closed form.

C users each send the next request when the last one is answered. In the time in which one sequence is decoded, the
others have their prompts computed in the same iterations:

    TPOT = T(B) / a + C dT / (O - 1 + TTFT / TPOT),     B = C (O - 1) TPOT / (TTFT + (O - 1) TPOT)

T(B) is the iteration of B sequences that decode, a the tokens that it yields of each (1 without drafts), dT what one
prompt adds. The fixed point is found by iteration over all rows at once. Time to the first token is the wait for the
running iteration, for the prompts ahead, and the own prompt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.work.serving.iteration import IterationLoad, IterationTimes, parts, prompts_on_copies

if TYPE_CHECKING:
    from railyard.model.machine import F
    from railyard.work.serving.layout import Deployments
    from railyard.work.serving.software import ServingSoftware, ServingSoftwareColumns


_ROUNDS = 6
# Halvings that find a batch within a percent of a percent, of up to 10^6.
_HALVINGS = 24
# Prompt tokens that engines put into one iteration.
_CHUNK = 8192.0
# Prompts of an open loop never fill more of the time than this in the closed form of their queue.
_BUSY = 0.95
# The middle of a Poisson number, here the prompts that come to an iteration, stands a third below its mean (Adell and
# Jodra 2005).
_OFTEN = 1.0 / 3.0


@dataclass(frozen=True, slots=True)
class ServingDemand:
    """What is asked of a deployment.

    Attributes:
        users, rate_per_s: Of a closed loop; requests/s of an open one, tokens/s of each user of a paced unit.
        prompt, output: Mean tokens of a request.
        most: Sequences that a replica can hold.
        drafts: Tokens drafted for each sequence in an iteration, 0 without speculation.
        drafting: 1 where drafts are sure; less where it is not known whether the engine drafts: the estimate then
            stands between both, by this share of the way in the logarithm.
        count: Requests of an open loop's run.
        middle: 1 where the time of a token is the middle one of all gaps between two tokens, 0 where it is their mean.
    """

    users: F
    rate_per_s: F
    prompt: F
    output: F
    most: F
    drafts: F
    drafting: F
    count: F
    middle: F

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
    """The steady state.

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
    """Tokens that an iteration yields of a sequence: the first always, each draft if all before it were taken."""
    share = np.minimum(software.acceptance, 0.999)
    tokens: F = ((1.0 - share ** (traffic.drafts + 1.0)) / (1.0 - share)) ** traffic.drafting
    return tokens


def prompt_s(deployments: Deployments, software: ServingSoftwareColumns, tokens: F, count: F) -> F:
    """An iteration that computes `count` prompts of `tokens` each and nothing else."""
    pairs = count * deployments.model.causal_pairs(tokens)
    most = prompts_on_copies(deployments.model, count, tokens, deployments.layout.dp)
    load = IterationLoad(count * tokens, count, np.zeros_like(tokens), pairs, **most)
    return parts(deployments, software, load).total_s


def batched_prompt_s(
    deployments: Deployments, software: ServingSoftwareColumns, prompt: F, cached: F | float = 0.0
) -> F:
    """Seconds a prompt takes of a replica that computes prompts as fast as it can, several in one iteration.

    With copies of attention two batches take turns, and the experts' exchange of one hides under the other's work
    (DeepSeek-V3 report, two micro-batches of prefilling).

    Args:
        deployments: Replicas.
        software: Constants.
        prompt: Tokens.
        cached: Share of them whose keys and values are there already; the others look at these too.
    """
    fresh = prompt * (1.0 - cached)
    count = np.maximum(np.floor(_CHUNK / fresh), 1.0) * deployments.layout.dp
    pairs = count * (deployments.model.causal_pairs(prompt) - deployments.model.causal_pairs(prompt * cached))
    found = parts(deployments, software, IterationLoad(count * fresh, count, np.zeros_like(prompt), pairs))
    hidden = np.where(deployments.layout.dp > 1, np.minimum(found.compute_s, found.network), 0.0)
    each: F = (found.total_s - hidden) / count
    return each


def added_s(
    deployments: Deployments, software: ServingSoftwareColumns, traffic: ServingDemand, batch: F, waiting: F
) -> F:
    """What one prompt adds to the iterations of `batch` sequences that decode, with so many others waiting."""
    prompt = traffic.prompt
    most = np.floor(_CHUNK * deployments.layout.dp / prompt)
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
    """Seconds that a request takes beside device and queue: tokenizer, first schedule, the answer's way back.

    Args:
        software: Of one engine, or rows.
        prompt: Tokens; rows as long.
    """
    return software.prompt_s + software.prompt_token_s * prompt


def closed_loop(deployments: Deployments, software: ServingSoftwareColumns, traffic: ServingDemand) -> SteadyState:
    """The steady state of the users of one replica that does both prompts and decoding."""
    batch = np.minimum(traffic.users, traffic.most)
    steps, yields = traffic.steps, accepted(software, traffic)
    alone = prompt_s(deployments, software, traffic.prompt, np.ones_like(batch))
    share = np.ones_like(batch)
    found = decode_parts(deployments, software, batch, traffic)
    tpot, extra = found.total_s / yields, alone
    for _ in range(_ROUNDS):
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


def decode_loop(deployments: Deployments, software: ServingSoftwareColumns, traffic: ServingDemand) -> SteadyState:
    """A replica that decodes only and gets its prompts' caches from elsewhere, as full as users or memory make it."""
    batch = np.minimum(traffic.users, traffic.most)
    found = decode_parts(deployments, software, batch, traffic)
    tpot = found.total_s / accepted(software, traffic)
    return SteadyState(tpot, np.zeros_like(tpot), batch / (traffic.steps * tpot), batch, found, np.zeros_like(tpot))


def paced_loop(deployments: Deployments, software: ServingSoftwareColumns, traffic: ServingDemand) -> SteadyState:
    """A replica that decodes only, for as many sequences as each still gets its tokens/s, and as memory holds."""
    wanted = accepted(software, traffic) / traffic.rate_per_s
    low, high = np.ones_like(wanted), np.maximum(traffic.most, 1.0)
    for _ in range(_HALVINGS):
        middle = np.sqrt(low * high)
        slow = decode_parts(deployments, software, middle, traffic).total_s > wanted
        low, high = np.where(slow, low, middle), np.where(slow, middle, high)
    return decode_loop(deployments, software, replace(traffic, users=low))


def split_loop(
    behind: Deployments,
    ahead: Deployments,
    software: ServingSoftwareColumns,
    traffic: ServingDemand,
    workers: tuple[F, F],
) -> SteadyState:
    """The steady state where some replicas compute prompts and others decode.

    Args:
        behind: The replicas that decode.
        ahead: The replicas that compute prompts.
        software: Rows.
        traffic: Of the whole system; `most` is of one replica that decodes.
        workers: Replicas that decode; replicas that compute prompts, 0 for as many as the load needs.
    """
    steps, yields = traffic.steps, accepted(software, traffic)
    users, most = traffic.users, traffic.most
    alone = prompt_s(ahead, software, traffic.prompt, np.ones_like(users))
    each = batched_prompt_s(ahead, software, traffic.prompt)
    capacity = np.where(workers[1] > 0, workers[1] / each, np.inf)
    batch = np.minimum(users / workers[0], most)
    found = decode_parts(behind, software, batch, traffic)
    tpot = found.total_s / yields
    rate = np.minimum(users / (steps * tpot + alone), capacity)
    for _ in range(_ROUNDS):
        batch = 0.5 * batch + 0.5 * np.minimum(rate * steps * tpot / workers[0], most)
        found = decode_parts(behind, software, batch, traffic)
        tpot = found.total_s / yields
        rate = np.minimum(np.minimum(users / (steps * tpot + alone), capacity), most * workers[0] / (steps * tpot))
    needed = np.where(workers[1] > 0, workers[1], np.ceil(rate * each))
    wait = wave_s(users, each / needed, steps * tpot, software.split_wave_share)
    ttft = np.maximum(users / rate - steps * tpot, alone + wait) + arrival_s(software, traffic.prompt)
    return SteadyState(tpot, ttft + software.handover_s, rate, batch, found, alone)


def open_loop(deployments: Deployments, software: ServingSoftwareColumns, traffic: ServingDemand) -> SteadyState:
    """The steady state under Poisson arrivals at one replica; an overload holds as many sequences as there is room."""
    one = np.ones_like(traffic.rate_per_s)
    steps, yields = traffic.steps, accepted(software, traffic)
    alone = prompt_s(deployments, software, traffic.prompt, one)
    found, batch = decode_parts(deployments, software, one, traffic), one
    tpot, extra = found.total_s / yields, alone
    for _ in range(4 * _ROUNDS):
        batch = 0.5 * batch + 0.5 * np.clip(traffic.rate_per_s * steps * tpot, 1.0, traffic.most)
        found = decode_parts(deployments, software, batch, traffic)
        extra = added_s(deployments, software, traffic, batch, one)
        tpot = found.total_s / yields + extra * batch / steps
    served = np.minimum(traffic.rate_per_s, batch / (steps * tpot))
    busy = np.minimum(served * extra, _BUSY)
    wait = 0.5 * found.total_s + 0.5 * busy / (1.0 - busy) * extra + _overload_s(traffic, found.total_s, extra, tpot)
    ttft = alone + wait + arrival_s(software, traffic.prompt)
    # A run that ends serves its last requests with an ever emptier engine.
    mean = 1.0 / (1.0 / served + 0.5 * steps * tpot / traffic.count)
    return SteadyState(tpot, ttft, np.where(served < 0.98 * traffic.rate_per_s, mean, served), batch, found, alone)


def _overload_s(traffic: ServingDemand, iteration: F, extra: F, tpot: F) -> F:
    """Wait of the middle request of a run whose arrivals outrun the engine.

    Until the engine is full, prompts are admitted as fast as they are computed beside the others' decoding; behind
    that, as fast as sequences end.
    """
    middle = np.where(np.isfinite(traffic.count), traffic.count / 2.0, 0.0)
    admitted = extra + iteration * traffic.prompt / _CHUNK
    full = np.minimum(middle, traffic.most)
    filling = full * np.maximum(admitted - 1.0 / traffic.rate_per_s, 0.0)
    each = np.maximum(traffic.steps * tpot / traffic.most - 1.0 / traffic.rate_per_s, 0.0)
    late: F = filling + (middle - full) * each
    return late
