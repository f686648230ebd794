"""Time of one iteration of a replica: a forward pass over the tokens of the batch, prompts and decoding alike.

    T = host + host_per_sequence * sequences + sum over layers of (matrices + cache + passes + kernels + collectives)

A matrix product takes the longer of its weights through memory and its FLOPs (their third-power mean: they overlap, and
not wholly where they are alike). Of E routed experts a batch of m tokens touches E (1 - (1 - k/E)^m), so small batches
read few of them. Decoding reads the cache of every sequence; prompts compute their query and key pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.model.architecture import busiest

if TYPE_CHECKING:
    from railyard.model.architecture import ModelColumns
    from railyard.model.machine import F
    from railyard.work.serving.layout import Deployments
    from railyard.work.serving.software import ServingSoftwareColumns

# Exponent of the mean of two times that overlap.
_OVERLAP = 3.0
# From one server to another: NIC, switch, cable, and the message's progress on the host's or the device's proxy.
_SCALE_OUT_S = 12e-6
# Of a line's rate that payload can have: headers of packets and what acknowledges them.
LINE_SHARE = 0.95
# Bytes of an index key of sparse attention: 128 dimensions of 8 bits and a scale (DeepSeek-V3.2 report).
_INDEX_BYTES = 132.0
# Of an element of a recurrence's state, which engines keep in 32 bits (`mamba_ssm_dtype`, `mamba_ssm_cache_dtype`).
_STATE_BYTES = 4.0
# Bytes that a token's copy for one expert moves for each element of its input, and of a rank's part of its intermediate
# row, beside what the product itself reads: gathered and quantised (3), the product written and added up (4 to 6); the
# gated row of twice the width written, read, multiplied and quantised (10).
_COPY_BYTES, _ROW_BYTES = 8.0, 10.0
# Accelerators of a server.
_SERVER = 8.0
# Products of few tokens, all-reduces: as measured kernel by kernel on H100, H200 and B200 with TensorRT-LLM 1.2 to 1.3,
# vLLM 0.14 to 0.24 and SGLang 0.5 (ai-dynamo/aiconfigurator, `systems/data`, Apache-2.0).
# Of the memory rate that weights of 16 bits reach, what NVFP4 does, as many tiles read fewer bytes: 0.42 to 0.55 of the
# peak where 16 bits reach 0.73 to 0.80.
_NARROW_4 = 0.6
# A product quantises activations to four bits in a kernel of its own, 2 to 6 us; of a layer's four products the two
# behind a norm need none, as the norm does it.
_QUANTIZE_S, _QUANTIZED = 3e-6, 2.0
# Four-bit matrix units come with one kernel for all of an experts' layer (TensorRT-LLM's, which FlashInfer gives to the
# others): 15 to 20 us where several take 30 to 50.
_FUSED_LAUNCH = 0.4
# Of the share of its rate that a grouped product in 16 bits reaches, what narrower ones do: 8 bits in blocks 0.18 to
# 0.31 where 16 bits reach 0.4 to 0.55, 4 bits 0.34 to 0.43.
_GROUPED_8, _GROUPED_4 = 0.6, 0.85
# Each rank beyond two adds so much of an all-reduce's latency: flags of more peers to wait for.
_PEER_SHARE = 0.03
# Small all-reduces read the whole message of every peer in one shot; larger ones take two, and this is what the second
# costs.
_SECOND_SHOT_S = 20e-6


@dataclass(frozen=True, slots=True)
class IterationLoad:
    """What an iteration works on.

    Attributes:
        tokens, sequences, kv_tokens, pairs: Whole replica: tokens, sequences that decode, their cached tokens, and
            query and key pairs of prompts.
        copy_tokens, copy_pairs: Of the copy of attention that has most of them, for which the others wait; None where
            all have alike.
        queries: Of each sequence that decodes: its own token, and guesses that are checked with it.
    """

    tokens: F
    sequences: F
    kv_tokens: F
    pairs: F
    copy_tokens: F | None = None
    copy_pairs: F | None = None
    queries: F | float = 1.0

    def over(self, turns: F, ranks: F) -> IterationLoad:
        """What is left of it for one of so many turns, on one of so many ranks that split every sequence."""
        parted = turns * ranks
        return IterationLoad(
            self.tokens / parted,
            self.sequences / parted,
            self.kv_tokens / ranks,
            self.pairs / ranks,
            None if self.copy_tokens is None else self.copy_tokens / parted,
            None if self.copy_pairs is None else self.copy_pairs / ranks,
            self.queries,
        )

    def most_tokens(self, copies: F) -> F:
        """Tokens of the copy of attention that has most."""
        return self.tokens / copies if self.copy_tokens is None else self.copy_tokens

    def most_pairs(self, copies: F) -> F:
        """Pairs of the copy of attention that has most."""
        return self.pairs / copies if self.copy_pairs is None else self.copy_pairs


def prompts_on_copies(model: ModelColumns, count: F, tokens: F, copies: F, decoding: F | float = 0.0) -> dict[str, F]:
    """`copy_tokens` and `copy_pairs` of an iteration with whole prompts: no copy of attention splits one with another.

    Args:
        model: Rows.
        count: Prompts.
        tokens: Of each.
        copies: Of attention.
        decoding: Tokens of sequences that decode, spread alike.
    """
    most = np.ceil(count / copies)
    return {"copy_tokens": decoding / copies + most * tokens, "copy_pairs": most * model.causal_pairs(tokens)}


@dataclass(frozen=True, slots=True)
class IterationTimes:
    """Seconds of one iteration by cause.

    Attributes:
        matrices, experts, cache, prompt, passes, kernels: On the device.
        network: Collectives that nothing hides.
        host: Between iterations.
        hidden: Collectives behind the work of the other half of a batch; not in the iteration's time.
    """

    matrices: F
    experts: F
    cache: F
    prompt: F
    passes: F
    kernels: F
    network: F
    host: F
    hidden: F

    @property
    def compute_s(self) -> F:
        """All but the collectives and the host."""
        return self.matrices + self.experts + self.cache + self.prompt + self.passes + self.kernels

    @property
    def total_s(self) -> F:
        """The iteration."""
        return self.compute_s + self.network + self.host


def longer(one: F, other: F | float) -> F:
    """The longer of two times that overlap, more where they are alike."""
    mean: F = (one**_OVERLAP + other**_OVERLAP) ** (1.0 / _OVERLAP)
    return mean


def parts(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> IterationTimes:
    """Seconds of one iteration of the whole replica, by cause.

    With pipeline stages an iteration is what one micro-batch takes through all of them.

    Args:
        deployments: Rows.
        software: Rows as long.
        load: Rows as long.
    """
    model, layout = deployments.model, deployments.layout
    turns = _turns(deployments)
    # A context rank's shares are taken from both ends of a prompt: all have as many pairs (Llama 3 report, 3.3).
    share, each = load.over(np.ones_like(turns), layout.cp), load.over(turns, layout.cp)
    matrices = turns * _matrices(deployments, software, each)
    experts = turns * _experts(deployments, software, each) * model.moe_layers
    passes = _passes(deployments, software, share)
    # An index of keys has projections, a norm, rotary, a cast, logits and a choice of its own.
    indexed = model.indexed * software.index_layer_s
    latent = software.latent_layer_s * model.latent
    kernels = model.whole_layers * software.layer_s + model.layers * (latent + indexed) * model.cored
    fused = np.where(layout.expert_math == 4, _FUSED_LAUNCH, 1.0)
    kernels = turns * (kernels + model.moe_layers * software.moe_layer_s * fused)
    network = turns * _network(deployments, software, each)
    hidden = np.where(turns > 1, np.minimum(network, matrices + experts + passes + kernels), 0.0)
    found = IterationTimes(
        matrices=matrices,
        experts=experts,
        cache=_cache(deployments, software, share),
        prompt=_prompt(deployments, software, share),
        passes=passes,
        kernels=kernels,
        network=network - hidden + _gather(deployments, software, load) + _handed_on(deployments),
        host=software.host_s + software.host_per_sequence_s * load.sequences / layout.dp,
        hidden=hidden,
    )
    late = late_s(found.compute_s + found.network, launches_s(deployments, software))
    return replace(found, host=found.host + np.where(load.pairs > 0, late, 0.0))


def _handed_on(deployments: Deployments) -> F:
    """Activations from stage to stage of a pipeline; what crosses between domains is small next to its latency."""
    layout, machine = deployments.layout, deployments.machine
    far = layout.ranks * layout.pp * layout.cp > machine.domain
    return (layout.pp - 1.0) * _SCALE_OUT_S * np.where(far, machine.crossing, 1.0)


def launches_s(deployments: Deployments, software: ServingSoftwareColumns) -> F:
    """What the host takes to launch the kernels of an iteration with prompts one by one: no graph holds for it."""
    model = deployments.model
    latent = model.layers * software.prompt_latent_s * model.latent
    seconds: F = model.whole_layers * software.prompt_layer_s + latent
    return seconds


def late_s(device_s: F, launches: F | float) -> F:
    """What an iteration takes longer than its kernels and collectives because of their launches.

    The host runs ahead of the device, so the longer of both counts; all that decode in the same iteration wait for it.
    """
    return longer(device_s, launches) - device_s


def _gather(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
    """Keys and values of the other context ranks, gathered in 16 bits before each layer's attention, not hidden."""
    layout, machine = deployments.layout, deployments.machine
    ranks = layout.tp * layout.cp
    rate = np.where(ranks > machine.domain, machine.out_bytes_s, machine.up_bytes_s) * software.reduce_fraction
    size = load.tokens / layout.dp * cache_bytes(deployments) * 16.0 / layout.kv_bits
    latency = software.reduce_s + np.where(ranks > machine.domain, _SCALE_OUT_S * machine.crossing, 0.0)
    each = latency + (layout.cp - 1.0) / layout.cp * size / rate
    return np.where(layout.cp > 1, deployments.model.layers * each, 0.0)


def _turns(deployments: Deployments) -> F:
    """Halves of an iteration that take turns, so that the experts' exchange of one hides behind the other's work.

    Where experts lie beyond a scale-up domain engines do so, in prompts and in decoding (DeepSeek's profile of EP32 and
    EP128, SGLang's two-batch overlap); each half reads the weights it needs and launches its kernels. Attention hides
    some more of the exchange, which is left out: its time is not of the tokens alone.
    """
    layout, machine, model = deployments.layout, deployments.machine, deployments.model
    apart = (layout.dp > 1) & (model.moe_layers > 0) & (layout.ranks > machine.domain)
    return np.where(apart, 2.0, 1.0)


def _matrices(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
    """Dense matrices of all layers and the output projection, on one rank."""
    model, layout, device = deployments.model, deployments.layout, deployments.device
    dense_layers = model.layers - model.moe_layers
    split = model.layers * model.attention_parameters + model.moe_layers * model.shared_parameters
    weights = (split + dense_layers * model.mlp_parameters) / layout.tp + model.moe_layers * model.router_parameters
    memory = device.hbm_bytes_s * software.weights_fraction
    narrow = np.where(
        layout.dense_math == 4, _NARROW_4, np.where(layout.dense_math == 8, software.narrow_fraction, 1.0)
    )
    tokens = load.most_tokens(layout.dp)
    rate = device.best_flops_s(layout.dense_math) * software.gemm_fraction
    layers = longer(weights * layout.dense_bits / 8.0 / (memory * narrow), 2.0 * weights * tokens / rate)
    head = model.head_bytes / layout.tp
    rows = load.sequences * load.queries / layout.dp
    logits = longer(head / memory, head * rows / (device.gemm16 * software.gemm_fraction))
    return layers + logits + np.where(layout.dense_math == 4, model.layers * _QUANTIZED * _QUANTIZE_S, 0.0)


def _experts(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
    """Routed experts of one layer on the busiest rank.

    Each product loses the time of some rows: tiles are not full, and its pipeline fills and drains.
    """
    model, layout, device = deployments.model, deployments.layout, deployments.device
    each = model.expert_parameters / layout.expert_tp
    found = busiest(model.experts, model.topk, load.tokens, layout.ep)
    read = found * each * layout.expert_bits / 8.0
    skew = np.where(layout.ep > 1, software.skew, 1.0)
    padded = load.tokens * model.topk / layout.ep * skew + found * software.expert_rows
    flops = 2.0 * padded * each
    rate = device.best_flops_s(layout.expert_math) * software.grouped_fraction
    rate = rate * np.where(layout.expert_math == 4, _GROUPED_4, np.where(layout.expert_math == 8, _GROUPED_8, 1.0))
    return longer(read / (device.hbm_bytes_s * software.expert_fraction), flops / rate)


def cache_bytes(deployments: Deployments) -> F:
    """Cached bytes of one token in one layer on one rank: heads are split as far as there are heads."""
    model, layout = deployments.model, deployments.layout
    share = np.where(model.latent > 0, 1.0, np.maximum(1.0 / layout.tp, 1.0 / np.maximum(model.kv_heads, 1.0)))
    return model.kv_elements * layout.kv_bits / 8.0 * share


def _seen(deployments: Deployments, load: IterationLoad) -> F:
    """Cached tokens that all sequences of the replica read in a mean layer."""
    model = deployments.model
    near = np.minimum(load.kv_tokens, load.sequences * model.window)
    picked = np.minimum(load.kv_tokens, load.sequences * model.sparse_keys)
    far = load.kv_tokens + model.picking * (picked - load.kv_tokens)
    return model.windowed_cache * near + (1.0 - model.windowed_cache) * far


def state_bytes(deployments: Deployments) -> F:
    """Bytes that recurrences keep of one sequence in a mean layer on one rank: states in 32 bits, convolutions in 16.

    Heads are split over the tensor-parallel ranks.
    """
    model = deployments.model
    size: F = (_STATE_BYTES * model.state_elements + 2.0 * model.conv_elements) / deployments.layout.tp
    return size


def _cache(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
    """Attention of the sequences that decode; states of recurrences are read and written, whatever the context."""
    model, layout, device = deployments.model, deployments.layout, deployments.device
    seen = _seen(deployments, load) / layout.dp
    index = model.indexed * model.cored * load.kv_tokens / layout.dp * _INDEX_BYTES
    memory = device.hbm_bytes_s * software.kv_fraction
    flops = 2.0 * seen * load.queries * model.cored * model.heads / layout.tp * model.decode_dim
    states = 2.0 * load.sequences / layout.dp * state_bytes(deployments)
    math = np.where(model.latent > 0, flops / (device.gemm16 * software.latent_fraction), 0.0)
    return model.layers * (longer(seen * cache_bytes(deployments) / memory, math) + (index + states) / memory)


def _prompt(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
    """Attention of prompts: query and key pairs of all heads, and scans of recurrences at the same rate."""
    model, layout, device = deployments.model, deployments.layout, deployments.device
    flops = model.core_flops(load.most_pairs(layout.dp) * model.heads / layout.tp)
    scans = model.scan_flops * (load.tokens - load.sequences) / layout.dp / layout.tp
    return model.layers * (model.cored * flops + scans) / (device.attention * software.attention_fraction)


def _passes(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
    """Norms, activations, rotary, casts: bytes of the residual, and of a token's copies for its experts."""
    model, layout, device = deployments.model, deployments.layout, deployments.device
    each = model.whole_layers * load.most_tokens(layout.dp) * model.hidden * software.pass_bytes
    row = _COPY_BYTES * model.expert_dim + _ROW_BYTES * model.moe_ffn / layout.expert_tp
    copies = model.moe_layers * load.tokens * model.topk / layout.ep * row
    return (each + copies) / device.hbm_bytes_s


def _network(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
    """All-reduces of tensor parallelism, dispatch and combine of experts."""
    model, layout, machine = deployments.model, deployments.layout, deployments.machine
    apart = (layout.dp > 1) & (model.moe_layers > 0)
    both = model.mixers * model.layers + model.feeds
    reduces = np.where(apart, both - model.moe_layers, both)
    size = load.most_tokens(layout.dp) * model.hidden * 2.0
    far = np.ceil(layout.tp / machine.domain)
    latency = software.reduce_s * (1.0 + _PEER_SHARE * (np.minimum(layout.tp, machine.domain) - 2.0))
    latency = latency + 2.0 * _SCALE_OUT_S * machine.crossing * (far - 1.0)
    slowest = np.where(far > 1, np.minimum(machine.up_bytes_s, machine.out_bytes_s * machine.domain), 1.0)
    rate = np.where(far > 1, slowest, machine.up_bytes_s) * software.reduce_fraction
    shots = _SECOND_SHOT_S + 2.0 * (layout.tp - 1.0) / layout.tp * size / rate
    carried = np.where(far > 1, shots, np.minimum(shots, (layout.tp - 1.0) * size / rate))
    reduce = np.where(layout.tp > 1, reduces * (latency + carried), 0.0)
    return reduce + np.where(apart, model.moe_layers * _exchange(deployments, software, load), 0.0)


def _exchange(deployments: Deployments, software: ServingSoftwareColumns, load: IterationLoad) -> F:
    """Dispatch (a byte an element) and combine (two) of one layer's tokens.

    Within a server engines gather all tokens at every rank and scatter the sums, two bytes an element both ways (the
    default of vLLM, SGLang and TensorRT-LLM there). In wider replicas a token goes once to each other domain in which
    its experts lie, by the NICs, and from there once to each rank; routers that choose groups of experts first keep
    the domains few (DeepSeek-V3 report, node-limited routing).
    """
    model, layout, machine = deployments.model, deployments.layout, deployments.machine
    ranks = layout.ranks
    domains = np.ceil(ranks / machine.domain)
    gathered = ranks <= _SERVER
    copies = np.where(gathered, ranks, np.minimum(np.maximum(model.topk, 1.0), ranks)) * (1.0 - 1.0 / ranks)
    abroad = np.minimum(np.minimum(model.topk, model.groups), domains) * (1.0 - 1.0 / domains)
    size = load.tokens / ranks * model.expert_dim * np.where(gathered, 4.0, 3.0)
    far = size * abroad / (machine.out_bytes_s * np.minimum(software.exchange_fraction, LINE_SHARE))
    near = size * copies / (machine.up_bytes_s * software.exchange_fraction)
    latency = 2.0 * software.exchange_s + np.where(domains > 1, 2.0 * _SCALE_OUT_S * machine.crossing, 0.0)
    return latency + np.maximum(far, near)
