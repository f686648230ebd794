"""Means of the loads that only measured rows have: open loops, units at a pace, disaggregated prefill.

They add to `railyard.work.serving.closed_loop`, the law that fits users' own rows. Each is a fixed point, found
by iteration over all rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.serving.closed_loop import (
    CHUNK,
    ROUNDS,
    ServingDemand,
    SteadyState,
    accepted,
    added_s,
    arrival_s,
    decode_parts,
    prompt_s,
    wave_s,
)
from railyard.work.serving.iteration import IterationLoad, parts

if TYPE_CHECKING:
    from railyard.model.machine import F
    from railyard.work.serving.layout import Deployments
    from railyard.work.serving.software import ServingSoftwareColumns

# Halvings that find a batch within a percent of a percent, of up to 10^6.
_HALVINGS = 24
# Prompts of an open loop never fill more of the time than this in the closed form of their queue.
_BUSY = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLoad(ServingDemand):
    """What a measured row asks of a deployment.

    Attributes:
        rate_per_s: Requests/s of an open loop; tokens/s of each user of a paced unit.
        count: Requests of an open loop's run.
    """

    rate_per_s: F
    count: F


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
    count = np.maximum(np.floor(CHUNK / fresh), 1.0) * deployments.layout.dp
    pairs = count * (deployments.model.causal_pairs(prompt) - deployments.model.causal_pairs(prompt * cached))
    found = parts(deployments, software, IterationLoad(count * fresh, count, np.zeros_like(prompt), pairs))
    hidden = np.where(deployments.layout.dp > 1, np.minimum(found.compute_s, found.network), 0.0)
    each: F = (found.total_s - hidden) / count
    return each


def decode_loop(deployments: Deployments, software: ServingSoftwareColumns, traffic: ServingLoad) -> SteadyState:
    """A replica that decodes only and gets its prompts' caches from elsewhere, as full as users or memory make it."""
    batch = np.minimum(traffic.users, traffic.most)
    found = decode_parts(deployments, software, batch, traffic)
    tpot = found.total_s / accepted(software, traffic)
    return SteadyState(tpot, np.zeros_like(tpot), batch / (traffic.steps * tpot), batch, found, np.zeros_like(tpot))


def paced_loop(deployments: Deployments, software: ServingSoftwareColumns, traffic: ServingLoad) -> SteadyState:
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
    traffic: ServingLoad,
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
    for _ in range(ROUNDS):
        batch = 0.5 * batch + 0.5 * np.minimum(rate * steps * tpot / workers[0], most)
        found = decode_parts(behind, software, batch, traffic)
        tpot = found.total_s / yields
        rate = np.minimum(np.minimum(users / (steps * tpot + alone), capacity), most * workers[0] / (steps * tpot))
    needed = np.where(workers[1] > 0, workers[1], np.ceil(rate * each))
    wait = wave_s(users, each / needed, steps * tpot, software.split_wave_share)
    ttft = np.maximum(users / rate - steps * tpot, alone + wait) + arrival_s(software, traffic.prompt)
    return SteadyState(tpot, ttft + software.handover_s, rate, batch, found, alone)


def open_loop(deployments: Deployments, software: ServingSoftwareColumns, traffic: ServingLoad) -> SteadyState:
    """The steady state under Poisson arrivals at one replica; an overload holds as many sequences as there is room."""
    one = np.ones_like(traffic.rate_per_s)
    steps, yields = traffic.steps, accepted(software, traffic)
    alone = prompt_s(deployments, software, traffic.prompt, one)
    found, batch = decode_parts(deployments, software, one, traffic), one
    tpot, extra = found.total_s / yields, alone
    for _ in range(4 * ROUNDS):
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


def _overload_s(traffic: ServingLoad, iteration: F, extra: F, tpot: F) -> F:
    """Wait of the middle request of a run whose arrivals outrun the engine.

    Until the engine is full, prompts are admitted as fast as they are computed beside the others' decoding; behind
    that, as fast as sequences end.
    """
    middle = np.where(np.isfinite(traffic.count), traffic.count / 2.0, 0.0)
    admitted = extra + iteration * traffic.prompt / CHUNK
    full = np.minimum(middle, traffic.most)
    filling = full * np.maximum(admitted - 1.0 / traffic.rate_per_s, 0.0)
    each = np.maximum(traffic.steps * tpot / traffic.most - 1.0 / traffic.rate_per_s, 0.0)
    late: F = filling + (middle - full) * each
    return late
