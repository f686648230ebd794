"""Layers that are alike in a model whose layers are not: what mixes tokens, what feeds forward, and of which shape.

A model is a sequence of blocks. One whose layers follow a plain rule (experts in every n-th, a window on all but every
n-th) has none written down; `kinds` makes them from the rule, so that training and serving read one description.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from railyard.kit.schema import field as f

MIXERS = ("attention", "recurrent", "none")
FEEDS = ("dense", "experts", "none")
INDICES = ("own", "shared", "none")


@dataclass(frozen=True, kw_only=True)
class Recurrent:
    """A mixer that keeps a state of fixed size instead of keys and values: state space, delta rule, linear attention.

    Its matrix products are counted from its weights; its scan is estimated, not fitted: `scan_flops` and the traffic of
    the state.

    Attributes:
        kind: The mechanism, in the words of its publication.
        key_dim, value_dim: Rows and columns of a head's state.
        parameters: All of one layer, without the residual's norms.
    """

    kind: str = field(default="recurrence", metadata=f.text("kind", "Mechanism: mamba2, gated-delta, ..."))
    heads: int = field(metadata=f.count("heads", "Heads of the state"))
    key_dim: int = field(metadata=f.count("key_dim", "Rows of a head's state"))
    value_dim: int = field(metadata=f.count("value_dim", "Columns of a head's state"))
    conv: int = field(default=0, metadata=f.count("conv", "Elements that a short convolution keeps of a sequence"))
    weights: int = field(metadata=f.count("weights", "Parameters of one layer in matrix products"))
    parameters: int = field(metadata=f.count("parameters", "All parameters of one layer's recurrence"))

    @property
    def state_elements(self) -> int:
        """Elements of the state of one sequence in one layer."""
        return self.heads * self.key_dim * self.value_dim

    @property
    def scan_flops(self) -> float:
        """FLOPs of one token's update and reading of the state: decay, outer product, product with the query.

        Two each for the outer product and the reading, one for the decay, and one to join them, an element of the state
        (Mamba-2, arXiv 2405.21060, section 3).
        """
        return 6.0 * self.state_elements


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive layers that are alike. A shape of 0 is the model's.

    Attributes:
        mixer, feed: What mixes tokens and what feeds forward.
        heads, kv_heads, head_dim, ffn: Where they are not the model's.
        cached: Whether it has keys and values of its own; false where it reads those of an earlier layer.
        cache_elements: Cached elements of an entry, where heads do not say (latents; keys that are values too).
        mixer_parameters: Of one layer's attention, where its projections are not the four plain ones.
        index: In a model whose index picks keys: the layer's own index, that of an earlier layer, or attention to all.
    """

    layers: int = field(metadata=f.count("layers", "Layers of this kind that follow one another"))
    mixer: str = field(default="attention", metadata=f.choice("mixer", "What mixes tokens", MIXERS, sourced=True))
    feed: str = field(default="dense", metadata=f.choice("feed", "What feeds forward", FEEDS, sourced=True))
    heads: int = field(default=0, metadata=f.count("heads", "Query heads; 0: the model's"))
    kv_heads: int = field(default=0, metadata=f.count("kv_heads", "Key-value heads; 0: the model's"))
    head_dim: int = field(default=0, metadata=f.count("head_dim", "Dimensions of a head; 0: the model's"))
    ffn: int = field(default=0, metadata=f.count("ffn", "Width of the dense MLP; 0: the model's"))
    window: int = field(default=0, metadata=f.count("window", "Tokens that attention sees; 0 for all"))
    compression: int = field(
        default=1, metadata=f.count("compression", "Tokens whose keys and values are joined into one")
    )
    cached: bool = field(
        default=True, metadata=f.flag("cached", "Whether keys and values are its own, not an earlier layer's")
    )
    cache_elements: int = field(
        default=0, metadata=f.count("cache_elements", "Cached elements of an entry; 0: as the heads say")
    )
    mixer_parameters: int = field(
        default=0, metadata=f.count("mixer_parameters", "Of one layer's attention; 0: as the heads say")
    )
    index: str = field(
        default="own",
        metadata=f.choice("index", "Whose index picks the keys, where the model has one", INDICES, sourced=True),
    )
    norms: int = field(default=2, metadata=f.count("norms", "Normalisations of the residual in a layer"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKind:
    """All layers of a model that are alike, with their shape: what both performance models count by.

    Attributes:
        mixer, feed: As in `Block`.
        heads, kv_heads, score_dim, value_dim: Of attention; 0 elsewhere.
        window: Tokens that attention sees; None for all before.
        kv_elements: Cached elements of a token in one layer.
        plain: Whether attention has the projections that the model's heads say.
        index: As in `Block`; `none` in a model without an index.
        ffn: Width of the dense MLP, 0 without.
        norms: Normalisations of the residual.
    """

    layers: int
    mixer: str
    feed: str
    heads: int
    kv_heads: int
    score_dim: int
    value_dim: int
    window: int | None
    kv_elements: float
    compression: int
    mixer_parameters: int
    plain: bool
    index: str
    ffn: int
    norms: int
