"""A transformer's architecture and its parameter count.

The count follows the tensors that the published implementations create, so that it meets the published totals to the
last thousandth: see `docs/explanation/catalog.md` for the sums.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from railyard.catalog.block import Block, LayerKind, Recurrent
from railyard.catalog.types import Entry
from railyard.kit.schema import field as f

if TYPE_CHECKING:
    from collections.abc import Iterator

ATTENTION_BIASES = ("none", "qkv", "all")
NORMS = ("rms", "layer", "layer-no-bias")


@dataclass(frozen=True, kw_only=True)
class MLA:
    """Multi-head latent attention (DeepSeek-V2): keys and values are expanded from a small latent vector.

    Attributes:
        q_lora: Rank of the query compression; 0 when queries are not compressed.
        kv_lora: Rank of the key-value compression: what the KV cache holds, with `rope_dim`.
        rope_dim: Dimensions of a head that carry the rotary position, shared by all heads on the key side.
    """

    q_lora: int = field(metadata=f.count("q_lora", "Rank of the query compression; 0 without"))
    kv_lora: int = field(metadata=f.count("kv_lora", "Rank of the key-value compression"))
    rope_dim: int = field(metadata=f.count("rope_dim", "Rotary dimensions of a head"))
    nope_dim: int = field(metadata=f.count("nope_dim", "Other dimensions of a head's query and key"))
    v_dim: int = field(metadata=f.count("v_dim", "Dimensions of a head's value"))

    @property
    def query_dim(self) -> int:
        """Dimensions of a head's query and key."""
        return self.nope_dim + self.rope_dim

    def parameters(self, hidden: int, heads: int) -> int:
        """Parameters of one layer's projections and the norms of its latents."""
        queries = heads * self.query_dim
        query = hidden * self.q_lora + self.q_lora + self.q_lora * queries if self.q_lora else hidden * queries
        down = hidden * (self.kv_lora + self.rope_dim) + self.kv_lora
        return query + down + self.kv_lora * heads * (self.nope_dim + self.v_dim) + heads * self.v_dim * hidden


@dataclass(frozen=True, kw_only=True)
class Model(Entry):
    """A decoder: attention or recurrence, dense or with experts.

    Layers count from 0. Without `blocks` layer `i` has experts when `experts > 0`, `i >= moe_layer_start` and
    `(i - moe_layer_start) % moe_every == 0`, the others have a dense MLP of width `ffn`, and all have attention.
    Where layers differ otherwise, `blocks` lists them in order, and `kinds` is what everybody counts by.
    """

    layers: int = field(metadata=f.count("layers", "Transformer layers"))
    hidden: int = field(metadata=f.count("hidden", "Width of the residual stream"))
    heads: int = field(metadata=f.count("heads", "Query heads"))
    kv_heads: int = field(metadata=f.count("kv_heads", "Key-value heads (= heads without grouping)"))
    head_dim: int = field(metadata=f.count("head_dim", "Dimensions of a head; with MLA, of its query and key"))
    ffn: int = field(metadata=f.count("ffn", "Width of a dense MLP; 0 when every layer has experts"))
    gated_mlp: bool = field(metadata=f.flag("gated_mlp", "Whether the MLP has a gate: three matrices, not two"))
    vocab: int = field(metadata=f.count("vocab", "Vocabulary, without the padding that a framework adds"))
    tied_embeddings: bool = field(metadata=f.flag("tied_embeddings", "Whether input and output share one embedding"))
    max_seq: int = field(metadata=f.count("max_seq", "Longest sequence in tokens"))
    experts: int = field(default=0, metadata=f.count("experts", "Routed experts of a layer; 0 for a dense model"))
    experts_per_token: int = field(
        default=0, metadata=f.count("experts_per_token", "Routed experts that a token visits")
    )
    expert_groups: int = field(
        default=1, metadata=f.count("expert_groups", "Groups of experts that the router picks by; 1 without")
    )
    groups_per_token: int = field(
        default=1, metadata=f.count("groups_per_token", "Groups in which the experts of one token lie")
    )
    moe_ffn: int = field(default=0, metadata=f.count("moe_ffn", "Width of one routed expert"))
    expert_dim: int = field(
        default=0,
        metadata=f.count(
            "expert_dim", "Width of the vector that routed experts take, where it is projected; 0: hidden"
        ),
    )
    shared_experts: int = field(default=0, metadata=f.count("shared_experts", "Experts that every token visits"))
    shared_ffn: int = field(default=0, metadata=f.count("shared_ffn", "Width of one shared expert; 0 means `moe_ffn`"))
    shared_gate: bool = field(
        default=False, metadata=f.flag("shared_gate", "Whether a learned gate scales the shared experts")
    )
    moe_layer_start: int = field(default=0, metadata=f.count("moe_layer_start", "First layer with experts"))
    moe_every: int = field(default=1, metadata=f.count("moe_every", "Distance between layers with experts"))
    router_bias: bool = field(
        default=False, metadata=f.flag("router_bias", "Whether the router has a bias of its own per expert")
    )
    mla: MLA | None = field(default=None, metadata=f.nested("mla", "Multi-head latent attention", MLA))
    sliding_window: int | None = field(
        default=None, metadata=f.count("sliding_window", "Tokens that a layer with a window attends to; absent without")
    )
    sliding_every: int = field(
        default=1,
        metadata=f.count("sliding_every", "1: all layers have the window; n: all but each n-th layer have it"),
    )
    sparse_keys: int = field(
        default=0, metadata=f.count("sparse_keys", "Keys that a learned index picks for each query; 0 for all")
    )
    index_heads: int = field(default=0, metadata=f.count("index_heads", "Heads of that index; 0 without"))
    index_dim: int = field(default=0, metadata=f.count("index_dim", "Dimensions of a head of that index"))
    blocks: tuple[Block, ...] = field(
        default=(), metadata=f.each("blocks", "Layers in order, where they differ by more than experts", Block)
    )
    recurrent: Recurrent | None = field(
        default=None, metadata=f.nested("recurrent", "The recurrence of the layers that have one", Recurrent)
    )
    side_parameters: int = field(
        default=0,
        metadata=f.count(
            "side_parameters", "In memory but unused by text tokens: vision and audio towers, side tables"
        ),
    )
    mtp_layers: int = field(
        default=0, metadata=f.count("mtp_layers", "Multi-token-prediction layers behind the last layer")
    )
    learned_positions: int = field(
        default=0, metadata=f.count("learned_positions", "Rows of a learned position table; 0 without")
    )
    attention_bias: str = field(
        default="none",
        metadata=f.choice("attention_bias", "Which projections have a bias", ATTENTION_BIASES, sourced=True),
    )
    attention_sinks: bool = field(
        default=False, metadata=f.flag("attention_sinks", "Whether each head has a learned sink")
    )
    mlp_bias: bool = field(default=False, metadata=f.flag("mlp_bias", "Whether the MLP's matrices have a bias"))
    head_bias: bool = field(default=False, metadata=f.flag("head_bias", "Whether the output projection has a bias"))
    norm: str = field(default="rms", metadata=f.choice("norm", "Kind of normalisation", NORMS, sourced=True))
    norms_per_layer: int = field(
        default=2, metadata=f.count("norms_per_layer", "Normalisations of the residual in a layer")
    )
    qk_norm: bool = field(
        default=False, metadata=f.flag("qk_norm", "Whether queries and keys are normalised, head by head")
    )
    assumed: str = field(
        default="", metadata=f.text("assumed", "What the publisher's file does not say and was assumed")
    )

    @property
    def source(self) -> str:
        """Where the architecture comes from."""
        known = self.provenance.get("layers")
        return known.source if known else ""

    @property
    def value_dim(self) -> int:
        """Dimensions of a head's value."""
        return self.mla.v_dim if self.mla else self.head_dim

    @cached_property
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        """The kind of each layer, each counted once: `kinds` with the order kept."""
        return tuple(_written(self)) if self.blocks else tuple(_ruled(self))

    @cached_property
    def kinds(self) -> tuple[LayerKind, ...]:
        """Layers that are alike, and how many they are."""
        return tuple(replace(kind, layers=count) for kind, count in Counter(self.layer_kinds).items())

    def has_experts(self, layer: int) -> bool:
        """Whether that layer, counted from 0, has routed experts."""
        if self.blocks:
            return layer < len(self.layer_kinds) and self.layer_kinds[layer].feed == "experts"
        behind = layer - self.moe_layer_start
        return self.experts > 0 and behind >= 0 and behind % self.moe_every == 0

    @property
    def moe_layers(self) -> int:
        """Number of layers with routed experts."""
        return sum(self.has_experts(layer) for layer in range(self.layers))

    def window(self, layer: int) -> int | None:
        """Tokens that the layer, counted from 0, attends to; None when it attends to all before."""
        if self.blocks:
            return self.layer_kinds[layer].window
        if self.sliding_window is None:
            return None
        full = self.sliding_every > 1 and layer % self.sliding_every == self.sliding_every - 1
        return None if full else self.sliding_window

    def attention_parameters(self) -> int:
        """Parameters of one layer's attention by the model's heads: projections, biases, sinks, norms within, index."""
        if self.mla:
            return self.mla.parameters(self.hidden, self.heads) + self.index_parameters()
        return self.grouped_parameters(self.heads, self.kv_heads, self.head_dim) + self.index_parameters()

    def grouped_parameters(self, heads: int, kv_heads: int, head_dim: int) -> int:
        """Parameters of one layer's attention with so many heads of queries, and of keys and values."""
        queries, keys = heads * head_dim, kv_heads * head_dim
        weights = self.hidden * (queries + 2 * keys) + queries * self.hidden
        bias = {"none": 0, "qkv": queries + 2 * keys, "all": queries + 2 * keys + self.hidden}[self.attention_bias]
        return weights + bias + (2 * head_dim if self.qk_norm else 0) + (heads if self.attention_sinks else 0)

    def index_parameters(self) -> int:
        """Parameters of the learned index that picks keys: its queries, one key and its norm, weights of its heads.

        Queries come from the compressed ones where there are such (DeepSeek-V3.2, arXiv 2512.02556).
        """
        if not self.index_heads:
            return 0
        low = self.mla.q_lora if self.mla and self.mla.q_lora else self.hidden
        queries = low * self.index_heads * self.index_dim
        return queries + self.hidden * self.index_dim + 2 * self.index_dim + self.hidden * self.index_heads

    def mlp_parameters(self, width: int | None = None) -> int:
        """Parameters of one MLP.

        Args:
            width: Of its hidden layer; the dense MLP's when None.
        """
        return self._mlp(self.ffn if width is None else width, self.hidden)

    def _mlp(self, width: int, outer: int) -> int:
        matrices = 3 if self.gated_mlp else 2
        bias = (matrices - 1) * width + outer if self.mlp_bias else 0
        return matrices * outer * width + bias

    def expert_parameters(self) -> int:
        """Parameters of one routed expert."""
        return self._mlp(self.moe_ffn, self.expert_dim or self.hidden)

    def shared_parameters(self) -> int:
        """Parameters of one layer's shared experts together, their gate, and projections to the routed ones."""
        gate = self.hidden if self.shared_gate else 0
        projected = 2 * self.hidden * self.expert_dim
        return self.shared_experts * self.mlp_parameters(self.shared_ffn or self.moe_ffn) + gate + projected

    def router_parameters(self) -> int:
        """Parameters of one layer's router."""
        return self.experts * self.hidden + (self.experts if self.router_bias else 0)

    def norm_parameters(self) -> int:
        """Parameters of one normalisation of the residual."""
        return self.hidden * (2 if self.norm == "layer" else 1)

    def layer_parameters(self, layer: int, *, active: bool = False) -> int:
        """Parameters of one layer.

        Args:
            layer: Counted from 0; layers from `layers` on are the multi-token-prediction layers.
            active: Only what one token uses.
        """
        if layer >= self.layers:
            mixing = self.attention_parameters() + self.norms_per_layer * self.norm_parameters()
            return mixing + self.feed_parameters("experts" if self.experts else "dense", self.ffn, active=active)
        kind = self.layer_kinds[layer]
        mixing = kind.mixer_parameters + kind.norms * self.norm_parameters()
        return mixing + self.feed_parameters(kind.feed, kind.ffn, active=active)

    def feed_parameters(self, feed: str, width: int, *, active: bool = False) -> int:
        """Parameters of what feeds forward in one layer.

        Args:
            feed: `dense`, `experts` or `none`.
            width: Of a dense MLP.
            active: Only what one token uses.
        """
        if feed != "experts":
            return self.mlp_parameters(width) if feed == "dense" else 0
        routed = self.experts_per_token if active else self.experts
        return routed * self.expert_parameters() + self.shared_parameters() + self.router_parameters()

    def embedding_parameters(self) -> int:
        """Parameters of the input embedding and the learned positions."""
        return (self.vocab + self.learned_positions) * self.hidden

    def head_parameters(self) -> int:
        """Parameters of the output projection that are its own; 0 when tied."""
        return (0 if self.tied_embeddings else self.vocab * self.hidden) + (self.vocab if self.head_bias else 0)

    def mtp_parameters(self) -> int:
        """Parameters of the multi-token-prediction layers, which share embedding and head with the model.

        Each joins the last hidden state and the next token's embedding, both normalised, by one matrix of 2 hidden x
        hidden, and then has a transformer layer and a norm of its own (DeepSeek-V3, arXiv 2412.19437, section 2.2).
        """
        joint = 2 * self.hidden * self.hidden + 3 * self.norm_parameters()
        return sum(joint + self.layer_parameters(self.layers + index) for index in range(self.mtp_layers))

    def parameters(self) -> int:
        """All parameters without multi-token prediction, as models are named by them."""
        return self._total(active=False)

    def active_parameters(self) -> int:
        """Parameters that one token uses: all but the experts that it does not visit."""
        return self._total(active=True)

    def _total(self, *, active: bool) -> int:
        layers = sum(self.layer_parameters(layer, active=active) for layer in range(self.layers))
        aside = 0 if active else self.side_parameters
        return self.embedding_parameters() + layers + self.norm_parameters() + self.head_parameters() + aside


def _ruled(model: Model) -> Iterator[LayerKind]:
    """Layers of a model without blocks."""
    cached = model.mla.kv_lora + model.mla.rope_dim if model.mla else 2 * model.kv_heads * model.head_dim
    score = model.mla.query_dim if model.mla else model.head_dim
    known: dict[tuple[int | None, bool], LayerKind] = {}
    for layer in range(model.layers):
        key = (model.window(layer), model.has_experts(layer))
        if key not in known:
            known[key] = LayerKind(
                layers=1,
                mixer="attention",
                feed="experts" if key[1] else "dense",
                heads=model.heads,
                kv_heads=model.kv_heads,
                score_dim=score,
                value_dim=model.value_dim,
                window=key[0],
                kv_elements=float(cached),
                compression=1,
                mixer_parameters=model.attention_parameters(),
                plain=True,
                index="own" if model.sparse_keys else "none",
                ffn=0 if key[1] else model.ffn,
                norms=model.norms_per_layer,
            )
        yield known[key]


def _written(model: Model) -> Iterator[LayerKind]:
    """Layers of a model by its blocks."""
    for block in model.blocks:
        kind = _attending(model, block) if block.mixer == "attention" else _without_cache(model, block)
        yield from [kind] * block.layers


def _attending(model: Model, block: Block) -> LayerKind:
    heads, kv_heads = block.heads or model.heads, block.kv_heads or model.kv_heads
    dim, latent = block.head_dim or model.head_dim, model.mla
    index = block.index if model.sparse_keys else "none"
    by_heads = (
        latent.parameters(model.hidden, model.heads) if latent else model.grouped_parameters(heads, kv_heads, dim)
    )
    by_heads += model.index_parameters() if index == "own" else 0
    cached = block.cache_elements or (latent.kv_lora + latent.rope_dim if latent else 2 * kv_heads * dim)
    return LayerKind(
        layers=1,
        mixer="attention",
        feed=block.feed,
        heads=heads,
        kv_heads=kv_heads,
        score_dim=latent.query_dim if latent else dim,
        value_dim=latent.v_dim if latent else dim,
        window=block.window or None,
        kv_elements=cached / block.compression if block.cached else 0.0,
        compression=block.compression,
        mixer_parameters=block.mixer_parameters or by_heads,
        plain=not block.mixer_parameters,
        index=index,
        ffn=(block.ffn or model.ffn) if block.feed == "dense" else 0,
        norms=block.norms,
    )


def _without_cache(model: Model, block: Block) -> LayerKind:
    inside = model.recurrent.parameters if block.mixer == "recurrent" and model.recurrent else block.mixer_parameters
    return LayerKind(
        layers=1,
        mixer=block.mixer,
        feed=block.feed,
        heads=0,
        kv_heads=0,
        score_dim=0,
        value_dim=0,
        window=None,
        kv_elements=0.0,
        compression=1,
        mixer_parameters=inside,
        plain=False,
        index="none",
        ffn=(block.ffn or model.ffn) if block.feed == "dense" else 0,
        norms=block.norms,
    )
