"""What a replica holds: weights, cache, workspace; how many cached tokens fit, and layouts that do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.workload.serving.iteration import cache_bytes

if TYPE_CHECKING:
    from railyard.workload.serving.columns import Deployments, F

# Of the device's memory that engines take (vLLM's gpu_memory_utilization; SGLang and TensorRT-LLM take as much).
MEMORY_SHARE = 0.9
# Activations, CUDA graphs, collective buffers and the context of each rank, bytes.
WORKSPACE_BYTES = 4e9
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


def cache_tokens(deployments: Deployments) -> F:
    """Cached tokens of full-attention layers that a replica can hold, 0 when the weights alone do not fit."""
    shape, place, device = deployments.shape, deployments.place, deployments.device
    free = device.memory_bytes * MEMORY_SHARE - weight_bytes(deployments) - WORKSPACE_BYTES
    each = cache_bytes(deployments) * shape.layers * (1.0 - shape.windowed) / place.pp
    return np.maximum(free, 0.0) / np.maximum(each, 1.0) * place.dp


def sequences(deployments: Deployments, context: F, limit: F | float = np.inf) -> F:
    """Sequences of that mean length that a replica can hold, at most `limit`.

    A replica that is known to run although its weights leave no room here is one whose engine takes more memory than
    usual, or whose label is wrong; then nothing is known but the limit.
    """
    held = np.floor(cache_tokens(deployments) / np.maximum(context, 1.0))
    return np.minimum(np.where(held < 1.0, np.inf, held), limit)
