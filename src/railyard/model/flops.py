"""FLOPs of a training token: the model's own (for MFU), and what the hardware really does (for HFU).

A multiply and an add are two. Only matrix products count: projections, experts that the token visits, logits, attention
scores and values. Backward is twice forward. `causal=True` counts the half of the scores that a causal model needs (as
Llama 3 and DeepSeek report), `causal=False` all of them (as Megatron and PaLM report).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.catalog import Model

# PFLOP per TFLOP and the like are left to the units room; a matrix product does two FLOPs a weight and token.
_PER_WEIGHT = 2.0
_FORWARD_AND_BACKWARD = 3.0


def matrix_weights(model: Model) -> float:
    """Weights of the matrix products that one token passes through, prediction layers and each logits product in."""
    layers = sum(_layer_weights(model, layer) for layer in range(model.layers + model.mtp_layers))
    joint = model.mtp_layers * 2 * model.hidden * model.hidden
    return layers + joint + (1 + model.mtp_layers) * model.vocab * model.hidden


def _layer_weights(model: Model, layer: int) -> float:
    gated = 3 if model.gated_mlp else 2
    if not (model.has_experts(layer) or (model.experts and layer >= model.layers)):
        return _attention_weights(model) + gated * model.hidden * model.ffn
    shared = model.shared_experts * (model.shared_ffn or model.moe_ffn)
    return (
        _attention_weights(model)
        + gated * model.hidden * (model.experts_per_token * model.moe_ffn + shared)
        + model.experts * model.hidden
    )


def _attention_weights(model: Model) -> float:
    latent = model.mla
    if latent is None:
        return model.hidden * model.head_dim * (2 * model.heads + 2 * model.kv_heads)
    queries = model.heads * (latent.nope_dim + latent.rope_dim)
    query = model.hidden * latent.q_lora + latent.q_lora * queries if latent.q_lora else model.hidden * queries
    keys = model.hidden * (latent.kv_lora + latent.rope_dim) + latent.kv_lora * model.heads * (
        latent.nope_dim + latent.v_dim
    )
    return query + keys + model.heads * latent.v_dim * model.hidden


def attention_flops(model: Model, seq_len: int, *, causal: bool) -> float:
    """Forward FLOPs of scores and values for one token, all layers."""
    dims = model.mla.nope_dim + model.mla.rope_dim + model.mla.v_dim if model.mla else 2 * model.head_dim
    keys = 0.0
    for layer in range(model.layers + model.mtp_layers):
        window = model.window(layer) if layer < model.layers else None
        near = float(min(window or seq_len, seq_len))
        keys += near - near * near / (2.0 * seq_len) if causal else near
    return _PER_WEIGHT * model.heads * dims * keys


def model_flops_per_token(model: Model, seq_len: int, *, causal: bool = True) -> float:
    """FLOPs that the model needs for one training token, forward and backward."""
    forward = _PER_WEIGHT * matrix_weights(model) + attention_flops(model, seq_len, causal=causal)
    return _FORWARD_AND_BACKWARD * forward


def hardware_flops_per_token(model: Model, seq_len: int, *, causal: bool = True, recompute: str = "none") -> float:
    """FLOPs that the hardware does for one training token: the model's, and what is recomputed.

    Args:
        model: Architecture.
        seq_len: Tokens in a sequence.
        causal: As in `model_flops_per_token`.
        recompute: `none`, `selective` (the attention core) or `full` (every layer).
    """
    useful = model_flops_per_token(model, seq_len, causal=causal)
    core = attention_flops(model, seq_len, causal=causal)
    if recompute == "selective":
        return useful + core
    if recompute == "full":
        layers = matrix_weights(model) - (1 + model.mtp_layers) * model.vocab * model.hidden
        return useful + core + _PER_WEIGHT * layers
    return useful
