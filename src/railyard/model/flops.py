"""FLOPs of a training token: the model's own (for MFU), and what the hardware really does (for HFU).

A multiply and an add are two. Only matrix products count: projections, experts that the token visits, logits, attention
scores and values. Backward is twice forward. `causal=True` counts the half of the scores that a causal model needs (as
Llama 3 and DeepSeek report), `causal=False` all of them (as Megatron and PaLM report).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from railyard.catalog import Model
    from railyard.catalog.block import Kind
    from railyard.model.columns import F


# Placements over which the busiest rank is averaged: its mean is then known to about a hundredth.
_PLACEMENTS = 256
# Expected largest of 1, 2, 4, ... 256 standard normal numbers.
_MAXIMA = (0.0, 0.564, 1.029, 1.424, 1.766, 2.070, 2.344, 2.594, 2.827)


UNBALANCED = 1.15
"""Zipf exponent of a router that no loss and no bias balances.

Pro-Prophet (arXiv 2411.10003, section II.A and figure 3) publishes two bounds for 16 experts: in most layers the three
most popular take more than 50 % of the tokens, and the three least popular less than 5 %. Exponents from 1.11 on meet
both. They give no upper bound: 1.15, near the least (60 and 4.6 %), is an assumption.
"""


@cache
def imbalance(experts: int, ranks: int, skew: float) -> float:
    """Load of the busiest rank over the mean load.

    Expert number i of a layer, by popularity, receives tokens as i^-skew (Zipf). Popular experts lie on any rank, so
    the busiest rank is averaged over random placements of `experts / ranks` each; they are the same in every run.

    Args:
        experts: Of a layer.
        ranks: Of the group over which they are spread.
        skew: Exponent; 0 is a router that balances, as auxiliary losses, biases or forced balance make it.

    Returns:
        1 when balanced; at most `ranks`.
    """
    if skew <= 0.0 or ranks <= 1 or experts < ranks:
        return 1.0
    share = np.arange(1, experts + 1, dtype=np.float64) ** -skew
    share /= share.sum()
    random = np.random.Generator(np.random.Philox(key=0))
    each = experts // ranks
    most = [
        random.permutation(share)[: each * ranks].reshape(ranks, each).sum(axis=1).max() for _ in range(_PLACEMENTS)
    ]
    return float(np.mean(most) * ranks)


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


def places_visited(places: F, topk: F) -> F:
    """To how many places a token goes, mean, when each of its experts lies at any of them: p (1 - (1 - 1/p)^k)."""
    visited: F = places * (1.0 - (1.0 - 1.0 / places) ** topk)
    return visited


def groups_visited(model: Model, groups: int) -> float:
    """To how many of so many groups of ranks, each with its part of the experts, a token goes; mean of all layers.

    Its k experts are drawn without repetition from E, of which each group has E / groups: a group is left out with
    probability C(E - E/groups, k) / C(E, k). In dense layers a token has one group.
    """
    share = model.moe_layers / model.layers if model.experts else 0.0
    if share == 0.0:
        return 1.0
    drawn = np.arange(model.experts_per_token)
    left = model.experts * (1.0 - 1.0 / groups)
    missed = float(np.prod(np.maximum(left - drawn, 0.0) / (model.experts - drawn)))
    return share * groups * (1.0 - missed) + 1.0 - share


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
