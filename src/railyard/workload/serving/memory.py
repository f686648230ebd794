"""What a replica holds: weights, cache, workspace; how many cached tokens fit, and layouts that do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.workload.serving.iteration import cache_bytes

if TYPE_CHECKING:
    from railyard.workload.serving.columns import Deployments, F

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
# Bytes of scales beside each narrow weight: one of 8 bits for each 16 (fp4), of 32 bits for each 128 x 128 (fp8).
_SCALES = 0.5


def weight_bytes(deployments: Deployments) -> F:
    """Weights of one rank."""
    shape, place = deployments.shape, deployments.place
    experts = shape.total_parameters * shape.expert_share
    tables = shape.head_bytes * 2.0
    dense = np.maximum(shape.total_parameters - experts - tables / 2.0, 0.0)
    narrow = np.where(place.expert_bits == 4, _SCALES / 8.0, 0.0)
    routed = experts * (place.expert_bits / 8.0 + narrow) / (place.expert_tp * place.ep)
    return (dense * place.dense_bits / 8.0 / place.tp + routed + tables / place.tp) / place.pp


def token_bytes(deployments: Deployments) -> F:
    """Cached bytes of one token in all layers, once: what moving it between replicas carries."""
    shape, place = deployments.shape, deployments.place
    return shape.kv_elements * place.kv_bits / 8.0 * shape.layers


def workspace_bytes(deployments: Deployments, tokens: F | float | None = None, most: F | float | None = None) -> F:
    """What one rank holds beside weights and cache, as the engine's profiling run finds it.

    That run computes the most tokens of an iteration at once, in which the widest layer holds its inputs, outputs and
    residual, and then samples the most sequences. CUDA graphs come on top of the engine's share (vLLM before 0.21).

    Args:
        deployments: Rows.
        tokens: Of an iteration at most; the engines' default for the device when None.
        most: Sequences at most; the same.
    """
    shape, place, large = deployments.shape, deployments.place, deployments.device.memory_bytes >= _LARGE_BYTES
    batched = np.where(large, _TOKENS, _SMALL_TOKENS) if tokens is None else tokens
    running = np.where(large, _SEQUENCES, _SMALL_SEQUENCES) if most is None else most
    # A gated layer has two intermediate rows and their product; expert and dense parameters are three matrices.
    wide = shape.mlp_parameters / np.maximum(shape.hidden, 1.0) / place.tp
    routed = shape.topk * (shape.expert_parameters / np.maximum(shape.hidden, 1.0) / place.expert_tp + shape.hidden)
    layer = 2.0 * batched * (np.maximum(wide, routed) + 2.0 * shape.hidden)
    logits = _LOGIT_BYTES * running * shape.head_bytes / (2.0 * shape.hidden)
    peers = np.where(place.tp * place.dp * place.pp > 1, _COMMUNICATORS_BYTES, 0.0)
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
    shape, place = deployments.shape, deployments.place
    held = weight_bytes(deployments) + workspace_bytes(deployments, tokens, most)
    free = deployments.device.memory_bytes * share - held
    each = cache_bytes(deployments) * shape.layers * (1.0 - shape.windowed) / place.pp
    return np.maximum(free, 0.0) / np.maximum(each, 1.0) * place.dp


def sequences(deployments: Deployments, context: F, limit: F | float = np.inf) -> F:
    """Sequences of that mean length that a replica can hold, at most `limit`.

    A replica that is known to run although its weights leave no room here is one whose engine takes more memory than
    usual, or whose label is wrong; then nothing is known but the limit.
    """
    held = np.floor(cache_tokens(deployments) / np.maximum(context, 1.0))
    return np.minimum(np.where(held < 1.0, np.inf, held), limit)
