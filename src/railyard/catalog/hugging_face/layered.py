"""Models whose layers have attention of different shapes, or MLPs of different widths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.catalog.block import Block
from railyard.catalog.hugging_face.families import (
    Fields,
    base,
    bias,
    blocks,
    deepseek_experts,
    latent,
    one_shared,
    register,
    routed,
)

if TYPE_CHECKING:
    from railyard.catalog.hugging_face.config_file import ConfigFile


@register("nemotron-nas", "deci")
def nemotron_nas(config: ConfigFile) -> Fields:
    """Llama-Nemotron (Puzzle): each layer has its number of key heads and its width, or lacks a part."""
    fields = base(config, ffn=0) | {"attention_bias": bias(config)}
    found = config.fields.get("block_configs")
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        config.refuse("block_configs", "must be a list of objects, one a layer")
        return fields
    config.check_length("block_configs", len(found), fields["layers"])
    made = blocks([_searched(config, item, fields) for item in found])
    widest = max((block.ffn for block in made), default=0)
    fewest = max((block.kv_heads for block in made), default=0)
    return fields | {"ffn": widest, "kv_heads": fewest or fields["heads"], "blocks": made}


def _searched(config: ConfigFile, item: dict[str, Any], fields: Fields) -> Block:
    parts: list[Any] = [item.get(name) for name in ("attention", "ffn")]
    attention, feed = (part if isinstance(part, dict) else {} for part in parts)
    hidden, norms = fields["hidden"], 2
    given: dict[str, Any] = {}
    if attention.get("no_op"):
        given, norms = {"mixer": "none"}, norms - 1
    elif attention.get("replace_with_linear"):
        given = {"mixer": "none", "mixer_parameters": hidden * hidden}
    else:
        group = attention.get("n_heads_in_group")
        if not isinstance(group, int) or group < 1 or fields["heads"] % group:
            config.refuse("n_heads_in_group", "must divide the heads", found=group, allowed=f"of {fields['heads']}")
            group = 1
        given = {"kv_heads": fields["heads"] // group, "window": attention.get("window_length") or 0}
    if feed.get("no_op"):
        return Block(layers=1, feed="none", norms=norms - 1, **given)
    if feed.get("replace_with_linear"):
        inside = given.get("mixer_parameters", 0) + hidden * hidden
        return Block(layers=1, feed="none", norms=norms, **{**given, "mixer_parameters": inside})
    return Block(layers=1, ffn=_multiple(config, feed.get("ffn_mult"), hidden), norms=norms, **given)


def _multiple(config: ConfigFile, share: object, hidden: int) -> int:
    """Width of a gated MLP: two thirds of a multiple of the hidden size, rounded up to 256."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 64:
        config.refuse("ffn_mult", "expected a number", found=share, allowed="more than 0, at most 64")
        return 0
    width = int(2 * share * hidden / 3)
    return -(-width // 256) * 256


@register("gemma4", "gemma4_text")
def gemma4(config: ConfigFile) -> Fields:
    """Gemma 4: layers with a window, and full ones with other heads whose keys are their values; experts and an MLP.

    In the last layers keys and values may be an earlier layer's; small ones have tables of embeddings for each layer.
    """
    fields = base(config, tied=True)
    hidden, heads, layers = fields["hidden"], fields["heads"], fields["layers"]
    window, experts = config.count("sliding_window", default=512), config.count("num_experts", default=0)
    kinds = config.words("layer_types") or [
        "full_attention" if n % 6 == 5 else "sliding_attention" for n in range(layers)
    ]
    config.check_kinds("layer_types", {"sliding_attention", "full_attention"})
    config.check_length("layer_types", len(kinds), layers)
    far, same = config.count("global_head_dim", default=512), config.flag("attention_k_eq_v", default=False)
    few = config.count("num_global_key_value_heads", default=fields["kv_heads"]) if same else fields["kv_heads"]
    shared = config.count("num_kv_shared_layers", default=0)
    wide = config.flag("use_double_wide_mlp", default=False)
    table = config.count("hidden_size_per_layer_input", default=0)
    feed = "experts" if experts else "dense"
    norms = 7 if experts else 4

    def block(layer: int, kind: str) -> Block:
        full, late = kind == "full_attention", layer >= layers - shared
        dim, groups = (far, few) if full else (fields["head_dim"], fields["kv_heads"])
        parts = 0 if late else 1 if full and same else 2
        inside = hidden * dim * (2 * heads + parts * groups) + dim * (1 + (not late))
        inside += 2 * hidden * table + hidden if table else 0
        return Block(
            layers=1,
            feed=feed,
            kv_heads=groups,
            head_dim=dim,
            window=0 if full else window,
            cached=not late,
            mixer_parameters=inside,
            ffn=2 * fields["ffn"] if wide and late and not experts else 0,
            norms=norms,
        )

    fields["blocks"] = blocks([block(layer, kind) for layer, kind in enumerate(kinds)])
    if table:
        rows = config.count("vocab_size_per_layer_input", default=fields["vocab"])
        fields["side_parameters"] = layers * table * (rows + hidden) + table
    if not experts:
        return fields
    chosen = routed(config, experts, config.count("moe_intermediate_size"), "top_k_experts", "num_experts_per_tok")
    return fields | chosen | {"shared_experts": 1, "shared_ffn": fields["ffn"], "ffn": 0}


@register("deepseek_v4")
def deepseek_v4(config: ConfigFile) -> Fields:
    """DeepSeek V4: one key that is the value, compressed 4 to 1 with an index or 128 to 1; grouped outputs."""
    fields = base(config, ffn=config.count("intermediate_size", default=0)) | {"kv_heads": 1}
    ratios = config.numbers("compress_ratios")
    mtp = config.count("num_nextn_predict_layers", default=0)
    if len(ratios) != fields["layers"] + mtp:
        config.check_length("compress_ratios", len(ratios), fields["layers"])
    low = config.count("q_lora_rank")
    hidden, dim, heads = fields["hidden"], fields["head_dim"], fields["heads"]
    groups, out = config.count("o_groups", default=1), config.count("o_lora_rank")
    index_heads, index_dim = config.count("index_n_heads"), config.count("index_head_dim")
    projections = hidden * low + low + low * heads * dim + hidden * dim + dim
    projections += heads * dim * out + groups * out * hidden + heads
    streams = config.count("hc_mult", default=1)
    # Manifold-constrained hyper-connections: what mixes the streams, before attention and before the experts.
    mixing = 2 * ((2 + streams) * streams * (streams * hidden + 1) + 3) if streams > 1 else 0

    def block(ratio: int) -> Block:
        inside = projections + mixing
        if ratio > 1:
            wide = 2 if ratio < _HEAVY else 1
            inside += 2 * hidden * wide * dim + ratio * wide * dim + dim
        if 1 < ratio < _HEAVY:
            inside += 4 * hidden * index_dim + 2 * ratio * index_dim + index_dim
            inside += low * index_heads * index_dim + hidden * index_heads
        near = config.count("sliding_window", default=128) if ratio <= 1 else 0
        return Block(
            layers=1,
            feed="experts",
            window=near,
            compression=max(ratio, 1),
            cache_elements=dim,
            mixer_parameters=inside,
            index="own" if 1 < ratio < _HEAVY else "none",
        )

    found = fields | deepseek_experts(config) | {"router_bias": True, "mtp_layers": mtp}
    lightest = min((ratio for ratio in ratios if ratio > 1), default=1)
    return found | {
        "blocks": blocks([block(ratio) for ratio in ratios[: fields["layers"]]]),
        "sparse_keys": config.count("index_topk") * lightest,
    }


# From this ratio on all compressed entries are read; below it an index picks some.
_HEAVY = 128


@register("mimo_v2_flash", "mimo_v2")
def mimo_v2(config: ConfigFile) -> Fields:
    """MiMo-V2: layers with a window have heads of their own; experts by a list; values narrower than keys."""
    fields = base(config)
    pattern, frequency = config.numbers("hybrid_layer_pattern"), config.numbers("moe_layer_freq")
    for key, found in (("hybrid_layer_pattern", pattern), ("moe_layer_freq", frequency)):
        if not config.check_length(key, len(found), fields["layers"]):
            return fields
    window = config.count("sliding_window", "sliding_window_size")

    def block(near: int, has: int) -> Block:
        prefix = "swa_" if near else ""
        heads = config.count(f"{prefix}num_attention_heads", default=fields["heads"])
        groups = config.count(f"{prefix}num_key_value_heads", default=fields["kv_heads"])
        dim = config.count(f"{prefix}head_dim", default=fields["head_dim"])
        value = config.count(f"{prefix}v_head_dim", default=dim)
        return Block(
            layers=1,
            feed="experts" if has else "dense",
            heads=heads,
            kv_heads=groups,
            head_dim=dim,
            window=window if near else 0,
            cache_elements=groups * (dim + value),
            mixer_parameters=fields["hidden"] * (heads + groups) * (dim + value),
        )

    experts = routed(config, config.count("n_routed_experts"), config.count("moe_intermediate_size"))
    return (
        fields
        | experts
        | {
            "shared_experts": config.count("n_shared_experts", default=0),
            "router_bias": True,
            "mtp_layers": config.count("num_nextn_predict_layers", default=0),
            "blocks": blocks([block(*each) for each in zip(pattern, frequency, strict=True)]),
        }
    )


def _enumerated(config: ConfigFile, layers: int) -> set[int]:
    """Layers as a text of numbers with commas, as Step writes them; without it all but the first dense ones."""
    key = "moe_layers_enum"
    text = config.fields.get(key)
    if text is None:
        return set(range(config.count("first_k_dense_replace", default=1), layers))
    parts = text.split(",") if isinstance(text, str) else text if isinstance(text, list) else []
    if not parts or not all(str(part).strip().isdecimal() for part in parts):
        config.refuse(key, "must be numbers of layers with commas", found=text)
        return set()
    return {int(part) for part in parts}


@register("step3_text", "step3")
def step3(config: ConfigFile) -> Fields:
    """Step 3: queries from a shared low-rank vector, one head of keys and values; experts in the layers of a list."""
    fields = base(config, ffn=config.count("intermediate_size"))
    dim, low = config.count("head_dim", default=256), config.count("share_q_dim")
    groups = config.count("num_attention_groups", default=1)
    hidden, heads = fields["hidden"], fields["heads"]
    inside = hidden * low + low + low * heads * dim + 2 * hidden * groups * dim + heads * dim * hidden
    with_experts = _enumerated(config, fields["layers"])
    made = [
        Block(layers=1, feed="experts" if layer in with_experts else "dense", mixer_parameters=inside)
        for layer in range(fields["layers"])
    ]
    return fields | _step_experts(config) | {"kv_heads": groups, "head_dim": dim, "blocks": blocks(made)}


def _step_experts(config: ConfigFile) -> Fields:
    count = config.count("moe_num_experts", "num_experts")
    experts = routed(config, count, config.count("moe_intermediate_size"), "moe_top_k", "num_experts_per_tok")
    return experts | one_shared(config.count("share_expert_dim", default=0))


@register("step3p5")
def step3p5(config: ConfigFile) -> Fields:
    """Step 3.5: full layers, and ones with a window and more heads; a gate for each head; experts by a list."""
    groups = config.count("num_attention_groups", "num_key_value_heads")
    fields = base(config) | {"kv_heads": groups, "qk_norm": True}
    kinds = config.words("layer_types")[: fields["layers"]]
    config.check_kinds("layer_types", {"full_attention", "sliding_attention"})
    config.check_length("layer_types", len(kinds), fields["layers"])
    other, window = config.inner("attention_other_setting"), config.count("sliding_window")
    with_experts = _enumerated(config, fields["layers"])
    hidden, dim = fields["hidden"], fields["head_dim"]

    def block(layer: int, kind: str) -> Block:
        near = kind != "full_attention"
        heads = other.count("num_attention_heads", default=fields["heads"]) if near else fields["heads"]
        few = other.count("num_attention_groups", default=groups) if near else groups
        gate = hidden * heads if config.flag("use_head_wise_attn_gate", default=False) else 0
        return Block(
            layers=1,
            feed="experts" if layer in with_experts else "dense",
            heads=heads,
            kv_heads=few,
            window=window if near else 0,
            mixer_parameters=hidden * dim * (2 * heads + 2 * few) + 2 * dim + gate,
        )

    mtp = config.count("num_nextn_predict_layers", default=0)
    made = blocks([block(layer, kind) for layer, kind in enumerate(kinds)])
    return fields | _step_experts(config) | {"router_bias": True, "mtp_layers": mtp, "blocks": made}


@register("longcat_flash")
def longcat(config: ConfigFile) -> Fields:
    """LongCat-Flash: a layer is two of attention and MLP; experts, some of which do nothing, next to the second.

    A token visits as many working experts as their share of all says, on average.
    """
    mla = latent(config)
    width = config.count("ffn_hidden_size", "intermediate_size")
    layers = config.layers("num_layers", "num_hidden_layers")
    config.fields.setdefault("num_hidden_layers", layers)
    experts, idle = config.count("n_routed_experts"), config.count("zero_expert_num", default=0)
    visited = config.count("moe_topk") * experts / max(experts + idle, 1)
    pair = (Block(layers=1, feed="dense"), Block(layers=1, feed="experts"))
    return base(config, ffn=width, head_dim=mla.query_dim) | {
        "layers": 2 * layers,
        "mla": mla,
        "experts": experts,
        "experts_per_token": max(round(visited), 1),
        "moe_ffn": config.count("expert_ffn_hidden_size", "moe_intermediate_size"),
        "shared_experts": 1,
        "shared_ffn": width,
        "router_bias": True,
        "blocks": pair * layers,
    }


@register("decilm")
def decilm(config: ConfigFile) -> Fields:
    """DeciLM 6B and 7B: a number of key heads for each layer."""
    groups = config.numbers("num_key_value_heads_per_layer")
    if not groups:
        config.refuse("num_key_value_heads_per_layer", "must be a list of integers, one a layer")
        return {}
    config.fields["num_key_value_heads"] = max(groups)
    fields = base(config)
    config.check_length("num_key_value_heads_per_layer", len(groups), fields["layers"])
    return fields | {"blocks": blocks([Block(layers=1, kv_heads=few) for few in groups])}


@register("openelm")
def openelm(config: ConfigFile) -> Fields:
    """OpenELM: heads and widths that grow with the layers."""
    heads, groups = config.numbers("num_query_heads"), config.numbers("num_kv_heads")
    shares, layers = config.fields.get("ffn_multipliers"), config.layers("num_transformer_layers")
    hidden, dim = config.count("model_dim"), config.count("head_dim")
    if not isinstance(shares, list) or not all(isinstance(share, int | float) for share in shares):
        config.refuse("ffn_multipliers", "must be a list of numbers, one a layer")
        return {}
    divisor = max(config.count("ffn_dim_divisor", default=256), 1)
    for key, found in (("num_query_heads", heads), ("num_kv_heads", groups), ("ffn_multipliers", shares)):
        if not config.check_length(key, len(found), layers):
            return {}
    widths = [_rounded(share * hidden, divisor) for share in shares]
    made = [Block(layers=1, heads=h, kv_heads=g, ffn=w) for h, g, w in zip(heads, groups, widths, strict=True)]
    return {
        "layers": layers,
        "hidden": hidden,
        "heads": max(heads, default=0),
        "kv_heads": max(groups, default=0),
        "head_dim": dim,
        "ffn": max(widths, default=0),
        "gated_mlp": True,
        "vocab": config.count("vocab_size"),
        "tied_embeddings": config.flag("share_input_output_layers", default=True),
        "max_seq": config.count("max_context_length", default=2048),
        "qk_norm": True,
        "blocks": blocks(made),
    }


def _rounded(value: float, divisor: int) -> int:
    """Rounds to the nearest multiple of the divisor, but at most a tenth below."""
    near = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return near + divisor if near < 0.9 * value else near
