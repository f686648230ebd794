"""FLOPs of a training token: the model's own (for MFU), and what the hardware really does (for HFU).

A multiply and an add are two. Only matrix products count: projections, experts that the token visits, logits, attention
scores and values. Backward is twice forward. `causal=True` counts the half of the scores that a causal model needs (as
Llama 3 and DeepSeek report), `causal=False` all of them (as Megatron and PaLM report).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.catalog import Model
    from railyard.catalog.block import Kind

# PFLOP per TFLOP and the like are left to the units room; a matrix product does two FLOPs a weight and token.
_PER_WEIGHT = 2.0
_FORWARD_AND_BACKWARD = 3.0


def matrix_weights(model: Model) -> float:
    """Weights of the matrix products that one token passes through, prediction layers and each logits product in."""
    layers = sum(kind.layers * _layer_weights(model, kind) for kind in model.kinds)
    joint = model.mtp_layers * (2 * model.hidden * model.hidden + _layer_weights(model, _prediction(model)))
    return layers + joint + (1 + model.mtp_layers) * model.vocab * model.hidden


def _prediction(model: Model) -> Kind:
    """A prediction layer: attention, and experts where the model has any."""
    attending = next((kind for kind in reversed(model.layer_kinds) if kind.plain), model.layer_kinds[-1])
    return replace(attending, feed="experts" if model.experts else "dense", ffn=model.ffn, window=None)


def _layer_weights(model: Model, kind: Kind) -> float:
    return _mixer_weights(model, kind) + _feed_weights(model, kind)


def _feed_weights(model: Model, kind: Kind) -> float:
    gated = 3 if model.gated_mlp else 2
    if kind.feed != "experts":
        return gated * model.hidden * kind.ffn
    shared = model.shared_experts * (model.shared_ffn or model.moe_ffn)
    routed = (model.expert_dim or model.hidden) * model.experts_per_token * model.moe_ffn
    return gated * (routed + model.hidden * shared) + model.hidden * (2 * model.expert_dim + model.experts)


def _mixer_weights(model: Model, kind: Kind) -> float:
    if kind.mixer == "recurrent" and model.recurrent:
        return model.recurrent.weights
    if not kind.plain:
        return kind.mixer_parameters
    latent = model.mla
    if latent is None:
        return model.hidden * kind.score_dim * (2 * kind.heads + 2 * kind.kv_heads)
    queries = model.heads * (latent.nope_dim + latent.rope_dim)
    query = model.hidden * latent.q_lora + latent.q_lora * queries if latent.q_lora else model.hidden * queries
    keys = model.hidden * (latent.kv_lora + latent.rope_dim) + latent.kv_lora * model.heads * (
        latent.nope_dim + latent.v_dim
    )
    return query + keys + model.heads * latent.v_dim * model.hidden


def attention_flops(model: Model, seq_len: int, *, causal: bool) -> float:
    """Forward FLOPs of scores and values, and of the scans of recurrences, for one token, all layers."""
    total = 0.0
    ahead = [replace(_prediction(model), layers=model.mtp_layers)]
    for kind in (*model.kinds, *ahead):
        near = float(min(kind.window or seq_len, seq_len))
        keys = near - near * near / (2.0 * seq_len) if causal else near
        total += kind.layers * _PER_WEIGHT * kind.heads * (kind.score_dim + kind.value_dim) * keys / kind.compression
        if kind.mixer == "recurrent" and model.recurrent:
            total += kind.layers * model.recurrent.scan_flops
    return total


def model_flops_per_token(model: Model, seq_len: int, *, causal: bool = True, frozen: bool = False) -> float:
    """FLOPs that the model needs for one training token, forward and backward.

    Args:
        model: Architecture.
        seq_len: Tokens in a sequence.
        causal: Whether half of the scores count.
        frozen: Whether its weights have no gradients, as beside adapters, whose few FLOPs are left out.
    """
    passes = _FORWARD_AND_BACKWARD - 1.0 if frozen else _FORWARD_AND_BACKWARD
    products = passes * _PER_WEIGHT * matrix_weights(model)
    return products + _FORWARD_AND_BACKWARD * attention_flops(model, seq_len, causal=causal)


def hardware_flops_per_token(
    model: Model, seq_len: int, *, causal: bool = True, recompute: str = "none", frozen: bool = False
) -> float:
    """FLOPs that the hardware does for one training token: the model's, and what is recomputed.

    Args:
        model: Architecture.
        seq_len: Tokens in a sequence.
        causal: As in `model_flops_per_token`.
        recompute: `none`, `selective` (the attention core) or `full` (every layer).
        frozen: Whether the model's weights have no gradients.
    """
    useful = model_flops_per_token(model, seq_len, causal=causal, frozen=frozen)
    core = attention_flops(model, seq_len, causal=causal)
    if recompute == "selective":
        return useful + core
    if recompute == "full":
        layers = matrix_weights(model) - (1 + model.mtp_layers) * model.vocab * model.hidden
        return useful + core + _PER_WEIGHT * layers
    return useful
