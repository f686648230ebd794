"""Models of a type that nobody has named here, read by what the keys of their file mean.

Publishers give new names to known layers. What a layer is follows from the keys that are there: a rank of keys and
values means latent attention, a number of experts means experts, a list of kinds says which layer has which. A key that
is due and missing is asked for by its usual name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.catalog.block import Block
from railyard.catalog.hugging_face import unsaid
from railyard.catalog.hugging_face.families import UNSAID_LENGTH, Fields, blocks, families, latent
from railyard.catalog.hugging_face.unsaid import NAMES
from railyard.catalog.model import Model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.catalog.hugging_face.config_file import ConfigFile

# Keys that only one shape of layers has, and the family whose names they are.
SIGNATURES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("word_embed_proj_dim",), "opt"),
    (("slow_but_exact",), "bloom"),
    (("multi_query", "n_embd"), "gpt_bigcode"),
    (("new_decoder_architecture",), "falcon"),
    (("expansion_ratio", "attn_config"), "mpt"),
    (("rotary_pct", "use_parallel_residual"), "gpt_neox"),
    (("use_logn_attn", "kv_channels"), "qwen"),
    (("multi_query_group_num", "kv_channels"), "chatglm"),
    (("interleave_moe_layer_step", "intermediate_size_mlp"), "llama4"),
    (("scale_depth", "kv_lora_rank"), "minicpm3"),
    (("hybrid_override_pattern",), "nemotron_h"),
    (("linear_attn_config",), "kimi_linear"),
    (("block_configs",), "nemotron-nas"),
    (("compress_ratios", "o_lora_rank"), "deepseek_v4"),
    (("hybrid_layer_pattern", "moe_layer_freq"), "mimo_v2"),
    (("linear_num_key_heads",), "qwen3_next"),
    (("attn_type_list",), "minimax"),
    (("attn_layer_period", "expert_layer_period"), "jamba"),
    (("attention_other_setting",), "step3p5"),
    (("share_q_dim",), "step3"),
    (("conv_L_cache",), "lfm2"),
    (("attn_logit_softcapping", "final_logit_softcapping"), "gemma2"),
    (("mamba_n_heads",), "granitemoehybrid"),
    (("zero_expert_num",), "longcat_flash"),
    (("global_head_dim",), "gemma4"),
    (("lru_width",), "recurrent_gemma"),
    (("time_step_rank", "n_groups"), "mamba2"),
    (("time_step_rank", "state_size"), "mamba"),
)
_KINDS = ("layer_types", "block_types", "attention_types", "attn_layer_types")
_FEEDS = ("mlp_layer_types", "ffn_layer_types")
_FULL = {"full_attention", "attention", "full", "global", "global_attention", "sparse_attention"}
_WINDOW = {"sliding_attention", "sliding", "sliding_window", "local", "local_attention", "swa", "chunked_attention"}
# Widths of dense layers in files whose `intermediate_size` is that of an expert.
_DENSE = ("dense_intermediate_size", "intermediate_size_mlp")
_ASIDE = ("vision", "audio", "image", "video", "quant", "rope", "compression", "generation")


def by_keys(config: ConfigFile) -> tuple[Fields, str]:
    """The fields of a model, and in words by what they were read."""
    for name, value in list(config.fields.items()):
        if isinstance(value, dict) and not any(word in name for word in _ASIDE) and name != "linear_attn_config":
            config.fields.update({key: item for key, item in value.items() if key not in config.fields})
    for keys, family in SIGNATURES:
        if all(config.has(key) for key in keys):
            return families.get(family)(config), f"by `{keys[0]}`, as `{family}`"
    unsaid.refuse_unread(config)
    return _composed(config)


def _composed(config: ConfigFile) -> tuple[Fields, str]:
    layers = _layers(config)
    hidden, words = config.count(*NAMES["hidden"]), []
    heads = unsaid.each(config, "heads", layers)
    mla = latent(config) if config.count("kv_lora_rank", default=0) else None
    kv_heads = unsaid.kv_heads(config, layers, max(heads, default=0), latent=mla is not None)
    experts = _experts(config)
    feeds = _feeds(config, layers) if experts else ["dense"] * layers
    native = any(config.has(key) for key in ("n_embd", "n_embed"))
    widths = unsaid.widths(config, layers, hidden, due=not experts or "dense" in feeds or not experts["moe_ffn"])
    dense = next((config.count(key) for key in _DENSE if config.has(key)), 0)
    windows = _windows(config, layers)
    layer_norm = unsaid.layer_norm(config)
    modern = bool(experts) or mla is not None or max(widths, default=0) not in (0, 4 * hidden)
    gated = unsaid.gated(config, modern=modern)
    fields: Fields = {
        "layers": layers,
        "hidden": hidden,
        "heads": max(heads, default=0),
        "kv_heads": max(kv_heads, default=0),
        "head_dim": _head_dim(config, hidden, max(heads, default=0)) if mla is None else 0,
        "ffn": (dense or max(widths, default=0)) if "dense" in feeds else 0,
        "gated_mlp": gated,
        "vocab": config.count(*NAMES["vocab"]),
        "tied_embeddings": config.flag("tie_word_embeddings", default=True),
        "max_seq": config.count(*NAMES["max_seq"], default=UNSAID_LENGTH),
        "norm": "layer" if layer_norm else "rms",
        "attention_bias": _bias(config),
        "mlp_bias": config.flag("mlp_bias", default=native),
        "qk_norm": any(config.flag(key, default=False) for key in ("use_qk_norm", "qk_layernorm", "qk_norm")),
        "mtp_layers": config.count(*NAMES["mtp"], default=0),
    }
    if mla is not None:
        fields |= {"mla": mla, "head_dim": mla.query_dim}
        words.append("latent attention")
    if experts:
        fields |= experts | {"moe_ffn": experts["moe_ffn"] or max(widths, default=0)}
        words.append(f"{experts['experts']} experts of which a token visits {experts['experts_per_token']}")
    sparse = _sparse(config)
    if sparse:
        fields |= sparse
        words.append(f"{sparse['sparse_keys']} keys that an index picks")
    made = [
        Block(layers=1, feed=feed, heads=head, kv_heads=few, window=window, ffn=(dense or width) * (feed == "dense"))
        for feed, head, few, window, width in zip(feeds, heads, kv_heads, windows, widths, strict=True)
    ]
    if len(set(made)) > 1 or any(windows):
        fields["blocks"] = blocks(made)
    if len(set(made)) > 1:
        words.append(f"{len(set(made))} kinds of layers")
    if not config.has("tie_word_embeddings"):
        fields["tied_embeddings"] = unsaid.tied(config, Model(name="", **fields))
    return fields, "by its keys: " + ", ".join(words or ["dense, attention in every layer"])


def _layers(config: ConfigFile) -> int:
    """Number of layers, or the length of a list that has an item for each."""
    if any(config.has(key) for key in NAMES["layers"]):
        return config.layers(*NAMES["layers"])
    lists = [config.fields.get(key) for key in (*_KINDS, *_FEEDS, "moe_layer_freq", *NAMES["kv_heads"])]
    length = next((len(one) for one in lists if isinstance(one, list)), 0)
    return length or config.layers()


def _head_dim(config: ConfigFile, hidden: int, heads: int) -> int:
    if any(config.has(key) for key in NAMES["head_dim"]) or not heads:
        return config.count(*NAMES["head_dim"], default=None if heads else 0)
    if hidden % heads:
        config.refuse(
            "head_dim", f"is missing; {heads} heads do not divide the hidden size {hidden}", allowed="a number"
        )
        return 0
    return hidden // heads


def _experts(config: ConfigFile) -> Fields:
    experts = max(_numbers(config, "experts"), default=0)
    if experts < 2:
        return {}
    shared_ffn = config.count(*NAMES["shared_ffn"], default=0)
    return {
        "experts": experts,
        "experts_per_token": max(_numbers(config, "experts_per_token"), default=0)
        or config.count(*NAMES["experts_per_token"]),
        "moe_ffn": max(_numbers(config, "moe_ffn"), default=0),
        "shared_experts": max(_numbers(config, "shared_experts"), default=0) or (1 if shared_ffn else 0),
        "shared_ffn": shared_ffn,
        "expert_groups": config.count(*NAMES["groups"], default=1) or 1,
        "groups_per_token": config.count(*NAMES["groups_per_token"], default=1) or 1,
        "router_bias": any(
            config.flag(key, default=False)
            for key in ("use_routing_bias", "moe_router_enable_expert_bias", "use_moe_router_bias")
        )
        or config.word("topk_method") == "noaux_tc",
    }


def _numbers(config: ConfigFile, what: str) -> list[int]:
    """The values of a dimension, whichever way they are written; empty where there is none."""
    key = next((name for name in NAMES[what] if config.has(name)), None)
    if key is None:
        return []
    return config.numbers(key) if isinstance(config.fields[key], list) else [config.count(key)]


def _feeds(config: ConfigFile, layers: int) -> list[str]:
    """Layers with experts: from a list of kinds, of flags or of numbers of layers, else by a rule."""
    kinds = next((config.words(key) for key in _FEEDS if config.has(key)), [])
    if kinds and config.check_length(_FEEDS[0], len(kinds), layers):
        return ["dense" if kind == "dense" else "experts" for kind in kinds]
    every: Any = next((config.fields[key] for key in NAMES["every"] if config.has(key)), 1)
    if isinstance(every, list) and config.check_length("moe_layer_freq", len(every), layers):
        return ["experts" if has else "dense" for has in every]
    flags = config.fields.get("is_moe_layer")
    if isinstance(flags, list) and config.check_length("is_moe_layer", len(flags), layers):
        return ["experts" if has else "dense" for has in flags]
    counts = config.fields.get("num_experts")
    if isinstance(counts, list) and config.check_length("num_experts", len(counts), layers):
        return ["experts" if isinstance(count, int) and count > 1 else "dense" for count in counts]
    listed = config.fields.get("moe_layers_enum", config.fields.get("moe_layers"))
    if listed is not None:
        parts = listed.split(",") if isinstance(listed, str) else listed if isinstance(listed, list) else []
        chosen = {int(part) for part in parts if str(part).strip().isdecimal()}
        return ["experts" if layer in chosen else "dense" for layer in range(layers)]
    dense = set(config.numbers("mlp_only_layers"))
    start, step = config.count(*NAMES["start"], default=0), max(every, 1) if isinstance(every, int) else 1
    stride = max(config.count("decoder_sparse_step", default=1), 1)
    return [
        "dense" if layer in dense or layer < start or (layer - start) % step or (layer + 1) % stride else "experts"
        for layer in range(layers)
    ]


def _windows(config: ConfigFile, layers: int) -> list[int]:
    """Tokens that each layer sees; 0 for all."""
    used = config.flag("use_sliding_window", default=True)
    window = config.count(*NAMES["window"], default=0) if used else 0
    key = next((name for name in _KINDS if config.has(name)), "")
    kinds: Sequence[str] = config.words(key) if key else ()
    pattern = config.fields.get("sliding_window_pattern")
    if not kinds and isinstance(pattern, str) and pattern and set(pattern) <= set("LG"):
        return [window if pattern[layer % len(pattern)] == "L" else 0 for layer in range(layers)]
    if not kinds:
        period = config.count("sliding_window_pattern", "global_attn_every_n_layers", default=0)
        if window and not period:
            config.assumed.append(f"a window of {window} tokens in every layer (no `layer_types`)")
        return [0 if period and (layer + 1) % period == 0 else window for layer in range(layers)]
    for kind in dict.fromkeys(kinds):
        if kind not in _FULL | _WINDOW and "sparse" not in kind:
            names = ", ".join(sorted(_FULL | _WINDOW))
            config.refuse(key, f"`{kind}` is not a known kind of layer", found=kind, allowed=names)
        if kind in _WINDOW and not window:
            config.refuse(NAMES["window"][0], "is missing, and layers have a window", allowed="an integer")
    if not config.check_length(key, len(kinds), layers):
        return [0] * layers
    return [window if kind in _WINDOW else 0 for kind in kinds]


def _sparse(config: ConfigFile) -> Fields:
    """A learned index that picks keys one by one, or by blocks."""
    keys = config.count("index_topk", default=0)
    for count, size in (("index_topk_blocks", "index_block_size"), ("sparse_topk_blocks", "sparse_block_size")):
        if config.has(count):
            keys = config.count(count) * config.count(size)
    if not keys:
        return {}
    return {
        "sparse_keys": keys,
        "index_heads": config.count(*NAMES["index_heads"]),
        "index_dim": config.count(*NAMES["index_dim"]),
    }


def _bias(config: ConfigFile) -> str:
    if any(config.flag(key, default=False) for key in ("qkv_bias", "use_qkv_bias", "add_qkv_bias")):
        return "qkv"
    return "all" if config.flag("attention_bias", default=config.flag("use_bias", default=False)) else "none"
