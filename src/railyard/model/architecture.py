"""The architecture of a model as columns: the one record that training and serving read shapes from."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from railyard.model.machine import RecordColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.catalog import Model
    from railyard.catalog.block import LayerKind
    from railyard.model.machine import F


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
def imbalance(experts: int, ranks: int, skew: float, own: float = 0.0) -> float:
    """Load of the busiest rank over the mean load.

    Expert number i of a layer, by popularity, receives tokens as i^-skew (Zipf). Popular experts lie on any rank, so
    the busiest rank is averaged over random placements of `experts / ranks` each; they are the same in every run.

    Args:
        experts: Of a layer.
        ranks: Of the group over which they are spread.
        skew: Exponent; 0 is a router that balances, as auxiliary losses, biases or forced balance make it.
        own: Share of each rank's preference that is its own, see `tokens_between`.

    Returns:
        1 when balanced; at most `ranks`.
    """
    if skew <= 0.0 or ranks <= 1 or experts < ranks:
        return 1.0
    tables = tokens_between(experts, ranks, skew, own)
    most = [(table.mean(axis=0) if own else table[0]).max() for table in tables]
    return float(np.mean(most) * ranks)


def tokens_between(experts: int, ranks: int, skew: float, own: float) -> Iterator[NDArray[np.float64]]:
    """float64[ranks, ranks] for one layer after another: share of a rank's tokens (row) that go to each rank.

    All ranks favour the same experts, and so the same ranks, with `1 - own` of their tokens; with the others each
    favours experts of its own by the same law, as ranks do that have other texts. Loads of experts then even out, while
    what goes from rank to rank does not: so it was in production with a load-balancing loss (MixNet, SIGCOMM 2025,
    figure 4).
    """
    share = np.arange(1, experts + 1, dtype=np.float64) ** -skew
    share /= share.sum()
    random, alone = (np.random.Generator(np.random.Philox(key=key)) for key in (0, 1))
    each = experts // ranks
    for _ in range(_PLACEMENTS):
        common = random.permutation(share)[: each * ranks].reshape(ranks, each).sum(axis=1)
        table = np.tile(common, (ranks, 1))
        if own:
            every = alone.permuted(np.tile(share, (ranks, 1)), axis=1)[:, : each * ranks]
            table = (1.0 - own) * table + own * every.reshape(ranks, ranks, each).sum(axis=2)
        yield table


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
    """Mean number of places that a token visits when each expert lies at any of them: p (1 - (1 - 1/p)^k)."""
    visited: F = places * (1.0 - (1.0 - 1.0 / places) ** topk)
    return visited


def groups_visited(model: Model, groups: int) -> float:
    """Mean number of groups of ranks, each with its part of the experts, that a token visits; mean of all layers.

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


def _prediction(model: Model) -> LayerKind:
    """A prediction layer: attention, and experts where the model has any."""
    attending = next((kind for kind in reversed(model.layer_kinds) if kind.plain), model.layer_kinds[-1])
    return replace(attending, feed="experts" if model.experts else "dense", ffn=model.ffn, window=None)


def _layer_weights(model: Model, kind: LayerKind) -> float:
    return _mixer_weights(model, kind) + _feed_weights(model, kind)


def _feed_weights(model: Model, kind: LayerKind) -> float:
    gated = 3 if model.gated_mlp else 2
    if kind.feed != "experts":
        return gated * model.hidden * kind.ffn
    shared = model.shared_experts * (model.shared_ffn or model.moe_ffn)
    routed = (model.expert_dim or model.hidden) * model.experts_per_token * model.moe_ffn
    return gated * (routed + model.hidden * shared) + model.hidden * (2 * model.expert_dim + model.experts)


def _mixer_weights(model: Model, kind: LayerKind) -> float:
    if kind.mixer == "recurrent" and model.recurrent:
        return model.recurrent.weights
    if not kind.plain:
        return kind.mixer_parameters
    latent = model.mla
    if latent is None:
        return model.hidden * kind.score_dim * (2 * kind.heads + 2 * kind.kv_heads)
    queries = model.heads * latent.query_dim
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


@lru_cache(maxsize=1024)
def model_flops_per_token(model: Model, seq_len: int, *, causal: bool = True, frozen: bool = False) -> float:
    """FLOPs that the model needs for one training token, forward and backward.

    Args:
        model: Architecture.
        seq_len: Tokens in a sequence.
        causal: Whether half of the scores count.
        frozen: Whether its weights have no gradients, as with adapters, whose few FLOPs are left out.
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


class ModelColumns(RecordColumns):
    """Architecture; 0 where a part is absent. Parameters are of one layer, one expert, one table.

    Where layers are not alike, a column is of their mean layer: products with `layers` are exact in weights, FLOPs and
    bytes, and what a kernel loses on each shape is that of the mean shape.

    Attributes:
        layers, moe_layers, hidden, heads, kv_heads, head_dim, ffn, moe_ffn, vocab, experts, sparse_keys: As in the
            catalogue.
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
        picking: Share of the cached elements of layers without a window whose keys an index picks.
        indexed: Share of the layers with attention that have an index of their own.
        mtp: Multi-token-prediction layers.
        total_parameters, expert_share: Of the model; routed experts' share of them.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__(models, _derived)

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


_LATENT = ("q_lora", "kv_lora", "rope_dim", "nope_dim", "v_dim")


@lru_cache(maxsize=1024)
def _derived(model: Model) -> Mapping[str, float]:
    row: dict[str, float] = {
        "gated": model.gated_mlp,
        "tied": model.tied_embeddings,
        "rotary": not model.learned_positions,
    }
    row |= {"biased": model.mlp_bias, "mtp": model.mtp_layers, "expert_dim": model.expert_dim or model.hidden}
    row["shared_ffn"] = model.shared_experts * (model.shared_ffn or model.moe_ffn)
    return row | _attention(model) | _layers(model) | _routing(model) | _parameters(model)


def mean(
    kinds: Iterable[LayerKind], value: Callable[[LayerKind], float], weight: Callable[[LayerKind], float] | None = None
) -> float:
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
    """Attention of the mean layer with attention; cached elements are of the mean layer of the model."""
    latent = model.mla
    row = {name: float(getattr(latent, name)) if latent else 0.0 for name in _LATENT}
    attending = [kind for kind in model.kinds if kind.heads]
    row |= {name: mean(attending, attrgetter(name)) for name in ("heads", "kv_heads")}
    for name in ("score_dim", "value_dim"):
        row[name] = mean(attending, attrgetter(name), attrgetter("heads"))
    row |= {"latent": latent is not None, "head_dim": row["score_dim"], **_windows(attending)}
    row["decode_dim"] = 2 * latent.kv_lora + latent.rope_dim if latent else row["score_dim"] + row["value_dim"]
    return row | {"kv_elements": mean(model.kinds, attrgetter("kv_elements"))}


def _windows(attending: Sequence[LayerKind]) -> dict[str, float]:
    near = [kind for kind in attending if kind.window is not None]
    far = [kind for kind in attending if kind.window is None]

    def windowed(kind: LayerKind) -> float:
        return float(kind.window is not None)

    def work(kind: LayerKind) -> float:
        return float(kind.heads * (kind.score_dim + kind.value_dim))

    def picked(kind: LayerKind) -> float:
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
    """Parts of the layers, as shares of them, and the recurrence of the mean layer."""
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
