"""The architecture of a model as columns: the one record that training and serving read shapes from."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from railyard.model.columns import columns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from railyard.catalog import Model
    from railyard.catalog.block import Kind
    from railyard.model.columns import F


@dataclass(frozen=True, slots=True)
class ModelColumns:
    """Architecture; 0 where a part is absent. Parameters are of one layer, one expert, one table.

    Where layers are not alike, a column is of their mean layer: products with `layers` are exact in weights, FLOPs and
    bytes, and what a kernel loses on each shape is that of the mean shape.

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
        window, windowed: Keys that a windowed layer sees, and the share of attention's work in layers with the window.
        windowed_cache: The same share of the cached elements.
        joined: Entries of the cache that a token of layers without a window makes, below 1 where tokens are compressed.
        plain, cored, mixers: Shares of the layers with attention by the model's heads, with attention of any kind, and
            with anything that mixes tokens.
        dense: Share of the layers without experts that have a dense MLP.
        mixed_parameters: Of mixers other than attention by the model's heads: recurrences, compressed attention.
        state_elements, conv_elements, scan_flops: Of recurrences: elements that one sequence keeps, FLOPs of one token.
        expert_dim: Width of the vector that routed experts take.
        sparse_keys: Keys that a learned index picks for each query; 0 for all.
        picking: Share of the cached elements of layers without a window whose keys an index picks.
        indexed: Share of the layers with attention that have an index of their own.
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
    windowed_cache: F
    joined: F
    plain: F
    cored: F
    mixers: F
    dense: F
    mixed_parameters: F
    state_elements: F
    conv_elements: F
    scan_flops: F
    expert_dim: F
    sparse_keys: F
    picking: F
    indexed: F
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

    @property
    def feeds(self) -> F:
        """Layers with experts or a dense MLP."""
        found: F = self.moe_layers + (self.layers - self.moe_layers) * self.dense
        return found

    @property
    def whole_layers(self) -> F:
        """Layers of a mixer and an MLP with as many of both: half of the layers of Nemotron-H, which have one."""
        found: F = (self.mixers * self.layers + self.feeds) / 2.0
        return found

    def core_flops(self, cells: F) -> F:
        """FLOPs of scores and weighted values for so many cells (a query, a key and a head) of whole sequences."""
        flops: F = 2.0 * cells * (self.score_dim + self.value_dim)
        return flops

    def causal_pairs(self, tokens: F) -> F:
        """Query and key pairs of one sequence in a mean layer: causal, and within the window where there is one."""
        near = np.minimum(tokens, np.maximum(self.window, 1.0))
        full = self.joined * (1.0 - self.windowed) * tokens * tokens / 2.0
        pairs: F = self.windowed * (tokens * near - near * near / 2.0) + full
        return pairs


_COUNTED = ("layers", "hidden", "vocab", "experts", "moe_ffn", "moe_layers")
_LATENT = ("q_lora", "kv_lora", "rope_dim", "nope_dim", "v_dim")


def _row(model: Model) -> dict[str, float]:
    row = {name: float(getattr(model, name)) for name in (*_COUNTED, "sparse_keys")}
    row |= {"gated": model.gated_mlp, "tied": model.tied_embeddings, "rotary": not model.learned_positions}
    row |= {"biased": model.mlp_bias, "mtp": model.mtp_layers, "expert_dim": model.expert_dim or model.hidden}
    row["shared_ffn"] = model.shared_experts * (model.shared_ffn or model.moe_ffn)
    return row | _attention(model) | _layers(model) | _routing(model) | _parameters(model)


def mean(kinds: Iterable[Kind], value: Callable[[Kind], float], weight: Callable[[Kind], float] | None = None) -> float:
    """Mean over layers of a value of their kinds: that value itself where all have the same; 0 over none.

    Args:
        kinds: Layers by kind.
        value: Of a layer of a kind.
        weight: Of a layer of a kind; 1 when None.
    """
    found = [(kind.layers * (weight(kind) if weight else 1.0), value(kind)) for kind in kinds]
    found = [(count, each) for count, each in found if count > 0]
    if len({each for _, each in found}) <= 1:
        return float(found[0][1]) if found else 0.0
    return sum(count * each for count, each in found) / sum(count for count, _ in found)


def _attention(model: Model) -> dict[str, float]:
    """Of the mean layer with attention; cached elements are of the mean layer of the model."""
    latent = model.mla
    row = {name: float(getattr(latent, name)) if latent else 0.0 for name in _LATENT}
    attending = [kind for kind in model.kinds if kind.heads]
    row |= {name: mean(attending, attrgetter(name)) for name in ("heads", "kv_heads")}
    for name in ("score_dim", "value_dim"):
        row[name] = mean(attending, attrgetter(name), attrgetter("heads"))
    row |= {"latent": latent is not None, "head_dim": row["score_dim"], **_windows(attending)}
    row["decode_dim"] = 2 * latent.kv_lora + latent.rope_dim if latent else row["score_dim"] + row["value_dim"]
    return row | {"kv_elements": mean(model.kinds, attrgetter("kv_elements"))}


def _windows(attending: Sequence[Kind]) -> dict[str, float]:
    near = [kind for kind in attending if kind.window is not None]
    far = [kind for kind in attending if kind.window is None]

    def windowed(kind: Kind) -> float:
        return float(kind.window is not None)

    def work(kind: Kind) -> float:
        return float(kind.heads * (kind.score_dim + kind.value_dim))

    def picked(kind: Kind) -> float:
        return float(kind.index != "none")

    return {
        "picking": mean(far, picked, attrgetter("kv_elements")),
        "indexed": mean(attending, lambda kind: float(kind.index == "own")),
        "window": mean(near, lambda kind: float(kind.window or 0)),
        "windowed": mean(attending, windowed, work),
        "windowed_cache": mean(attending, windowed, attrgetter("kv_elements")),
        "joined": mean(far, lambda kind: 1.0 / kind.compression) if far else 1.0,
    }


def _layers(model: Model) -> dict[str, float]:
    """Which parts the layers have, as shares of them, and the recurrence of the mean layer."""
    kinds, recurrent = model.kinds, model.recurrent
    without = [kind for kind in kinds if kind.feed != "experts"]
    recurring = mean(kinds, lambda kind: float(kind.mixer == "recurrent")) if recurrent else 0.0
    found = {
        "plain": mean(kinds, lambda kind: float(kind.plain)),
        "cored": mean(kinds, lambda kind: float(kind.mixer == "attention")),
        "mixers": mean(kinds, lambda kind: float(kind.mixer != "none")),
        "dense": mean(without, lambda kind: float(kind.feed == "dense")) if without else 1.0,
        "mixed_parameters": mean(kinds, lambda kind: 0.0 if kind.plain else float(kind.mixer_parameters)),
        "ffn": mean([kind for kind in without if kind.feed == "dense"], attrgetter("ffn")),
    }
    state = (recurrent.state_elements, recurrent.conv, recurrent.scan_flops) if recurrent else (0.0, 0.0, 0.0)
    names = ("state_elements", "conv_elements", "scan_flops")
    return found | {name: recurring * each for name, each in zip(names, state, strict=True)}


def _routing(model: Model) -> dict[str, float]:
    most = model.groups_per_token if model.expert_groups > 1 else max(model.experts_per_token, 1)
    share = model.groups_per_token / model.expert_groups
    return {"topk": model.experts_per_token, "group_share": share, "groups": most}


def _parameters(model: Model) -> dict[str, float]:
    total, routed = model.parameters(), model.moe_layers * model.experts * model.expert_parameters()
    without = [kind for kind in model.kinds if kind.feed != "experts"]
    row: dict[str, float] = {"total_parameters": total, "expert_share": routed / total}
    row["attention_parameters"] = mean(model.kinds, attrgetter("mixer_parameters"))
    row["mlp_parameters"] = mean(without, lambda kind: model.feed_parameters(kind.feed, kind.ffn)) if model.ffn else 0.0
    row["embedding_parameters"] = model.embedding_parameters()
    for name in ("expert", "shared", "router"):
        row[f"{name}_parameters"] = getattr(model, f"{name}_parameters")() if model.experts else 0.0
    return row
