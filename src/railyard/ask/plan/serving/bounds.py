"""Closed forms that no deployment can beat: seconds of work that the requests are, and dollars of an hour.

    replicas >= work / time,     work = tokens x (least time of a token in any batch) + pairs x (time of a pair)

The least time of a decoded token is that of the fullest batch that the cache holds. The dollars of an hour are capital,
space, operations, and the energy of devices that only wait.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.engine.stages import Batched
from railyard.work.pipeline.model_stage import Answer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.engine.serving import Pool
    from railyard.graph.request_table import RequestTable
    from railyard.work.pipeline.built import Built

_SLACK = 0.9
"""Of the bound that is used: a trial is finite, and what is late at its end still ends."""


def least_replicas(built: Built, requests: RequestTable) -> tuple[int, ...]:
    """Fewer replicas of each pool than these cannot keep up with the requests; () where nothing is counted.

    Args:
        built: With one replica of each pool.
        requests: Those that take it.
    """
    stage, span_s = built.stage, max(requests.duration_s, 1e-9)
    if isinstance(stage, Batched):
        tokens = requests.input_tokens if stage.tokens is None else np.full(len(requests), stage.tokens)
        work = stage.items * _prompts_s(stage.deployment.pools[0], np.minimum(tokens, stage.most_tokens))
        return (_count(work / span_s),)
    if not isinstance(stage, Answer):
        return ()
    asked = stage.asked(requests)
    shared = asked.block_tokens > 0  # a prefix that is cached is no work: of prompts nothing is sure then
    by_role = {pool.role: pool for pool in stage.job.deployment.pools}
    if set(by_role) == {"both"}:
        pool = by_role["both"]
        prompts = 0.0 if shared else _prompts_s(pool, asked.input_tokens)
        return (_count((prompts + _answers_s(pool, asked)) / span_s),)
    if "both" in by_role:
        return (1, 1, 1)
    prompts = 0.0 if shared else _prompts_s(by_role["prefill"], asked.input_tokens)
    return _count(prompts / span_s), _count(_answers_s(by_role["decode"], asked) / span_s)


def _count(load: float) -> int:
    return max(math.ceil(_SLACK * load), 1)


def _prompts_s(pool: Pool, tokens: NDArray[np.integer[Any]]) -> float:
    cost = pool.cost
    rows = np.asarray(cost.tokens) > 0
    each = ((cost.compute_s + cost.network_s)[rows] / np.asarray(cost.tokens)[rows]).min()
    count = tokens.astype(np.float64)
    return float((count * each + cost.attention_per_pair_s * count * (count + 1) / 2).sum())


def _answers_s(pool: Pool, requests: RequestTable) -> float:
    cost = pool.cost
    context = float(requests.input_tokens.mean() + requests.output_tokens.mean() / 2)
    sequences = max(pool.kv_blocks * pool.block_tokens / max(context, 1.0), 1.0)
    batch = np.arange(1, max(int(min(pool.max_sequences, sequences)), 1) + 1, dtype=np.float64)
    guesses = pool.speculative.draft_tokens if pool.speculative else 0
    tokens = batch * (1 + guesses)
    seconds = cost.host_s + np.interp(tokens, cost.tokens, cost.compute_s + cost.network_s)
    seconds = seconds + batch * (cost.attention_per_sequence_s + context * cost.attention_per_kv_token_s)
    yields = 1.0
    if pool.speculative:
        share = min(pool.speculative.acceptance, 1 - 1e-12)
        yields = (1 - share ** (guesses + 1)) / (1 - share)
    return float((seconds / batch).min() / yields * (requests.output_tokens - 1.0).sum())
