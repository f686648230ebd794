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
    from railyard.workload.serving.software import ServingSoftwareColumns

# Exponent of the mean of two times that overlap.
_OVERLAP = 3.0
# One way between servers: NIC, switch, cable, and the message's progress on the host's or the device's proxy.
_SCALE_OUT_S = 12e-6
# Of a line's rate that payload can have: headers of packets and what acknowledges them.
LINE_SHARE = 0.95
# Bytes of an index key of sparse attention: 128 dimensions of 8 bits and a scale (DeepSeek-V3.2 report).
_INDEX_BYTES = 132.0
# Rows of a tile of a grouped product: DeepGEMM aligns groups to 128; kernels in 16 bits take 16 where an expert has few
# (vLLM's fused experts while there are no more tokens than experts).
_TILE, _TILE_16_BITS = 128.0, 16.0
# Accelerators of a server.
_SERVER = 8.0
# Expected largest of 1, 2, 4, ... 256 standard normal numbers.
_MAXIMA = (0.0, 0.564, 1.029, 1.424, 1.766, 2.070, 2.344, 2.594, 2.827)
# Each rank beyond two adds so much of an all-reduce's latency: flags of more peers to wait for.
_PEER_SHARE = 0.08


@dataclass(frozen=True, slots=True)
class IterationLoad:
    """What an iteration works on, whole replica: tokens, sequences that decode, their cached tokens, prompt pairs."""

    tokens: F
    sequences: F
    kv_tokens: F
    pairs: F


@dataclass(frozen=True, slots=True)
class IterationTimes:
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


def parts(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> IterationTimes:
    """Seconds of one iteration of the whole replica, by cause.

    With pipeline stages an iteration is what one micro-batch takes through all of them.

    Args:
        deployments: Rows.
        software: Rows as long.
        load: Rows as long.
    """
    shape, place = deployments.shape, deployments.place
    turns, own = _turns(deployments), _of_context_rank(deployments, load)
    each = IterationLoad(own.tokens / turns, own.sequences / turns, own.kv_tokens, own.pairs)
    matrices = turns * _matrices(deployments, software, each)
    experts = turns * _experts(deployments, software, each) * shape.moe_layers
    passes = _passes(deployments, software, own)
    # An index of keys has projections, a norm, rotary, a cast, logits and a choice of its own: as many kernels again.
    indexed = np.where(shape.sparse_keys > 0, 2.0, 1.0)
    kernels = shape.layers * (software.layer_s + software.latent_layer_s * shape.latent * indexed)
    kernels = turns * (kernels + shape.moe_layers * software.moe_layer_s)
    network = turns * _network(deployments, software, each)
    hidden = np.where(turns > 1, np.minimum(network, matrices + experts + passes + kernels), 0.0)
    return IterationTimes(
        matrices=matrices,
        experts=experts,
        cache=_cache(deployments, software, own),
        prompt=_prompt(deployments, software, own),
        passes=passes,
        kernels=kernels,
        network=network - hidden + _gather(deployments, software, load) + (place.pp - 1.0) * _SCALE_OUT_S,
        host=software.host_s + software.host_per_sequence_s * load.sequences / place.dp,
    )


def _of_context_rank(deployments: Deployments, load: IterationLoad) -> IterationLoad:
    """What one of the ranks that split every sequence works on: its share of the tokens, the cache and the pairs.

    The shares are taken from both ends of a prompt, so that all ranks have as many pairs (Llama 3 report, section 3.3).
    """
    cp = deployments.place.cp
    return IterationLoad(load.tokens / cp, load.sequences / cp, load.kv_tokens / cp, load.pairs / cp)


def _gather(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
    """Keys and values of the other context ranks, gathered in 16 bits before each layer's attention, not hidden."""
    place, device = deployments.place, deployments.device
    ranks = place.tp * place.cp
    rate = np.where(ranks > device.domain, device.scale_out_bytes_s, device.scale_up_bytes_s) * software.reduce_fraction
    size = load.tokens / place.dp * cache_bytes(deployments) * 16.0 / place.kv_bits
    latency = software.reduce_s + np.where(ranks > device.domain, _SCALE_OUT_S, 0.0)
    each = latency + (place.cp - 1.0) / place.cp * size / rate
    return np.where(place.cp > 1, deployments.shape.layers * each, 0.0)


def _turns(deployments: Deployments) -> F:
    """Halves of an iteration that take turns, so that the experts' exchange of one hides behind the other's work.

    Where experts lie beyond a scale-up domain engines do so, in prompts and in decoding (DeepSeek's profile of EP32 and
    EP128, SGLang's two-batch overlap); each half reads the weights it needs and launches its kernels. Attention hides
    some more of the exchange, which is left out: its time is not of the tokens alone.
    """
    place, device, shape = deployments.place, deployments.device, deployments.shape
    apart = (place.dp > 1) & (shape.moe_layers > 0) & (place.tp * place.dp > device.domain)
    return np.where(apart, 2.0, 1.0)


def _matrices(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
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


def busiest(experts: F, topk: F, tokens: F, ranks: F) -> F:
    """Experts that the tokens visit on the rank where they visit most, of `ranks` that share a layer's experts alike.

    Visits of different experts are nearly independent, so a rank's count has the variance n p (1 - p), and the largest
    of many stands so many of its standard deviations above the mean (expected maxima of normal samples, Harter 1961).
    """
    count = np.maximum(experts, 1.0) / ranks
    mean = touched(experts, topk, tokens) / ranks
    spread = np.sqrt(np.maximum(mean * (1.0 - mean / count), 0.0))
    above = np.interp(np.log2(ranks), np.arange(len(_MAXIMA)), _MAXIMA)
    most: F = np.minimum(mean + above * spread, np.minimum(count, np.maximum(tokens * topk, mean)))
    return most


def _experts(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
    """Routed experts of one layer on the busiest rank. Half of an expert's last tile of rows is empty, in the mean."""
    shape, place, device = deployments.shape, deployments.place, deployments.device
    each = shape.expert_parameters / place.expert_tp
    found = busiest(shape.experts, shape.topk, load.tokens, place.ep)
    read = found * each * place.expert_bits / 8.0
    skew = np.where(place.ep > 1, software.skew, 1.0)
    tile = np.where(place.expert_math == 16, _TILE_16_BITS, _TILE)
    padded = load.tokens * shape.topk / place.ep * skew + found * tile / 2.0
    flops = 2.0 * padded * each
    rate = math_rate(deployments, place.expert_math) * software.grouped_fraction
    return longer(read / (device.memory_bytes_s * software.expert_fraction), flops / rate)


def cache_bytes(deployments: Deployments) -> F:
    """Cached bytes of one token in one layer on one rank: heads are split as far as there are heads."""
    shape, place = deployments.shape, deployments.place
    share = np.where(shape.latent > 0, 1.0, np.maximum(1.0 / place.tp, 1.0 / np.maximum(shape.kv_heads, 1.0)))
    return shape.kv_elements * place.kv_bits / 8.0 * share


def _seen(deployments: Deployments, load: IterationLoad) -> F:
    """Cached tokens that all sequences of the replica read in a mean layer."""
    shape = deployments.shape
    near = np.minimum(load.kv_tokens, load.sequences * shape.window)
    picked = np.where(shape.sparse_keys > 0, load.sequences * shape.sparse_keys, np.inf)
    return shape.windowed * near + (1.0 - shape.windowed) * np.minimum(load.kv_tokens, picked)


def _cache(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
    """Attention of the sequences that decode."""
    shape, place, device = deployments.shape, deployments.place, deployments.device
    seen = _seen(deployments, load) / place.dp
    index = np.where(shape.sparse_keys > 0, load.kv_tokens / place.dp * _INDEX_BYTES, 0.0)
    memory = device.memory_bytes_s * software.kv_fraction
    flops = 2.0 * seen * shape.heads / place.tp * shape.decode_dim
    math = np.where(shape.latent > 0, flops / (device.flops16 * software.latent_fraction), 0.0)
    return shape.layers * (longer(seen * cache_bytes(deployments) / memory, math) + index / memory)


def _prompt(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
    """Attention of prompts: query and key pairs of all heads."""
    shape, place, device = deployments.shape, deployments.place, deployments.device
    flops = 2.0 * load.pairs / place.dp * shape.heads / place.tp * (shape.score_dim + shape.value_dim)
    return shape.layers * flops / (device.attention * software.attention_fraction)


def _passes(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
    """Norms, activations, rotary, casts: bytes of the residual."""
    shape, place, device = deployments.shape, deployments.place, deployments.device
    return shape.layers * load.tokens / place.dp * shape.hidden * software.pass_bytes / device.memory_bytes_s


def _network(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
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


def _exchange(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
    """Dispatch (a byte an element) and combine (two) of one layer's tokens.

    Within a server engines gather all tokens at every rank and scatter the sums, two bytes an element both ways (the
    default of vLLM, SGLang and TensorRT-LLM there). In wider replicas a token goes once to each other domain in which
    its experts lie, by the NICs, and from there once to each rank; routers that choose groups of experts first keep
    the domains few (DeepSeek-V3 report, node-limited routing).
    """
    shape, place, device = deployments.shape, deployments.place, deployments.device
    ranks = place.tp * place.dp
    domains = np.ceil(ranks / device.domain)
    gathered = ranks <= _SERVER
    copies = np.where(gathered, ranks, np.minimum(np.maximum(shape.topk, 1.0), ranks)) * (1.0 - 1.0 / ranks)
    abroad = np.minimum(np.minimum(shape.topk, shape.groups), domains) * (1.0 - 1.0 / domains)
    size = load.tokens / ranks * shape.hidden * np.where(gathered, 4.0, 3.0)
    far = size * abroad / (device.scale_out_bytes_s * np.minimum(software.exchange_fraction, LINE_SHARE))
    near = size * copies / (device.scale_up_bytes_s * software.exchange_fraction)
    latency = 2.0 * software.exchange_s + np.where(domains > 1, 2.0 * _SCALE_OUT_S, 0.0)
    return latency + np.maximum(far, near)
