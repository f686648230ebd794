"""Time of one iteration of a replica: a forward pass over the tokens of the batch, prompts and decoding alike.

    T = host + host_per_sequence * sequences + sum over layers of (matrices + cache + passes + kernels + collectives)

A matrix product takes the longer of its weights through memory and its FLOPs (their third-power mean: they overlap, and
not wholly where they are alike). Of E routed experts a batch of m tokens touches E (1 - (1 - k/E)^m), so small batches
read few of them. Decoding reads the cache of every sequence; prompts compute their query and key pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from railyard.workload.serving.columns import Deployments, F
    from railyard.workload.serving.software import SoftwareColumns

# Exponent of the mean of two times that overlap.
_OVERLAP = 3.0
# One way between servers: NIC, switch, cable, and the message's progress on the host's or the device's proxy.
_SCALE_OUT_S = 12e-6
# Bytes of an index key of sparse attention: 128 dimensions of 8 bits and a scale (DeepSeek-V3.2 report).
_INDEX_BYTES = 132.0
# Each rank beyond two adds so much of an all-reduce's latency: flags of more peers to wait for.
_PEER_SHARE = 0.08


@dataclass(frozen=True, slots=True)
class Load:
    """What an iteration works on, whole replica: tokens, sequences that decode, their cached tokens, prompt pairs."""

    tokens: F
    sequences: F
    kv_tokens: F
    pairs: F


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds of one iteration by cause.

    Attributes:
        matrices, experts, cache, prompt, passes, kernels: On the device.
        network: Collectives, which decoding does not hide.
        host: Between iterations.
    """

    matrices: F
    experts: F
    cache: F
    prompt: F
    passes: F
    kernels: F
    network: F
    host: F

    @property
    def compute_s(self) -> F:
        """All but the collectives and the host."""
        return self.matrices + self.experts + self.cache + self.prompt + self.passes + self.kernels

    @property
    def total_s(self) -> F:
        """The iteration."""
        return self.compute_s + self.network + self.host


def longer(one: F, other: F) -> F:
    """The longer of two times that overlap, more where they are alike."""
    mean: F = (one**_OVERLAP + other**_OVERLAP) ** (1.0 / _OVERLAP)
    return mean


def math_rate(deployments: Deployments, bits: F) -> F:
    """Best FLOP/s of a matrix product in that width."""
    device = deployments.device
    return np.where(bits == 16, device.flops16, np.where(bits == 8, device.flops8, device.flops4))


def parts(deployments: Deployments, software: SoftwareColumns, load: Load) -> Parts:
    """Seconds of one iteration of the whole replica, by cause.

    With pipeline stages an iteration is what one micro-batch takes through all of them.

    Args:
        deployments: Rows.
        software: Rows as long.
        load: Rows as long.
    """
    shape, place = deployments.shape, deployments.place
    layers = shape.layers
    return Parts(
        matrices=_matrices(deployments, software, load),
        experts=_experts(deployments, software, load) * shape.moe_layers,
        cache=_cache(deployments, software, load),
        prompt=_prompt(deployments, software, load),
        passes=_passes(deployments, software, load),
        kernels=layers * (software.layer_s + software.latent_layer_s * shape.latent)
        + shape.moe_layers * software.moe_layer_s,
        network=_network(deployments, software, load) + (place.pp - 1.0) * _SCALE_OUT_S,
        host=software.host_s + software.host_per_sequence_s * load.sequences / place.dp,
    )


def _matrices(deployments: Deployments, software: SoftwareColumns, load: Load) -> F:
    """Dense matrices of all layers and the output projection, on one rank."""
    shape, place, device = deployments.shape, deployments.place, deployments.device
    dense_layers = shape.layers - shape.moe_layers
    split = shape.layers * shape.attention_parameters + shape.moe_layers * shape.shared_parameters
    held = (split + dense_layers * shape.mlp_parameters) / place.tp + shape.moe_layers * shape.router_parameters
    memory = device.memory_bytes_s * software.weights_fraction
    tokens = load.tokens / place.dp
    rate = math_rate(deployments, place.dense_math) * software.gemm_fraction
    layers = longer(held * place.dense_bits / 8.0 / memory, 2.0 * held * tokens / rate)
    head = shape.head_bytes / place.tp
    logits = longer(head / memory, head * load.sequences / place.dp / (device.flops16 * software.gemm_fraction))
    return layers + logits


def touched(experts: F, topk: F, tokens: F) -> F:
    """Experts that at least one of the tokens visits, of a layer, when each visits `topk` of them alike."""
    count = np.maximum(experts, 1.0)
    return np.where(experts > 0, experts * -np.expm1(tokens * np.log1p(-np.minimum(topk / count, 1.0 - 1e-9))), 0.0)


def _experts(deployments: Deployments, software: SoftwareColumns, load: Load) -> F:
    """Routed experts of one layer on the busiest rank."""
    shape, place, device = deployments.shape, deployments.place, deployments.device
    each = shape.expert_parameters / place.expert_tp
    read = touched(shape.experts, shape.topk, load.tokens) / place.ep * each * place.expert_bits / 8.0
    skew = np.where(place.ep > 1, software.skew, 1.0)
    flops = 2.0 * load.tokens * shape.topk / place.ep * skew * each
    rate = math_rate(deployments, place.expert_math) * software.grouped_fraction
    return longer(read / (device.memory_bytes_s * software.expert_fraction), flops / rate)


def cache_bytes(deployments: Deployments) -> F:
    """Cached bytes of one token in one layer on one rank: heads are split as far as there are heads."""
    shape, place = deployments.shape, deployments.place
    share = np.where(shape.latent > 0, 1.0, np.maximum(1.0 / place.tp, 1.0 / np.maximum(shape.kv_heads, 1.0)))
    return shape.kv_elements * place.kv_bits / 8.0 * share


def _seen(deployments: Deployments, load: Load) -> F:
    """Cached tokens that all sequences of the replica read in a mean layer."""
    shape = deployments.shape
    near = np.minimum(load.kv_tokens, load.sequences * shape.window)
    picked = np.where(shape.sparse_keys > 0, load.sequences * shape.sparse_keys, np.inf)
    return shape.windowed * near + (1.0 - shape.windowed) * np.minimum(load.kv_tokens, picked)


def _cache(deployments: Deployments, software: SoftwareColumns, load: Load) -> F:
    """Attention of the sequences that decode."""
    shape, place, device = deployments.shape, deployments.place, deployments.device
    seen = _seen(deployments, load) / place.dp
    index = np.where(shape.sparse_keys > 0, load.kv_tokens / place.dp * _INDEX_BYTES, 0.0)
    memory = device.memory_bytes_s * software.kv_fraction
    flops = 2.0 * seen * shape.heads / place.tp * shape.decode_dim
    math = np.where(shape.latent > 0, flops / (device.attention * software.attention_fraction), 0.0)
    return shape.layers * (longer(seen * cache_bytes(deployments) / memory, math) + index / memory)


def _prompt(deployments: Deployments, software: SoftwareColumns, load: Load) -> F:
    """Attention of prompts: query and key pairs of all heads."""
    shape, place, device = deployments.shape, deployments.place, deployments.device
    flops = 2.0 * load.pairs / place.dp * shape.heads / place.tp * (shape.score_dim + shape.value_dim)
    return shape.layers * flops / (device.attention * software.attention_fraction)


def _passes(deployments: Deployments, software: SoftwareColumns, load: Load) -> F:
    """Norms, activations, rotary, casts: bytes of the residual."""
    shape, place, device = deployments.shape, deployments.place, deployments.device
    return shape.layers * load.tokens / place.dp * shape.hidden * software.pass_bytes / device.memory_bytes_s


def _network(deployments: Deployments, software: SoftwareColumns, load: Load) -> F:
    """All-reduces of tensor parallelism, dispatch and combine of experts."""
    shape, place, device = deployments.shape, deployments.place, deployments.device
    apart = (place.dp > 1) & (shape.moe_layers > 0)
    reduces = np.where(apart, 2.0 * shape.layers - shape.moe_layers, 2.0 * shape.layers)
    size = load.tokens / place.dp * shape.hidden * 2.0
    far = np.ceil(place.tp / device.domain)
    latency = software.reduce_s * (1.0 + _PEER_SHARE * (np.minimum(place.tp, device.domain) - 2.0))
    latency = latency + 2.0 * _SCALE_OUT_S * (far - 1.0)
    slowest = np.where(far > 1, np.minimum(device.scale_up_bytes_s, device.scale_out_bytes_s * device.domain), 1.0)
    rate = np.where(far > 1, slowest, device.scale_up_bytes_s) * software.reduce_fraction
    carried = 2.0 * (place.tp - 1.0) / place.tp * size / rate
    reduce = np.where(place.tp > 1, reduces * (latency + carried), 0.0)
    return reduce + np.where(apart, shape.moe_layers * _exchange(deployments, software, load), 0.0)


def _exchange(deployments: Deployments, software: SoftwareColumns, load: Load) -> F:
    """Dispatch (a byte an element) and combine (two) of one layer's tokens.

    A token goes once to each other domain in which its experts lie, by the NICs, and from there once to each rank;
    routers that choose groups of experts first keep the domains few (DeepSeek-V3 report, node-limited routing).
    """
    shape, place, device = deployments.shape, deployments.place, deployments.device
    ranks = place.tp * place.dp
    domains = np.ceil(ranks / device.domain)
    copies = np.minimum(np.maximum(shape.topk, 1.0), ranks) * (1.0 - 1.0 / ranks)
    abroad = np.minimum(np.minimum(shape.topk, shape.groups), domains) * (1.0 - 1.0 / domains)
    size = load.tokens / ranks * shape.hidden * 3.0
    far = size * abroad / device.scale_out_bytes_s
    near = size * copies / device.scale_up_bytes_s
    latency = 2.0 * software.exchange_s + np.where(domains > 1, 2.0 * _SCALE_OUT_S, 0.0)
    return latency + np.maximum(far, near) / software.exchange_fraction
