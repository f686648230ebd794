"""Bytes of activations that one layer keeps for its backward pass, for one micro-batch on one rank.

Written out tensor by tensor; for a GPT layer in 16 bits the sum is Korthikanti et al. 2022 (arXiv 2205.05198, section
4): s b h (10 + 24/t + 5 a s / (h t)) without and s b h / t (34 + 5 a s / h) with sequence parallelism.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from railyard.model.columns import F
    from railyard.work.training.columns import Columns


NVFP4_BYTES = 0.5 + 1.0 / 16.0
"""Of an element of NVFP4, whose blocks of 16 have a scale of 8 bits."""


@dataclass(frozen=True, slots=True)
class LayerActivations:
    """Bytes kept by the parts of a layer: attention with its residual, dense MLP, experts; and a layer's input."""

    attention: F
    mlp: F
    experts: F
    input: F


def layer_activations(columns: Columns, *, complete: bool = False) -> LayerActivations:
    """Bytes kept when nothing, the attention core (`selective`), or some modules are computed again.

    Args:
        columns: The designs.
        complete: As if no module were computed again: what is there while a layer's backward pass runs.
    """
    layout, software = columns.layout, columns.software
    residual = columns.split_tokens * columns.model.hidden
    core = np.where((software.flash > 0) | (layout.recompute_core > 0), 0.0, _scores(columns))
    stays = _Stays.all(columns) if complete else _Stays.of(columns)
    return LayerActivations(
        attention=_attention(columns, residual, stays) + core,
        mlp=_mlp(columns, residual, stays),
        experts=_experts(columns, residual, stays),
        input=2.0 * residual,
    )


def kept_bytes(columns: Columns, layer: LayerActivations, layers: F | float, moe_layers: F | float) -> F:
    """Bytes that one micro-batch keeps for these layers, wherever they are kept."""
    full = layers * layer.attention + (layers - moe_layers) * layer.mlp + moe_layers * layer.experts
    again = columns.layout.recompute_full
    return again * layers * layer.input + (1.0 - again) * full


def offloaded(columns: Columns) -> F:
    """Share of the layers whose activations wait in the host's memory."""
    return np.minimum(columns.layout.offloaded / columns.model.layers, 1.0)


@dataclass(frozen=True, slots=True)
class _Stays:
    """1 where a module's tensors are kept, 0 where it is computed again (Megatron-Core's `--recompute-modules`).

    `norm`: what norms give; `up`: queries, keys and values from latents; `mlp`, `shared`: what is inside an MLP;
    `moe`: all of an expert layer but its input; `activation`: what goes into the experts' down projection.
    """

    norm: F
    up: F
    mlp: F
    moe: F
    activation: F
    shared: F

    @classmethod
    def of(cls, columns: Columns) -> _Stays:
        layout = columns.layout
        up = layout.again_up * columns.model.latent
        again = (layout.again_norm, up, layout.again_mlp, layout.again_moe, layout.again_moe_act, layout.again_shared)
        return cls(*(1.0 - module for module in again))

    @classmethod
    def all(cls, columns: Columns) -> _Stays:
        return cls(*[np.ones_like(columns.layout.tp)] * 6)


def _saved(columns: Columns, adapted: F | float = 1.0) -> F:
    """Bytes per element of an operand kept for its weight gradient, as wide as the products.

    Args:
        columns: The designs.
        adapted: Whether a frozen product has an adapter, whose gradient wants the operand in 16 bits; else it is gone.
    """
    trained = np.select([columns.job.bits < 8, columns.job.bits < 16], [NVFP4_BYTES, 1.0], 2.0)
    return np.where(columns.job.frozen > 0, 2.0 * adapted, trained)


def _masks(columns: Columns, residual: F) -> F:
    """Dropout masks, one byte an element, of the models that have dropout (GPT with its learned positions)."""
    return np.where(columns.model.rotary > 0, 0.0, residual)


def _scores(columns: Columns) -> F:
    """Softmax output (2), dropout output (2) and its mask (1) of the whole score matrix."""
    heads = columns.model.heads / columns.layout.tp
    return 5.0 * columns.tokens * heads * columns.job.seq_len * columns.model.cored


def _attention(columns: Columns, residual: F, stays: _Stays) -> F:
    model, layout = columns.model, columns.layout
    score_dim, value_dim = model.score_dim, model.value_dim
    heads = model.heads / layout.tp
    groups = np.where(model.latent > 0, heads, np.maximum(model.kv_heads / layout.tp, 1.0))
    up = heads * score_dim + groups * (score_dim + value_dim)
    kept = columns.tokens * 2.0 * (up * stays.up + heads * value_dim)
    latent = columns.tokens * 2.0 * 2.0 * (model.q_lora + model.kv_lora + model.rope_dim) * model.latent
    statistics = np.where(columns.software.flash > 0, 4.0 * columns.tokens * heads, 0.0)
    # Exchanged by heads, attention keeps its output as it left the kernel, and the projection as it came back.
    twice = np.where((layout.cp > 1) & (layout.context_heads > 0), 2.0 * columns.tokens * heads * value_dim, 0.0)
    norm = residual * (2.0 + _saved(columns) * stays.norm)
    # What the products of other mixers make is kept in front of the convolution and behind it: estimated.
    mixed = columns.tokens * 2.0 * 2.0 * model.mixed_parameters / model.hidden / layout.tp
    found = model.mixers * norm + model.cored * kept + model.cored * twice + model.plain * latent
    return found + model.cored * statistics + model.mixers * _masks(columns, residual) + mixed


def _mlp(columns: Columns, residual: F, stays: _Stays) -> F:
    width = columns.model.ffn / columns.layout.tp
    norm = residual * (2.0 + _saved(columns, columns.job.adapter_mlp) * stays.norm)
    return columns.model.dense * (norm + _inner(columns, columns.tokens, width) * stays.mlp + _masks(columns, residual))


def _inner(columns: Columns, tokens: F, width: F, activation: F | float = 1.0) -> F:
    """Output of the up projection, and of the activation, which is the input of the down projection."""
    software = columns.software
    factors = software.gate_bytes * (1.0 + columns.model.gated)
    return tokens * width * (factors + software.keeps_products * _saved(columns, columns.job.adapter_mlp) * activation)


def _experts(columns: Columns, residual: F, stays: _Stays) -> F:
    model, layout = columns.model, columns.layout
    received = columns.split_tokens * model.topk * layout.expert_tp * columns.job.imbalance
    # Each routed token is kept as it enters its expert, and as it comes back where its probability weights it then.
    routed = received * model.expert_dim * (_saved(columns) + 2.0 * columns.software.keeps_outputs)
    inner = _inner(columns, received, model.moe_ffn / layout.expert_tp, stays.activation)
    shared = _inner(columns, columns.tokens, model.shared_ffn / layout.tp) * stays.shared
    router = columns.split_tokens * model.experts * 8.0
    return residual * (2.0 + 2.0 * stays.norm) + (routed + inner + shared + router) * stays.moe
