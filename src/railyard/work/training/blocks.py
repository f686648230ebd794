"""The operators of each part of a transformer: attention, dense MLP, experts, embedding, head.

Shapes are those of one rank: heads and feed-forward columns split over TP, the sequence over CP, experts over EP;
norms and residuals split over TP under sequence parallelism.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

import numpy as np

from railyard.work.training import lora
from railyard.work.training import operators as op
from railyard.work.training.operators import Operator, gemm_rate, gemm_s

if TYPE_CHECKING:
    from railyard.model.machine import F
    from railyard.work.training.columns import Columns


# From the end of one group's kernel to the next one's start on the same streams, seconds: fitted on those shapes.
_GROUP_S = 1e-6
# Calls beside each group's product in 8 or 4 bits: largest value, scale, casts by row and column, layout of the scales.
_NARROW_KERNELS = 6.0


def grouped(
    columns: Columns, name: str, m: F, k: F, n: F, *, groups: F, joined: Literal["input", "output"]
) -> Operator:
    """Products of `groups` times m tokens from k to n features: forward, gradient of the input, of the weight.

    Args:
        columns: The designs.
        name: Name of the operator.
        m: Tokens of each group.
        k: Input features.
        n: Output features.
        groups: Experts of the rank.
        joined: The side with the activation; with fused experts the previous kernel casts it.
    """
    software, width = columns.software, columns.job.bits
    share = np.where(width < 16, software.grouped_narrow, software.grouped_fraction)
    rate = gemm_rate(columns, width) * share
    used = np.where(m * k * n > 0, 1.0, 0.0)
    memory = columns.device.hbm_bytes_s * software.memory_fraction
    # One cast of all groups' operands together, forward and backward.
    cast = np.where(width < 16, software.cast_bytes, 0.0) * groups * m / memory * used
    kernels = np.where(software.grouped_kernel > 0, 1.0, groups) * used
    casts = np.where((width < 16) & (software.grouped_kernel == 0), _NARROW_KERNELS, 0.0) * kernels
    between = np.where(width < 16, software.narrow_group_s, _GROUP_S)
    two, grad = np.full_like(m, 2.0), 2.0 * software.gradient_bytes
    separate = np.where(software.fused_experts > 0, 0.0, 1.0)

    def product(rows: F, columns_: F, inner: F, out: F) -> F:
        tiles = gemm_s(columns, rows, columns_, inner, bits=width, out_bytes=0.0 * out, batch=groups, rate=rate)
        operands = groups * ((rows * inner + inner * columns_) * width / 8.0 + rows * columns_ * out)
        seconds: F = used * (tiles + operands / memory + kernels * between)
        return seconds

    return Operator(
        name,
        forward=product(m, n, k, two) + cast * k * (separate if joined == "input" else 1.0),
        backward_input=product(m, k, n, two) + cast * n * (separate if joined == "output" else 1.0),
        backward_weight=product(n, k, m, grad),
        flops=2.0 * m * k * n * groups,
        launches=kernels + casts,
        launches_backward=2.0 * kernels + casts,
    )


# Bytes per element of a pass over 16-bit data, (fused, one operation at a time), forward and backward.
_NORM = ((4.0, 20.0), (6.0, 30.0))
_GELU = ((4.0, 10.0), (6.0, 14.0))
_SWIGLU = ((6.0, 12.0), (10.0, 18.0))
_RESIDUAL = ((6.0, 13.0), (6.0, 10.0))
_ROTARY = ((4.0, 20.0), (4.0, 20.0))
# Logits are read three times in 16 bits by a fused cross-entropy, with their gradients written once; else the profile's
# bytes, of which this share goes forward.
_FUSED_LOSS = (6.0, 4.0)
_LOSS_FORWARD = 0.73
# Three passes over what a mixer's products make, 16 bits read and written; estimated, as are the kernels of its scan
# (Mamba-2's chunked form: states of chunks, their passing on, outputs, and cumulative sums).
_MIXED = (6.0, 12.0)
_SCAN_KERNELS = 5.0
# Kernels of the same passes, (fused, one operation at a time).
_KERNELS = {
    "norm": (1.0, 6.0),
    "activation": (1.0, 3.0),
    "residual": (1.0, 3.0),
    "rotary": (1.0, 8.0),
    "loss": (2.0, 10.0),
}
# Bytes per feature of a routed token, forward, and as many backward. The plain dispatcher permutes for the exchange,
# sorts by expert behind it, and takes both back; DeepEP and HybridEP have one permutation behind the exchange and one
# in front of the way back. Narrow products want multiples of 16 or 32 rows: tokens are copied into padded groups and
# out of them, unless their kernel pads by itself.
_PERMUTE_BYTES = (16.0, 8.0)
_PAD_BYTES = 8.0
_PERMUTE_KERNELS = 14.0
# Experts with biases and a clamped gate (GPT-OSS) leave Megatron-Core's fused kernels (core 0.14, `TEGroupedMLP` and
# `weighted_bias_quick_geglu_impl`): both halves of the gate are clamped and joined again, bytes per feed-forward
# element forward and backward; the second bias times the router's 32-bit weight is added expert by expert in 32 bits,
# and the parts are joined and rounded, bytes per feature of a routed token; its gradient goes to the bias and to the
# weight.
_CLAMP = (16.0, 28.0)
_CLAMP_KERNELS = 4.0
_BIAS = (28.0, 40.0)
_BIAS_KERNELS = 2.0
_BIAS_GRADIENT = 2.0
# Softmax, top-k, counts, auxiliary loss: small kernels on the tokens x experts scores in 32 bits.
_ROUTER_BYTES = 40.0
_ROUTER_KERNELS = 12.0


def attention_block(columns: Columns) -> list[Operator]:
    """Norm, projections, rotary positions, attention core, output projection, residual."""
    model, layout, software = columns.model, columns.layout, columns.software
    tokens, split = columns.tokens, columns.split_tokens
    heads = model.heads / layout.tp
    groups = np.maximum(model.kv_heads / layout.tp, 1.0)
    grouped = 1.0 - model.latent
    qkv = grouped * (heads + 2.0 * groups) * model.head_dim
    turned = np.where(model.latent > 0, heads * model.rope_dim + model.rope_dim, (heads + groups) * model.head_dim)
    rotary = tokens * turned * model.rotary
    latent = [operator.times(model.plain) for operator in _latent_projections(columns, tokens, heads)]
    norm = _pass(columns, "attention norm", split * model.hidden, _NORM, kernels="norm", fused=software.fused_norm)
    residual = _pass(
        columns,
        "attention residual",
        split * model.hidden,
        _RESIDUAL,
        kernels="residual",
        fused=software.fused_residual,
    )
    return [
        norm.times(model.mixers),
        op.linear(columns, "qkv", tokens, model.hidden, qkv).times(model.plain),
        *latent,
        _pass(columns, "rotary", rotary, _ROTARY, kernels="rotary", fused=software.fused_rope).times(model.plain),
        op.attention(columns).times(model.cored),
        op.linear(columns, "projection", tokens, heads * model.value_dim, model.hidden).times(model.plain),
        residual.times(model.mixers),
        *(_mixed(columns, tokens) if np.any(model.mixed_parameters > 0) else []),
        *lora.attention_adapters(columns),
    ]


def _mixed(columns: Columns, tokens: F) -> list[Operator]:
    """Mixers other than attention by the model's heads, estimated: products by their weights, passes, the scan.

    What the products make is convolved, gated and normalised: three passes over it. The scan in chunks is products of
    small matrices, at the rate of an attention core.
    """
    model, layout, software = columns.model, columns.layout, columns.software
    features = model.mixed_parameters / model.hidden / layout.tp
    made = tokens * features
    flops = tokens * model.scan_flops / layout.tp
    forward = flops / (columns.device.attention * software.attention_forward)
    back = 2.0 * flops / (columns.device.attention * software.attention_backward)
    one = np.where(flops > 0, 1.0, 0.0)
    scan = op.Operator("scan", forward, back, np.zeros_like(flops), flops, _SCAN_KERNELS * one, _SCAN_KERNELS * one)
    return [
        op.linear(columns, "mixer", tokens, model.hidden, features),
        op.stream(columns, "mixer passes", made * _MIXED[0], made * _MIXED[1], 3.0),
        dataclasses.replace(scan, core=True),
    ]


def _latent_projections(columns: Columns, tokens: F, heads: F) -> list[Operator]:
    """Low-rank projections of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434); down ones are not split."""
    model = columns.model
    queries = heads * model.score_dim * model.latent
    low = np.where(model.q_lora > 0, model.q_lora, model.hidden)
    # Queries and keys are put together from their rotary and other parts, and padded for the attention kernel.
    copied = tokens * heads * (2.0 * model.score_dim + model.value_dim) * model.latent
    return [
        op.linear(columns, "query down", tokens, model.hidden, model.q_lora),
        op.linear(columns, "query up", tokens, low, queries),
        op.linear(columns, "latent down", tokens, model.hidden, (model.kv_lora + model.rope_dim) * model.latent),
        op.linear(columns, "latent up", tokens, model.kv_lora, heads * (model.nope_dim + model.v_dim) * model.latent),
        op.stream(
            columns,
            "latent norms",
            tokens * (model.q_lora + model.kv_lora) * 4.0,
            tokens * (model.q_lora + model.kv_lora) * 6.0,
            2.0,
        ),
        op.stream(columns, "latent copies", copied * 4.0, copied * 4.0, 3.0),
    ]


def mlp_block(columns: Columns) -> list[Operator]:
    """Norm, up projection, activation, down projection, residual of a dense layer."""
    model, layout, software = columns.model, columns.layout, columns.software
    split = columns.split_tokens * model.hidden
    return [
        _pass(columns, "mlp norm", split, _NORM, kernels="norm", fused=software.fused_norm),
        *_mlp(columns, "mlp", columns.tokens, model.ffn / layout.tp),
        _pass(columns, "mlp residual", split, _RESIDUAL, kernels="residual", fused=software.fused_residual),
    ]


def _mlp(columns: Columns, name: str, tokens: F, width: F) -> list[Operator]:
    model = columns.model
    return [
        op.linear(columns, f"{name} up", tokens, model.hidden, width * (1.0 + model.gated)),
        _activation(columns, f"{name} activation", tokens * width),
        dataclasses.replace(op.linear(columns, f"{name} down", tokens, width, model.hidden), last=True),
        *lora.mlp_adapters(columns, name, width),
    ]


def _activation(columns: Columns, name: str, elements: F) -> Operator:
    fused = columns.software.fused_activation
    gelu = _bytes(_GELU, fused)
    swiglu = _bytes(_SWIGLU, fused)
    forward, backward = (np.where(columns.model.gated > 0, s, g) for s, g in zip(swiglu, gelu, strict=True))
    return op.stream(columns, name, elements * forward, elements * backward, _kernels("activation", fused))


def moe_block(columns: Columns) -> list[Operator]:
    """Norm, router, permutation, routed experts, shared experts, residual of a layer with experts."""
    model, layout, software = columns.model, columns.layout, columns.software
    split = columns.split_tokens
    routed = split * model.topk
    experts = np.maximum(model.experts / layout.ep, 1.0)
    received = routed * layout.expert_tp * columns.job.imbalance
    each, width = received / experts, model.moe_ffn / layout.expert_tp
    scores = split * model.experts
    projected = np.where(model.expert_dim != model.hidden, model.expert_dim, 0.0)
    padded = np.where((columns.job.bits < 16) & (software.grouped_kernel == 0), _PAD_BYTES, 0.0)
    moved = np.where(software.alltoall > 0, *_PERMUTE_BYTES) + padded
    sixteen = np.full_like(split, 16.0)
    return [
        _pass(columns, "experts norm", split * model.hidden, _NORM, kernels="norm", fused=software.fused_norm),
        op.linear(columns, "router", split, model.hidden, model.experts, bits=sixteen),
        op.stream(columns, "routing", scores * _ROUTER_BYTES, scores * _ROUTER_BYTES, _ROUTER_KERNELS),
        op.stream(
            columns,
            "permute",
            routed * model.expert_dim * moved,
            routed * model.expert_dim * moved,
            _PERMUTE_KERNELS,
        ),
        *([op.linear(columns, "expert vectors", split, model.hidden, 2.0 * projected)] if np.any(projected) else []),
        grouped(
            columns, "experts up", each, model.expert_dim, width * (1.0 + model.gated), groups=experts, joined="output"
        ),
        *_between_experts(columns, received * width),
        grouped(columns, "experts down", each, width, model.expert_dim, groups=experts, joined="input"),
        _expert_bias(columns, received * model.expert_dim, experts),
        *_mlp(columns, "shared", columns.tokens, model.shared_ffn / layout.tp),
        _pass(
            columns,
            "experts residual",
            split * model.hidden,
            _RESIDUAL,
            kernels="residual",
            fused=software.fused_residual,
        ),
    ]


def _between_experts(columns: Columns, elements: F) -> list[Operator]:
    """Clamp and activation between the experts' products; separate kernels unless the products include them."""
    separate = np.where(columns.software.fused_experts > 0, 0.0, 1.0)
    clamped = elements * columns.model.biased * columns.model.gated
    clamp = op.stream(columns, "experts clamp", clamped * _CLAMP[0], clamped * _CLAMP[1], _CLAMP_KERNELS)
    return [clamp.times(separate), _activation(columns, "experts activation", elements).times(separate)]


def _expert_bias(columns: Columns, elements: F, experts: F) -> Operator:
    """The second bias of each expert; a fused kernel adds it, and only the bias's gradient is a separate pass."""
    biased, fused = elements * columns.model.biased, columns.software.fused_experts > 0
    ahead, back = np.where(fused, 0.0, _BIAS[0]), np.where(fused, _BIAS_GRADIENT, _BIAS[1])
    kernels = np.where(fused, 1.0, 2.0 + _BIAS_KERNELS * experts)
    return op.stream(columns, "experts bias", biased * ahead, biased * back, kernels)


def embedding(columns: Columns) -> list[Operator]:
    """Lookup of token vectors, and the scattered sum of their gradients."""
    elements = columns.tokens * columns.model.hidden
    return [op.stream(columns, "embedding", elements * 4.0, elements * 10.0, 2.0)]


def head(columns: Columns) -> list[Operator]:
    """Last norm, logits (in their own precision), cross-entropy."""
    model, software = columns.model, columns.software
    width = model.vocab / columns.layout.tp
    cells, fused = columns.tokens * width, software.fused_loss > 0
    ahead = np.where(fused, _FUSED_LOSS[0], software.loss_bytes * _LOSS_FORWARD)
    back = np.where(fused, _FUSED_LOSS[1], software.loss_bytes * (1.0 - _LOSS_FORWARD))
    return [
        _pass(
            columns, "last norm", columns.split_tokens * model.hidden, _NORM, kernels="norm", fused=software.fused_norm
        ),
        op.linear(columns, "logits", columns.tokens, model.hidden, width, bits=software.head_bits),
        op.stream(columns, "loss", cells * ahead, cells * back, _kernels("loss", software.fused_loss)),
    ]


def prediction_joint(columns: Columns) -> list[Operator]:
    """Joins hidden state and next token before a multi-token-prediction layer (DeepSeek-V3, section 2.2)."""
    hidden = columns.model.hidden
    elements = 2.0 * columns.split_tokens * hidden
    return [
        _pass(columns, "prediction norms", elements, _NORM, kernels="norm", fused=columns.software.fused_norm),
        op.linear(columns, "prediction joint", columns.split_tokens, 2.0 * hidden, hidden),
    ]


def _pass(
    columns: Columns, name: str, elements: F, table: tuple[tuple[float, float], ...], *, kernels: str, fused: F
) -> Operator:
    forward, backward = _bytes(table, fused)
    return op.stream(columns, name, elements * forward, elements * backward, _kernels(kernels, fused))


def _bytes(table: tuple[tuple[float, float], ...], fused: F) -> tuple[F, F]:
    forward, backward = table
    return np.where(fused > 0, *forward), np.where(fused > 0, *backward)


def _kernels(name: str, fused: F) -> F:
    return np.where(fused > 0, *_KERNELS[name])
