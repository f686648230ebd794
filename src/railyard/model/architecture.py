"""The architecture of a model as columns: the one record that training and serving read shapes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.model.columns import columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.catalog import Model
    from railyard.model.columns import F


@dataclass(frozen=True, slots=True)
class ModelColumns:
    """Architecture; 0 where a part is absent. Parameters are of one layer, one expert, one table.

    Attributes:
        layers, moe_layers, hidden, heads, kv_heads, head_dim, ffn, moe_ffn, vocab, experts: As in the catalogue.
        gated, tied, rotary, biased, latent: Flags; `latent` for latent attention, of which are the next five.
        q_lora, kv_lora, rope_dim, nope_dim, v_dim: As in the catalogue.
        score_dim, value_dim: Dimensions of a head in the scores and in the values, as whole sequences compute them.
        decode_dim: The sum of both as decoding computes it (latent attention absorbs its up projections).
        kv_elements: Cached elements of one token in one layer, of all heads.
        topk, group_share, groups: Routed experts of one token; share of the groups of experts in which they lie; groups
            of ranks in which they lie at most.
        shared_ffn: Of all shared experts of a layer together.
        window, windowed: Keys that a windowed layer sees, and the share of the layers that have the window.
        sparse_keys: Keys that a learned index picks for each query; 0 for all.
        mtp: Multi-token-prediction layers.
        total_parameters, expert_share: Of the model; routed experts' share of them.
    """

    layers: F
    moe_layers: F
    hidden: F
    heads: F
    kv_heads: F
    head_dim: F
    ffn: F
    moe_ffn: F
    shared_ffn: F
    vocab: F
    gated: F
    tied: F
    rotary: F
    biased: F
    latent: F
    q_lora: F
    kv_lora: F
    rope_dim: F
    nope_dim: F
    v_dim: F
    score_dim: F
    value_dim: F
    decode_dim: F
    kv_elements: F
    experts: F
    topk: F
    group_share: F
    groups: F
    window: F
    windowed: F
    sparse_keys: F
    mtp: F
    attention_parameters: F
    mlp_parameters: F
    expert_parameters: F
    shared_parameters: F
    router_parameters: F
    embedding_parameters: F
    total_parameters: F
    expert_share: F

    @classmethod
    def of(cls, models: Sequence[Model]) -> ModelColumns:
        """Columns of models of the catalogue."""
        return columns_of(cls, models, _row)

    @property
    def head_bytes(self) -> F:
        """Bytes of the output projection, which engines of serving keep in 16 bits whatever the weights' width."""
        size: F = 2.0 * self.vocab * self.hidden
        return size

    @property
    def active_parameters(self) -> F:
        """Parameters that one token uses: all but the experts that it does not visit."""
        visited = np.where(self.experts > 0, self.topk / np.maximum(self.experts, 1.0), 1.0)
        active: F = self.total_parameters * (1.0 - self.expert_share * (1.0 - visited))
        return active

    def core_flops(self, cells: F) -> F:
        """FLOPs of scores and weighted values for so many cells (a query, a key and a head) of whole sequences."""
        flops: F = 2.0 * cells * (self.score_dim + self.value_dim)
        return flops

    def causal_pairs(self, tokens: F) -> F:
        """Query and key pairs of one sequence in a mean layer: causal, and within the window where there is one."""
        near = np.minimum(tokens, np.maximum(self.window, 1.0))
        full = (1.0 - self.windowed) * tokens * tokens / 2.0
        pairs: F = self.windowed * (tokens * near - near * near / 2.0) + full
        return pairs


_COUNTED = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "experts", "moe_ffn", "moe_layers")
_LATENT = ("q_lora", "kv_lora", "rope_dim", "nope_dim", "v_dim")


def _row(model: Model) -> dict[str, float]:
    row = {name: float(getattr(model, name)) for name in (*_COUNTED, "sparse_keys")}
    row |= {"gated": model.gated_mlp, "tied": model.tied_embeddings, "rotary": not model.learned_positions}
    row |= {"biased": model.mlp_bias, "mtp": model.mtp_layers}
    row["shared_ffn"] = model.shared_experts * (model.shared_ffn or model.moe_ffn)
    return row | _attention(model) | _routing(model) | _parameters(model)


def _attention(model: Model) -> dict[str, float]:
    latent = model.mla
    row = {name: float(getattr(latent, name)) if latent else 0.0 for name in _LATENT}
    row |= {"latent": latent is not None, "value_dim": model.value_dim}
    row |= {"window": model.sliding_window or 0, "windowed": _windowed(model)}
    if latent:
        cached = latent.kv_lora + latent.rope_dim
        score = latent.nope_dim + latent.rope_dim
        return row | {"score_dim": score, "decode_dim": latent.kv_lora + cached, "kv_elements": cached}
    both = 2 * model.head_dim
    return row | {"score_dim": model.head_dim, "decode_dim": both, "kv_elements": both * model.kv_heads}


def _windowed(model: Model) -> float:
    """Share of the layers whose attention sees a window only."""
    return sum(model.window(layer) is not None for layer in range(model.layers)) / model.layers


def _routing(model: Model) -> dict[str, float]:
    most = model.groups_per_token if model.expert_groups > 1 else max(model.experts_per_token, 1)
    share = model.groups_per_token / model.expert_groups
    return {"topk": model.experts_per_token, "group_share": share, "groups": most}


def _parameters(model: Model) -> dict[str, float]:
    total, routed = model.parameters(), model.moe_layers * model.experts * model.expert_parameters()
    row: dict[str, float] = {"total_parameters": total, "expert_share": routed / total}
    for name, present in (("attention", 1), ("mlp", model.ffn), ("embedding", 1)):
        row[f"{name}_parameters"] = getattr(model, f"{name}_parameters")() if present else 0.0
    for name in ("expert", "shared", "router"):
        row[f"{name}_parameters"] = getattr(model, f"{name}_parameters")() if model.experts else 0.0
    return row
