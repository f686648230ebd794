"""Hybrids of attention and recurrence, and models that are recurrent altogether."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from railyard.catalog.block import Block
from railyard.catalog.hugging_face import recurrent as by
from railyard.catalog.hugging_face.families import (
    UNSAID_LENGTH,
    Fields,
    base,
    bias,
    blocks,
    gated_expert,
    latent,
    one_shared,
    register,
    routed,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.catalog.block import Recurrent
    from railyard.catalog.hugging_face.config_file import ConfigFile

# Letters of Nemotron-H's pattern: mixer and feed of a layer.
_LETTERS = {"M": ("recurrent", "none"), "*": ("attention", "none"), "-": ("none", "dense"), "E": ("none", "experts")}


@register("nemotron_h", "nemotron_h_puzzle")
def nemotron_h(config: ConfigFile) -> Fields:
    """Nemotron-H and Nemotron 3: a layer is a Mamba-2, an attention, an MLP or experts, each behind one norm."""
    pattern = _pattern(config)
    config.fields.setdefault("num_hidden_layers", len(pattern))
    fields = base(config, ffn=config.count("intermediate_size", default=0))
    heads_dim = config.count("attention_head_dim", "head_dim", default=fields["head_dim"])
    found = fields | {
        "head_dim": heads_dim,
        "gated_mlp": False,
        "attention_bias": bias(config),
        "mlp_bias": config.flag("mlp_bias", default=False),
        "recurrent": _mamba2(config, fields["hidden"]),
        "layers": len(pattern),
        "blocks": blocks([Block(layers=1, mixer=_LETTERS[m][0], feed=_LETTERS[m][1], norms=1) for m in pattern]),
        "mtp_layers": config.count("num_nextn_predict_layers", default=0),
    }
    return found | (_nemotron_experts(config) if "E" in pattern else {})


def _pattern(config: ConfigFile) -> str:
    key = "hybrid_override_pattern"
    pattern = config.word(key) or "".join(_SPELT.get(kind, "?") for kind in config.words("layers_block_type"))
    wrong = sorted(set(pattern) - set(_LETTERS))
    if not pattern or wrong:
        allowed = "M (Mamba-2), * (attention), - (MLP), E (experts)"
        config.refuse(key, "must be a text of layers" if not pattern else f"has `{wrong[0]}`", allowed=allowed)
        return "*"
    if config.has("num_hidden_layers"):
        config.check_length(key, len(pattern), config.layers())
    return pattern


_SPELT = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}


def _nemotron_experts(config: ConfigFile) -> Fields:
    experts = routed(config, config.count("n_routed_experts"), config.count("moe_intermediate_size"))
    shared = config.count("n_shared_experts", default=1)
    return experts | {
        "shared_experts": shared,
        "shared_ffn": config.count("moe_shared_expert_intermediate_size", default=0),
        "router_bias": True,
        "expert_dim": config.count("moe_latent_size", default=0),
        "expert_groups": config.count("n_group", default=1) or 1,
        "groups_per_token": config.count("topk_group", default=1) or 1,
    }


def _mamba2(config: ConfigFile, hidden: int) -> Recurrent:
    """A Mamba-2 by whichever names a family gives its dimensions."""
    heads = config.count("mamba_num_heads", "mamba_n_heads", "num_heads")
    return by.mamba2(
        hidden,
        heads=heads,
        head_dim=config.count("mamba_head_dim", "mamba_d_head", "head_dim"),
        groups=config.count("n_groups", "mamba_n_groups", "mamba_ngroups", default=1),
        state=config.count("ssm_state_size", "mamba_d_state", "state_size"),
        conv=config.count("conv_kernel", "mamba_d_conv", default=4),
        conv_bias=config.flag("use_conv_bias", default=config.flag("mamba_conv_bias", default=True)),
    )


@register("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe")
def qwen3_next(config: ConfigFile) -> Fields:
    """Qwen3-Next and Qwen 3.5: gated delta nets, every fourth layer gated attention; dense or with experts."""
    experts = config.count("num_experts", default=0)
    fields = base(config, ffn=config.count("intermediate_size", default=0)) | {"qk_norm": True}
    kinds = _kinds(config, fields["layers"], config.count("full_attention_interval", default=4))
    gate = fields["hidden"] * fields["heads"] * fields["head_dim"]
    gated = config.flag("attn_output_gate", default=True)
    mixing = _grouped(fields) + gate if gated else 0
    dense, step = set(config.numbers("mlp_only_layers")), max(config.count("decoder_sparse_step", default=1), 1)

    def feed(layer: int) -> str:
        return "experts" if experts and layer not in dense and not (layer + 1) % step else "dense"

    fields["blocks"] = blocks(
        [
            Block(layers=1, mixer="recurrent", feed=feed(layer))
            if kind == "linear_attention"
            else Block(layers=1, feed=feed(layer), mixer_parameters=mixing)
            for layer, kind in enumerate(kinds)
        ]
    )
    fields["recurrent"] = by.gated_delta(
        fields["hidden"],
        key_heads=config.count("linear_num_key_heads"),
        heads=config.count("linear_num_value_heads"),
        key_dim=config.count("linear_key_head_dim"),
        value_dim=config.count("linear_value_head_dim"),
        conv=config.count("linear_conv_kernel_dim", default=4),
    )
    fields["mtp_layers"] = config.count("mtp_num_hidden_layers", default=0)
    if not experts:
        return fields
    return fields | routed(config, experts, config.count("moe_intermediate_size")) | gated_expert(config)


def _grouped(fields: Fields) -> int:
    """Parameters of the four projections of attention, with normalised queries and keys."""
    queries, keys = fields["heads"] * fields["head_dim"], fields["kv_heads"] * fields["head_dim"]
    return int(fields["hidden"] * (2 * queries + 2 * keys) + 2 * fields["head_dim"])


def _kinds(config: ConfigFile, layers: int, interval: int) -> Sequence[str]:
    """Linear or full attention, layer by layer."""
    kinds = config.words("layer_types")
    if kinds:
        config.check_kinds("layer_types", {"linear_attention", "full_attention"})
        config.check_length("layer_types", len(kinds), layers)
        return kinds
    every = max(interval, 1)
    return ["full_attention" if (layer + 1) % every == 0 else "linear_attention" for layer in range(layers)]


@register("kimi_linear")
def kimi_linear(config: ConfigFile) -> Fields:
    """Kimi Linear and K3: Kimi delta attention, and latent attention in the layers that a list names, from 1."""
    linear = config.inner("linear_attn_config")
    mla = latent(config)
    fields = base(config, head_dim=mla.query_dim) | {"mla": mla}
    full = set(linear.numbers("full_attn_layers"))
    start, every = config.count("first_k_dense_replace", default=0), max(config.count("moe_layer_freq", default=1), 1)
    experts = config.count("num_experts", default=0)
    gate = fields["hidden"] * fields["heads"] * mla.v_dim
    gated = config.flag("mla_use_output_gate", default=False)
    mixing = mla.parameters(fields["hidden"], fields["heads"]) + gate if gated else 0

    def block(layer: int) -> Block:
        has = experts and layer >= start and (layer - start) % every == 0
        feed = "experts" if has else "dense"
        if layer + 1 in full:
            return Block(layers=1, feed=feed, mixer_parameters=mixing)
        return Block(layers=1, mixer="recurrent", feed=feed)

    fields["blocks"] = blocks([block(layer) for layer in range(fields["layers"])])
    fields["recurrent"] = by.kimi_delta(
        fields["hidden"],
        heads=linear.count("num_heads"),
        head_dim=linear.count("head_dim"),
        conv=linear.count("short_conv_kernel_size", default=4),
        full_gate=linear.flag("use_full_rank_gate", default=False),
    )
    if not experts:
        return fields
    fields |= routed(config, experts, config.count("moe_intermediate_size"), "num_experts_per_token")
    return fields | {
        "shared_experts": config.count("num_shared_experts", default=0),
        "router_bias": True,
        "expert_dim": config.count("routed_expert_hidden_size", default=0),
    }


@register("minimax", "minimax_text_01", "minimax_m1", "MiniMaxText01", "MiniMaxM1")
def minimax_01(config: ConfigFile) -> Fields:
    """MiniMax-Text-01 and M1: lightning attention, every eighth layer softmax attention; experts in all layers."""
    fields = base(config)
    kinds = config.numbers("attn_type_list")
    if kinds:
        config.check_length("attn_type_list", len(kinds), fields["layers"])
        attends = [kind == 1 for kind in kinds]
    else:
        attends = [kind == "full_attention" for kind in _kinds(config, fields["layers"], 8)]
    experts = config.count("num_local_experts")
    mixers = ["attention" if found else "recurrent" for found in attends]
    return (
        fields
        | routed(config, experts, fields["ffn"])
        | {
            "ffn": 0,
            "recurrent": by.lightning(fields["hidden"], heads=fields["heads"], head_dim=fields["head_dim"]),
            "blocks": blocks([Block(layers=1, mixer=mixer, feed="experts") for mixer in mixers]),
        }
    )


@register("jamba")
def jamba(config: ConfigFile) -> Fields:
    """Jamba: Mamba layers, attention in every eighth, experts in every second."""
    fields = base(config)
    period, offset = (config.count(f"attn_layer_{word}", default=at) for word, at in (("period", 8), ("offset", 4)))
    every, first = (config.count(f"expert_layer_{word}", default=at) for word, at in (("period", 2), ("offset", 1)))
    experts = config.count("num_experts", default=16)

    def block(layer: int) -> Block:
        mixer = "attention" if period and layer % period == offset else "recurrent"
        return Block(
            layers=1, mixer=mixer, feed="experts" if experts > 1 and every and layer % every == first else "dense"
        )

    fields["blocks"] = blocks([block(layer) for layer in range(fields["layers"])])
    fields["recurrent"] = _mamba(config, fields["hidden"], norms=True)
    if experts <= 1:
        return fields
    return fields | routed(config, experts, fields["ffn"])


def _mamba(config: ConfigFile, hidden: int, *, norms: bool) -> Recurrent:
    rank = config.fields.get("mamba_dt_rank", config.fields.get("time_step_rank", "auto"))
    low = rank if isinstance(rank, int) and not isinstance(rank, bool) else math.ceil(hidden / 16)
    inner = config.count("mamba_expand", "expand", default=2) * hidden
    return by.mamba(
        hidden,
        inner=inner if norms else config.count("intermediate_size", "d_inner", default=inner),
        state=config.count("mamba_d_state", "state_size", default=16),
        conv=config.count("mamba_d_conv", "conv_kernel", default=4),
        rank=low,
        conv_bias=config.flag("mamba_conv_bias", default=config.flag("use_conv_bias", default=True)),
        norms=norms,
    )


def _recurrent_only(config: ConfigFile, made: Recurrent, hidden: int, layers: int) -> Fields:
    """A model without attention: its heads are those of the state, and no cache grows."""
    return {
        "layers": layers,
        "hidden": hidden,
        "heads": max(made.heads, 1),
        "kv_heads": max(made.heads, 1),
        "head_dim": max(made.value_dim, 1),
        "ffn": 0,
        "gated_mlp": False,
        "vocab": config.count("vocab_size"),
        "tied_embeddings": config.flag("tie_word_embeddings", default=True),
        "max_seq": config.count("max_position_embeddings", default=UNSAID_LENGTH),
        "recurrent": made,
        "blocks": (Block(layers=layers, mixer="recurrent", feed="none", norms=1),) if layers else (),
    }


@register("mamba", "falcon_mamba")
def mamba(config: ConfigFile) -> Fields:
    """Mamba: a recurrence for each layer, and nothing else."""
    hidden = config.count("hidden_size", "d_model")
    layers = config.layers("num_hidden_layers", "n_layer")
    return _recurrent_only(config, _mamba(config, hidden, norms=False), hidden, layers)


@register("mamba2")
def mamba2(config: ConfigFile) -> Fields:
    """Mamba-2 as `transformers` and Codestral Mamba write it."""
    hidden = config.count("hidden_size", "d_model")
    return _recurrent_only(config, _mamba2(config, hidden), hidden, config.layers("num_hidden_layers", "n_layer"))


@register("rwkv")
def rwkv(config: ConfigFile) -> Fields:
    """RWKV-4: time mixing, and channel mixing by a squared MLP behind a receptance gate."""
    hidden, layers = config.count("hidden_size"), config.layers()
    width = config.count("attention_hidden_size", default=hidden)
    fields = _recurrent_only(config, by.weighted_keys(hidden, width=width), hidden, layers)
    # The receptance of channel mixing is one more square matrix, counted with the mixer that has four such.
    made = fields["recurrent"]
    square = hidden * hidden + 2 * hidden
    return fields | {
        "ffn": config.count("intermediate_size", default=4 * hidden),
        "norm": "layer",
        "tied_embeddings": config.flag("tie_word_embeddings", default=False),
        "max_seq": config.count("context_length", default=1024),
        "recurrent": replace(made, weights=made.weights + square, parameters=made.parameters + square),
        "blocks": (Block(layers=layers, mixer="recurrent", feed="dense"),) if layers else (),
    }


@register("bamba", "granitemoehybrid", "granite_moe_hybrid")
def granite_hybrid(config: ConfigFile) -> Fields:
    """Bamba and Granite 4: Mamba-2 and some attention, each with an MLP, or routed and shared experts."""
    fields = base(config, tied=config.word("model_type") != "bamba")
    layers, kinds = fields["layers"], config.words("layer_types") or config.words("layers_block_type")
    attending = set(config.numbers("attn_layer_indices"))
    if kinds:
        config.check_length("layer_types", len(kinds), layers)
        attending = {layer for layer, kind in enumerate(kinds) if kind in ("attention", "full_attention")}
    experts = config.count("num_local_experts", default=0)
    feed = "experts" if experts else "dense"
    mixers = ["attention" if layer in attending else "recurrent" for layer in range(layers)]
    shared = config.count("shared_intermediate_size", default=0)
    fields |= {
        "recurrent": _mamba2(config, fields["hidden"]),
        "blocks": blocks([Block(layers=1, mixer=mixer, feed=feed) for mixer in mixers]),
    }
    if not experts:
        return fields | {"ffn": shared or fields["ffn"]}
    return fields | routed(config, experts, fields["ffn"]) | one_shared(shared) | {"ffn": 0}


@register("recurrent_gemma")
def recurrent_gemma(config: ConfigFile) -> Fields:
    """RecurrentGemma: two gated linear units to one layer of attention with a window."""
    # The file gives both halves of the gated MLP together.
    fields = base(config, tied=True) | {"ffn": config.count("intermediate_size") // 2, "attention_bias": "none"}
    kinds = config.words("block_types") or config.words("_block_types") or ["recurrent", "recurrent", "attention"]
    attends = Block(layers=1, window=config.count("attention_window_size", default=2048))
    layers = [kinds[layer % len(kinds)] for layer in range(fields["layers"])]
    width = config.count("lru_width", default=fields["hidden"])
    return fields | {
        "mlp_bias": True,
        "recurrent": by.gated_unit(
            fields["hidden"], width=width, heads=fields["heads"], conv=config.count("conv1d_width", default=4)
        ),
        "blocks": blocks([attends if kind == "attention" else Block(layers=1, mixer="recurrent") for kind in layers]),
    }


@register("lfm2", "lfm2_moe")
def lfm2(config: ConfigFile) -> Fields:
    """LFM2: gated short convolutions, and attention in the layers that a list names."""
    fields = base(config, tied=True, ffn=_adjusted(config)) | {"qk_norm": True}
    kinds = config.words("layer_types")
    full = set(config.numbers("full_attn_idxs"))
    attends = [kind == "full_attention" for kind in kinds] or [layer in full for layer in range(fields["layers"])]
    config.check_length("layer_types", len(attends), fields["layers"])
    experts, start = config.count("num_experts", default=0), config.count("num_dense_layers", default=0)

    def block(layer: int) -> Block:
        feed = "experts" if experts and layer >= start else "dense"
        return Block(layers=1, mixer="attention" if attends[layer] else "recurrent", feed=feed)

    taps, biased = config.count("conv_L_cache", default=3), config.flag("conv_bias", default=False)
    fields["recurrent"] = by.short_convolution(fields["hidden"], taps=taps, bias=biased)
    fields["blocks"] = blocks([block(layer) for layer in range(len(attends))])
    if not experts:
        return fields
    return fields | routed(config, experts, config.count("moe_intermediate_size")) | {"router_bias": True}


def _adjusted(config: ConfigFile) -> int:
    """LFM2 writes a width of which two thirds, rounded up, are used."""
    width = config.count("intermediate_size", "block_ff_dim")
    if not config.flag("block_auto_adjust_ff_dim", default=False):
        return width
    multiple = max(config.count("block_multiple_of", default=256), 1)
    return multiple * math.ceil(int(2 * width / 3) / multiple)
