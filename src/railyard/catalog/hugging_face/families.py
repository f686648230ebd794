"""Decoders whose layers follow a plain rule: Llama and its descendants, experts, latent attention, windows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from railyard.catalog.block import Block
from railyard.catalog.model import MLA
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.catalog.hugging_face.config_file import ConfigFile


UNSAID_LENGTH = 1 << 20
"""Longest sequence where a file names none: no limit is invented, so that nothing is called too long."""

Fields = dict[str, Any]

families: Registry[Callable[[ConfigFile], Fields]] = Registry("model_type")


def register(*names: str) -> Callable[[Callable[[ConfigFile], Fields]], Callable[[ConfigFile], Fields]]:
    """Registers a family under the types of its files."""

    def add(family: Callable[[ConfigFile], Fields]) -> Callable[[ConfigFile], Fields]:
        for name in names:
            families.add(name, family)
        return family

    return add


def base(config: ConfigFile, *, tied: bool = False, ffn: int | None = None, head_dim: int | None = None) -> Fields:
    """The fields that Llama and all its descendants name alike.

    Args:
        config: The file.
        tied: Whether embeddings are shared where the file does not say.
        ffn: Width of the MLP where the file says it elsewhere.
        head_dim: Dimensions of a head where they are not `head_dim` (latent attention).
    """
    hidden = config.count("hidden_size")
    heads = config.count("num_attention_heads")
    if head_dim is None:
        head_dim = config.optional_count("head_dim")
    if head_dim is None:
        head_dim = config.divided("hidden_size", hidden, "num_attention_heads", heads) if heads else 0
    return {
        "layers": config.layers(),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": config.count("num_key_value_heads", default=heads),
        "head_dim": head_dim,
        "ffn": config.count("intermediate_size") if ffn is None else ffn,
        "gated_mlp": True,
        "vocab": config.count("vocab_size"),
        "tied_embeddings": config.flag("tie_word_embeddings", default=tied),
        "max_seq": config.count("max_position_embeddings", default=UNSAID_LENGTH),
        "norm": "rms",
    }


def bias(config: ConfigFile, *, default: bool = False, which: str = "all") -> str:
    """Projections of attention with a bias, by the key that most families have."""
    return which if config.flag("attention_bias", default=default) else "none"


def latent(config: ConfigFile, value: int | None = None) -> MLA:
    """Latent attention by DeepSeek's names, which all share.

    Args:
        config: The file.
        value: Dimensions of a head's value where the file does not say.
    """
    return MLA(
        rope_dim=config.count("qk_rope_head_dim"),
        nope_dim=config.count("qk_nope_head_dim"),
        q_lora=config.count("q_lora_rank", default=0),
        kv_lora=config.count("kv_lora_rank"),
        v_dim=config.count("v_head_dim", default=value),
    )


def native_names(config: ConfigFile, hidden: int, heads: int, *layers: str) -> Fields:
    """Common parts of families with names like GPT's: a plain MLP, shared tables, as many heads of keys as of queries.

    Args:
        config: The file.
        hidden: Width of the residual.
        heads: Heads of attention.
        layers: What the number of layers may be called.
    """
    return {
        "layers": config.layers(*layers),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": config.divided("hidden size", hidden, "heads", heads) if heads else 0,
        "gated_mlp": False,
        "vocab": config.count("vocab_size"),
        "tied_embeddings": config.flag("tie_word_embeddings", default=True),
    }


def routed(config: ConfigFile, experts: int, width: int, *keys: str) -> Fields:
    """Routed experts of that number and width; the keys name how many a token visits."""
    per_token = config.count(*(keys or ("num_experts_per_tok",)))
    return {"experts": experts, "experts_per_token": per_token, "moe_ffn": width}


def one_shared(width: int) -> Fields:
    """One shared expert of that width, none where it is 0."""
    return {"shared_experts": 1 if width else 0, "shared_ffn": width}


def gated_expert(config: ConfigFile) -> Fields:
    """Qwen's shared expert, behind a gate."""
    shared = one_shared(config.count("shared_expert_intermediate_size", default=0))
    return shared | {"shared_gate": shared["shared_ffn"] > 0}


def norms_of_heads(fields: Fields) -> int:
    """Parameters of norms over all heads of queries and keys together."""
    return int(fields["layers"] * (fields["heads"] + fields["kv_heads"]) * fields["head_dim"])


def deepseek_experts(config: ConfigFile) -> Fields:
    """Routed and shared experts by DeepSeek's names, which many share."""
    experts = config.count("n_routed_experts")
    return routed(config, experts, config.count("moe_intermediate_size")) | {
        "expert_groups": config.count("n_group", default=1) or 1,
        "groups_per_token": config.count("topk_group", default=1) or 1,
        "shared_experts": config.count("n_shared_experts", default=0),
        "moe_layer_start": config.count("first_k_dense_replace", default=0),
        "moe_every": config.count("moe_layer_freq", default=1),
    }


def sparse_steps(config: ConfigFile) -> Fields:
    """Qwen: layer i has experts when i + 1 is a multiple of the step and `mlp_only_layers` does not list i."""
    step = max(config.count("decoder_sparse_step", default=1), 1)
    dense = set(config.numbers("mlp_only_layers"))
    if not dense:
        return {"moe_every": step, "moe_layer_start": step - 1}
    layers = config.layers()
    feeds = ["dense" if layer in dense or (layer + 1) % step else "experts" for layer in range(layers)]
    return {"blocks": blocks([Block(layers=1, feed=feed) for feed in feeds])}


def blocks(layers: Sequence[Block]) -> tuple[Block, ...]:
    """Single layers as blocks of those that are alike and follow one another."""
    found: list[Block] = []
    for layer in layers:
        if found and replace(found[-1], layers=1) == layer:
            found[-1] = replace(found[-1], layers=found[-1].layers + 1)
        else:
            found.append(layer)
    return tuple(found)


def qwen_window(config: ConfigFile) -> int | None:
    """Qwen writes a window into every file and switches it off by another key."""
    used = config.flag("use_sliding_window", default=False)
    return config.optional_count("sliding_window") if used else None


def window_layers(config: ConfigFile, *, period: int) -> Fields:
    """A window on all layers but each `period`-th; `layer_types` says the same layer by layer where it stands."""
    kinds, window = config.words("layer_types"), config.optional_count("sliding_window")
    plain = {"sliding_window": window, "sliding_every": period}
    if not kinds or not window:
        return plain
    full = "full_attention"
    ruled = [full if index % period == period - 1 else "sliding_attention" for index in range(len(kinds))]
    if kinds == ruled:
        return plain
    config.check_kinds("layer_types", {"sliding_attention", "chunked_attention", full})
    return {"blocks": blocks([Block(layers=1, window=0 if kind == full else window) for kind in kinds])}


def with_experts(made: Sequence[Block], start: int, every: int) -> tuple[Block, ...]:
    """The same blocks, with experts in each `every`-th layer from `start` on."""
    single = [replace(block, layers=1) for block in made for _ in range(block.layers)]
    found = []
    for index, block in enumerate(single):
        has = index >= start and (index - start) % every == 0
        found.append(replace(block, feed="experts" if has else "dense"))
    return blocks(found)


@register("llama", "internlm2", "Yi", "aquila", "xverse")
def llama(config: ConfigFile) -> Fields:
    """Llama 1 to 3 and whoever calls itself so."""
    return base(config) | {
        "attention_bias": bias(config),
        "mlp_bias": config.flag("mlp_bias", default=False),
    }


@register("mistral", "phi3", "internlm3", "granite")
def mistral(config: ConfigFile) -> Fields:
    """Llama without biases, perhaps with a sliding window."""
    return base(config) | {"sliding_window": config.optional_count("sliding_window")}


@register("phimoe")
def phi_moe(config: ConfigFile) -> Fields:
    """Phi 3.5 MoE: Mixtral with biases on attention, norms and the output projection."""
    return mixtral(config) | {
        "norm": "layer",
        "attention_bias": bias(config),
        "head_bias": config.flag("lm_head_bias", default=False),
    }


@register("mixtral")
def mixtral(config: ConfigFile) -> Fields:
    """Experts in every layer, each of the width that a dense model calls `intermediate_size`."""
    fields = mistral(config)
    experts = routed(config, config.count("num_local_experts"), fields["ffn"])
    return fields | experts | {"ffn": 0}


@register("mimo")
def mimo(config: ConfigFile) -> Fields:
    """MiMo 7B: Qwen 2 with a layer that predicts a further token."""
    return qwen2(config) | {"mtp_layers": config.count("num_nextn_predict_layers", default=0)}


@register("minimax_m2")
def minimax(config: ConfigFile) -> Fields:
    """MiniMax M2: Mixtral's shape with normalised queries and keys and a bias on the router's choice."""
    router_bias = config.flag("use_routing_bias", default=True)
    return mixtral(config) | {"qk_norm": config.flag("use_qk_norm", default=True), "router_bias": router_bias}


@register("minimax_m3", "minimax_m3_vl")
def minimax_m3(config: ConfigFile) -> Fields:
    """MiniMax M3: M2's attention and an index that picks blocks of keys; first layers lack it and are dense."""
    width = config.count("intermediate_size")
    fields = base(config, ffn=config.count("dense_intermediate_size"))
    sparse = config.inner("sparse_attention_config")
    picks = sparse.numbers("sparse_attention_freq") or [1] * fields["layers"]
    has = config.numbers("moe_layer_freq")
    for key, found in (("sparse_attention_freq", picks), ("moe_layer_freq", has)):
        if not config.check_length(key, len(found), fields["layers"]):
            return fields
    made = [
        Block(layers=1, feed="experts" if expert else "dense", index="own" if picked else "none")
        for expert, picked in zip(has, picks, strict=True)
    ]
    return (
        fields
        | routed(config, config.count("num_local_experts"), width)
        | {
            "qk_norm": config.flag("use_qk_norm", default=True),
            "router_bias": config.flag("use_routing_bias", default=True),
            "shared_experts": config.count("n_shared_experts", default=1),
            "shared_ffn": config.count("shared_intermediate_size", default=width),
            "sparse_keys": sparse.count("sparse_topk_blocks") * sparse.count("sparse_block_size"),
            "index_heads": sparse.count("sparse_num_index_heads"),
            "index_dim": sparse.count("sparse_index_dim"),
            "mtp_layers": config.count("num_mtp_modules", default=0),
            "blocks": blocks(made),
        }
    )


@register("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_5_omni_text")
def qwen2(config: ConfigFile) -> Fields:
    """Qwen 1.5 to 2.5, dense: a bias on queries, keys and values."""
    return base(config) | {"attention_bias": "qkv", "sliding_window": qwen_window(config)}


@register("qwen2_moe")
def qwen2_moe(config: ConfigFile) -> Fields:
    """Qwen 1.5 and 2 with experts: one shared expert of its own width, behind a gate."""
    fields = qwen2(config) | sparse_steps(config)
    fields |= routed(config, config.count("num_experts"), config.count("moe_intermediate_size"))
    return fields | gated_expert(config)


@register("qwen3", "qwen3_vl_text")
def qwen3(config: ConfigFile) -> Fields:
    """Qwen 3, dense: normalised queries and keys."""
    window = qwen_window(config)
    return base(config) | {"attention_bias": bias(config), "qk_norm": True, "sliding_window": window}


@register("qwen3_moe", "qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text")
def qwen3_moe(config: ConfigFile) -> Fields:
    """Qwen 3 with experts."""
    fields = qwen3(config) | sparse_steps(config)
    return fields | routed(config, config.count("num_experts"), config.count("moe_intermediate_size"))


@register("glm4_moe")
def glm4_moe(config: ConfigFile) -> Fields:
    """GLM 4.5: DeepSeek's experts with grouped-query attention."""
    fields = base(config) | {
        "attention_bias": bias(config, which="qkv"),
        "qk_norm": config.flag("use_qk_norm", default=False),
    }
    mtp_layers = config.count("num_nextn_predict_layers", default=0)
    return fields | deepseek_experts(config) | {"router_bias": True, "mtp_layers": mtp_layers}


@register("deepseek_v2", "deepseek_vl_v2")
def deepseek_v2(config: ConfigFile) -> Fields:
    """DeepSeek V2: latent attention, first layers dense, routed and shared experts.

    DeepSeek-VL2's language model leaves latent attention out where its ranks are 0.
    """
    mla = latent(config)
    fields = base(config, head_dim=mla.query_dim) | {"mla": mla}
    return fields | (deepseek_experts(config) if config.has("n_routed_experts") else {})


@register("deepseek_v3", "kimi_k2", "glm4_moe_lite")
def deepseek_v3(config: ConfigFile) -> Fields:
    """DeepSeek V3 and GLM 4.7 Flash: as V2, with a bias on the router's choice and multi-token prediction."""
    biased = config.word("topk_method", "noaux_tc") == "noaux_tc" and config.has("n_routed_experts")
    return deepseek_v2(config) | {
        "router_bias": biased,
        "mtp_layers": config.count("num_nextn_predict_layers", default=0),
    }


@register("deepseek_v32", "glm_moe_dsa")
def deepseek_v32(config: ConfigFile) -> Fields:
    """DeepSeek V3.2 and GLM 5: as V3, with a learned index that picks the keys of a query.

    GLM 5.2 lists in `indexer_types` which layers have an index and which read that of an earlier layer.
    """
    fields = deepseek_v3(config) | {
        "sparse_keys": config.count("index_topk"),
        "index_heads": config.count("index_n_heads"),
        "index_dim": config.count("index_head_dim"),
    }
    kinds = config.words("indexer_types")
    config.check_kinds("indexer_types", {"full", "shared"})
    if "shared" in kinds and config.check_length("indexer_types", len(kinds), fields["layers"]):
        made = [Block(layers=1, index="shared" if kind == "shared" else "own") for kind in kinds]
        fields["blocks"] = with_experts(made, fields["moe_layer_start"], fields["moe_every"])
    return fields


@register("gpt_oss")
def gpt_oss(config: ConfigFile) -> Fields:
    """GPT-OSS: biases everywhere, attention sinks, every second layer with a window."""
    fields = base(config)
    experts = config.count("num_local_experts")
    return (
        fields
        | routed(config, experts, fields["ffn"], "num_experts_per_tok", "experts_per_token")
        | {
            "ffn": 0,
            "router_bias": True,
            "attention_bias": bias(config, default=True),
            "attention_sinks": True,
            "mlp_bias": True,
            **window_layers(config, period=2),
        }
    )


@register("llama4", "llama4_text")
def llama4(config: ConfigFile) -> Fields:
    """Llama 4: one routed and one shared expert a token, in every layer or every second one."""
    fields = base(config)
    width = fields["ffn"]
    step = config.count("interleave_moe_layer_step", default=1)
    return (
        fields
        | routed(config, config.count("num_local_experts"), width)
        | {
            "ffn": config.count("intermediate_size_mlp", default=width),
            "shared_experts": 1,
            "moe_every": step,
            "moe_layer_start": max(step - 1, 0),
        }
    )


@register("gemma")
def gemma(config: ConfigFile) -> Fields:
    """Gemma 1: wide heads, embeddings shared."""
    return base(config, tied=True) | {"attention_bias": bias(config)}


@register("gemma2")
def gemma2(config: ConfigFile) -> Fields:
    """Gemma 2: four normalisations a layer, every second layer with a window."""
    return gemma(config) | {"norms_per_layer": 4, **window_layers(config, period=2)}


@register("gemma3", "gemma3_text")
def gemma3(config: ConfigFile) -> Fields:
    """Gemma 3: as Gemma 2 with normalised queries and keys, and five windows to one full layer."""
    period = config.count("sliding_window_pattern", default=6)
    return gemma(config) | {"norms_per_layer": 4, "qk_norm": True, **window_layers(config, period=period)}


@register("phi")
def phi(config: ConfigFile) -> Fields:
    """Phi 1 and 2: attention and MLP side by side behind one normalisation, biases everywhere."""
    return base(config) | {
        "gated_mlp": False,
        "norm": "layer",
        "norms_per_layer": 1,
        "attention_bias": "all",
        "mlp_bias": True,
        "head_bias": True,
    }


@register("gpt_neox")
def gpt_neox(config: ConfigFile) -> Fields:
    """GPT-NeoX and Pythia: plain MLP, biases, two normalisations."""
    return base(config) | {
        "gated_mlp": False,
        "norm": "layer",
        "attention_bias": bias(config, default=True),
        "mlp_bias": True,
    }


@register("gpt2")
def gpt2(config: ConfigFile) -> Fields:
    """GPT-2: its own names, learned positions."""
    hidden, heads = config.count("n_embd"), config.count("n_head")
    positions = config.count("n_positions", "n_ctx")
    return {
        **native_names(config, hidden, heads, "n_layer"),
        "ffn": config.count("n_inner", default=4 * hidden),
        "max_seq": positions,
        "learned_positions": positions,
        "norm": "layer",
        "attention_bias": "all",
        "mlp_bias": True,
    }


@register("falcon", "RefinedWebModel", "RefinedWeb")
def falcon(config: ConfigFile) -> Fields:
    """Falcon: few key-value heads; the newer ones normalise attention and MLP separately.

    Files of 2023 call the first of them `RefinedWebModel` (7B) and the newer ones `RefinedWeb` (40B).
    """
    hidden, heads = config.count("hidden_size", "n_embed"), config.count("num_attention_heads", "n_head")
    new = config.flag("new_decoder_architecture", default=config.word("model_type") == "RefinedWeb")
    grouped = config.count("num_kv_heads", "n_head_kv", default=heads) if new else 0
    single = 1 if config.flag("multi_query", default=True) else heads
    biased = config.flag("bias", default=False)
    parallel = config.flag("parallel_attn", default=True)
    return {
        **native_names(config, hidden, heads, "num_hidden_layers", "n_layer"),
        "kv_heads": grouped or single,
        "ffn": config.count("ffn_hidden_size", default=4 * hidden),
        "max_seq": config.count("max_position_embeddings", default=2048),
        "norm": "layer",
        "norms_per_layer": 1 if parallel and not new else 2,
        "attention_bias": "all" if biased else "none",
        "mlp_bias": biased,
    }


@register("mpt")
def mpt(config: ConfigFile) -> Fields:
    """MPT: no biases, no positions; key-value heads are in `attn_config`."""
    hidden, heads = config.count("d_model"), config.count("n_heads")
    ratio = config.fields.get("expansion_ratio", 4)
    if isinstance(ratio, bool) or not isinstance(ratio, int) or not 0 < ratio <= 64:
        config.refuse("expansion_ratio", "expected an integer", found=ratio, allowed="1 to 64")
        ratio = 4
    grouped = config.table("attn_config").get("kv_n_heads", heads)
    if isinstance(grouped, bool) or not isinstance(grouped, int):
        config.refuse("kv_n_heads", "expected an integer", found=grouped)
        grouped = heads
    free = config.flag("no_bias", default=True)
    return {
        **native_names(config, hidden, heads, "n_layers"),
        "kv_heads": grouped,
        "ffn": ratio * hidden,
        "max_seq": config.count("max_seq_len", default=2048),
        "norm": "layer-no-bias" if free else "layer",
        "attention_bias": "none" if free else "all",
        "mlp_bias": not free,
    }
