"""What a replica holds: weights, cache, workspace; how many cached tokens fit, and layouts that do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.serving.iteration import cache_bytes, state_bytes

if TYPE_CHECKING:
    from railyard.model.machine import F
    from railyard.work.serving.layout import Deployments


IDLE, BUSY, MEMORY, MATH = 0.20, 0.33, 0.14, 0.85
# Math share at which the square root of the law is replaced by a line: a busy replica's.
_USUAL_MATH = 0.15
# Wall power of a server over its accelerators' at full load: 8 B200 draw 1.30 kW each of 1.0 kW (MLPerf v5.1 power).
WALL = 1.30


def accelerator_w(limit_w: F, memory: F, math: F, busy: F) -> F:
    """Mean power of one accelerator.

    Args:
        limit_w: Its power limit.
        memory: Share of its peak memory rate while it computes.
        math: Share of its peak matrix rate while it computes.
        busy: Share of the time.
    """
    level = IDLE + busy * (BUSY + MEMORY * memory + MATH * np.sqrt(math))
    drawn: F = limit_w * np.minimum(level, 1.0)
    return drawn


def math_j(limit_w: F, active_parameters: F, flops_s: F) -> F:
    """Energy of the matrix units for one token, by the law at the math share of a usual replica.

    Args:
        limit_w: Power limit of an accelerator.
        active_parameters: That the token uses.
        flops_s: Peak rate of an accelerator.
    """
    drawn_w = _USUAL_MATH**0.5 / _USUAL_MATH * MATH * limit_w
    energy: F = drawn_w * 2.0 * active_parameters / flops_s
    return energy


# Of the device's memory that engines take (vLLM's gpu_memory_utilization; SGLang and TensorRT-LLM take as much).
MEMORY_SHARE = 0.9
# What an engine's profiling run finds beside weights and activations: libraries, their workspaces, attention's splits.
# vLLM 0.19 with 2,048 tokens: 1.15 GiB in all (Llama 3.1 8B, RTX 4090), 1.17 GiB (gpt-oss-20b, A100), 1.24 GiB
# (Gemma 4 26B, A100); docs/explanation/serving-runs.md.
_LIBRARIES_BYTES = 1.0e9
# The same of communicators, where a replica has several ranks: channels, all-reduce buffers.
_COMMUNICATORS_BYTES = 0.5e9
# Bytes of each logit of the sampler: 16 bits as they come, 32 as they are sampled.
_LOGIT_BYTES = 6.0
# Engines' own defaults: tokens and sequences of an iteration, on large devices and on those below `_LARGE_BYTES`.
_LARGE_BYTES = 70e9
_TOKENS, _SMALL_TOKENS = 8192.0, 2048.0
_SEQUENCES, _SMALL_SEQUENCES = 1024.0, 256.0
_GIB = float(1 << 30)


def weight_bytes(deployments: Deployments) -> F:
    """Weights of one rank, as they lie in its memory: with the scales and the padding of narrow ones."""
    model, layout = deployments.model, deployments.layout
    experts = model.total_parameters * model.expert_share
    tables = model.head_bytes * 2.0
    dense = np.maximum(model.total_parameters - experts - tables / 2.0, 0.0)
    routed = experts * layout.expert_padding * layout.expert_bits / 8.0 / (layout.expert_tp * layout.ep)
    return (dense * layout.dense_bits / 8.0 / layout.tp + routed + tables / layout.tp) / layout.pp


def token_bytes(deployments: Deployments) -> F:
    """Cached bytes of one token in all layers, once: what moving it between replicas carries."""
    model, layout = deployments.model, deployments.layout
    return model.kv_elements * layout.kv_bits / 8.0 * model.layers


def workspace_bytes(deployments: Deployments, tokens: F | float | None = None, most: F | float | None = None) -> F:
    """What one rank holds in addition to weights and cache, as the engine's profiling run finds it.

    That run computes the most tokens of an iteration at once, in which the widest layer holds its inputs, outputs and
    residual, and then samples the most sequences. CUDA graphs come on top of the engine's share (vLLM before 0.21).

    Args:
        deployments: Rows.
        tokens: Of an iteration at most; the engines' default for the device when None.
        most: Sequences at most; the same.
    """
    model, layout, large = deployments.model, deployments.layout, deployments.device.memory_bytes >= _LARGE_BYTES
    batched = np.where(large, _TOKENS, _SMALL_TOKENS) if tokens is None else tokens
    running = np.where(large, _SEQUENCES, _SMALL_SEQUENCES) if most is None else most
    # A gated layer has two intermediate rows and their product; expert and dense parameters are three matrices.
    wide = model.mlp_parameters / np.maximum(model.hidden, 1.0) / layout.tp
    routed = model.topk * (model.expert_parameters / np.maximum(model.hidden, 1.0) / layout.expert_tp + model.hidden)
    layer = 2.0 * batched * (np.maximum(wide, routed) + 2.0 * model.hidden)
    logits = _LOGIT_BYTES * running * model.head_bytes / (2.0 * model.hidden)
    peers = np.where(layout.tp * layout.dp * layout.pp > 1, _COMMUNICATORS_BYTES, 0.0)
    return _LIBRARIES_BYTES + peers + np.maximum(layer, logits)


def cache_tokens(
    deployments: Deployments,
    *,
    share: float = MEMORY_SHARE,
    tokens: F | float | None = None,
    most: F | float | None = None,
) -> F:
    """Cached tokens of full-attention layers that a replica can hold, 0 when the weights alone do not fit.

    Args:
        deployments: Rows.
        share: Of the device's memory that the engine takes.
        tokens: Of an iteration at most; the engines' default when None.
        most: Sequences at most; the same.
    """
    used = weight_bytes(deployments) + workspace_bytes(deployments, tokens, most)
    free = deployments.device.memory_bytes * share - used
    return np.maximum(free, 0.0) / _token_bytes_of_rank(deployments) * deployments.layout.dp


def state_tokens(deployments: Deployments) -> F:
    """Cached tokens in whose room the states of one sequence lie: `cache_tokens` must hold both; 0 without recurrences.

    A sequence has its states, of its convolutions too, from its admission to its end, however long it is.
    """
    states = state_bytes(deployments) * deployments.model.layers / deployments.layout.pp
    return states / _token_bytes_of_rank(deployments)


def _token_bytes_of_rank(deployments: Deployments) -> F:
    """Cached bytes of one token on one rank; at least one, so that a model without attention has room for states."""
    model = deployments.model
    each = cache_bytes(deployments) * model.layers * (1.0 - model.windowed_cache) / deployments.layout.pp
    return np.maximum(each, 1.0)


def tokens_left(deployments: Deployments, capacity: float, held_bytes: float, layers: int) -> float:
    """Cached tokens that are left of a replica's when its ranks hold more than the model.

    Args:
        deployments: One row.
        capacity: Cached tokens without it.
        held_bytes: Bytes that each rank keeps in addition.
        layers: By which the cache is deeper: each keeps as much of a token as the model's mean layer.
    """
    layout = deployments.layout
    lost = held_bytes / _token_bytes_of_rank(deployments) * layout.dp * layout.cp
    return float(np.maximum(capacity - lost, 0.0)[0] / (1.0 + layers / deployments.model.layers[0]))


@dataclass(frozen=True)
class CacheRoom:
    """How the memory of a replica is divided between tokens and the states of sequences.

    Attributes:
        tokens: Cached tokens that fit next to the states of that many sequences.
    """

    tokens: float
    sequences: int


def divide(capacity: float, state: float, lengths: F, *, context: float, most: int) -> CacheRoom:
    """Divides a replica's memory, so that tokens x their bytes + sequences x their states' bytes fit.

    Engines reserve states next to the cache (SGLang, `max_mamba_cache_size`) or take both from one pool (vLLM's hybrid
    cache manager). The division here is the one that a common pool has at the mean: as many sequences as fit with
    `context` tokens each. Of the requests that fit at all, the longest still does.

    Args:
        capacity: Cached tokens that fit without any state.
        state: Cached tokens in whose room the states of one sequence lie.
        lengths: Tokens of each request, prompt and answer.
        context: Cached tokens of a sequence that runs, in the mean.
        most: Sequences at most, as the engine is set.
    """
    if state <= 0.0:
        return CacheRoom(capacity, most)
    fitting = lengths[lengths + state <= capacity]
    longest = float(fitting.max()) if len(fitting) else 0.0
    bound = min(capacity / (state + max(context, 1.0)), (capacity - longest) / state)
    running = min(most, max(int(bound), 1))
    return CacheRoom(max(capacity - running * state, 0.0), running)


def sequences(deployments: Deployments, context: F, limit: F | float = np.inf) -> F:
    """Sequences of that mean length that a replica can hold, at most `limit`.

    A replica that is known to run although its weights leave no room here is one whose engine takes more memory than
    usual, or whose label is wrong; then nothing is known but the limit.
    """
    fitting = np.floor(cache_tokens(deployments) / np.maximum(context + state_tokens(deployments), 1.0))
    return np.minimum(np.where(fitting < 1.0, np.inf, fitting), limit)


def rank_table(deployments: Deployments, context: int = 0) -> str:
    """What one rank of a replica needs and has, in words.

    Args:
        deployments: One row.
        context: Tokens of one sequence whose cache is shown; 0 for none.
    """
    model, layout = deployments.model, deployments.layout
    usable = deployments.device.memory_bytes[0] * MEMORY_SHARE
    layers = model.layers / layout.pp
    cache = (context * cache_bytes(deployments) * layers / layout.cp)[0]
    states = (state_bytes(deployments) * layers)[0]
    return (
        f"of one rank: weights {weight_bytes(deployments)[0] / _GIB:.1f} GiB,"
        f" workspace {workspace_bytes(deployments)[0] / _GIB:.1f} GiB"
        + (f", cache of one sequence of {context} tokens {cache / _GIB:.2f} GiB" if context else "")
        + (f", states of one sequence {states / _GIB:.3f} GiB" if states else "")
        + f"; {usable / _GIB:.1f} GiB may be used"
    )
