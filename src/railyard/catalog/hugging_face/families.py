"""What each `model_type` of a Hugging Face configuration calls its dimensions, and which parts its layers have.

One function a family. To add one: write a function from `ConfigFile` to the fields of a `Model` and register it under
its `model_type`. The defaults are those of the `transformers` configuration classes, where a file may leave a key out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.catalog import MLA
from railyard.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.catalog.hugging_face.config_file import ConfigFile

Fields = dict[str, Any]

families: Registry[Callable[[ConfigFile], Fields]] = Registry("model_type")


def _register(*names: str) -> Callable[[Callable[[ConfigFile], Fields]], Callable[[ConfigFile], Fields]]:
    def add(family: Callable[[ConfigFile], Fields]) -> Callable[[ConfigFile], Fields]:
        for name in names:
            families.add(name, family)
        return family

    return add


def base(config: ConfigFile, *, tied: bool = False) -> Fields:
    """The fields that Llama and all its descendants name alike.

    Args:
        config: The file.
        tied: Whether embeddings are shared where the file does not say.
    """
    hidden = config.count("hidden_size")
    heads = config.count("num_attention_heads")
    head_dim = config.optional_count("head_dim")
    if head_dim is None:
        head_dim = config.divided("hidden_size", hidden, "num_attention_heads", heads) if heads else 0
    return {
        "layers": config.count("num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": config.count("num_key_value_heads", default=heads),
        "head_dim": head_dim,
        "ffn": config.count("intermediate_size"),
        "gated_mlp": True,
        "vocab": config.count("vocab_size"),
        "tied_embeddings": config.flag("tie_word_embeddings", default=tied),
        "max_seq": config.count("max_position_embeddings", default=4096),
        "norm": "rms",
    }


def _bias(config: ConfigFile, *, default: bool = False, which: str = "all") -> str:
    return which if config.flag("attention_bias", default=default) else "none"


@_register("llama")
def llama(config: ConfigFile) -> Fields:
    """Llama 1 to 3 and whoever calls itself so."""
    return base(config) | {
        "attention_bias": _bias(config),
        "mlp_bias": config.flag("mlp_bias", default=False),
    }


@_register("mistral", "phi3", "internlm3", "granite")
def mistral(config: ConfigFile) -> Fields:
    """Llama without biases, perhaps with a sliding window."""
    return base(config) | {"sliding_window": config.optional_count("sliding_window")}


@_register("mixtral", "phimoe")
def mixtral(config: ConfigFile) -> Fields:
    """Experts in every layer, each of the width that a dense model calls `intermediate_size`."""
    fields = mistral(config)
    experts = _routed(config, config.count("num_local_experts"), fields["ffn"])
    return fields | experts | {"ffn": 0}


@_register("minimax_m2")
def minimax(config: ConfigFile) -> Fields:
    """MiniMax M2: Mixtral's shape with normalised queries and keys and a bias on the router's choice."""
    router_bias = config.flag("use_routing_bias", default=True)
    return mixtral(config) | {"qk_norm": config.flag("use_qk_norm", default=True), "router_bias": router_bias}


@_register("qwen2")
def qwen2(config: ConfigFile) -> Fields:
    """Qwen 1.5 to 2.5, dense: a bias on queries, keys and values."""
    return base(config) | {"attention_bias": "qkv", "sliding_window": _qwen_window(config)}


@_register("qwen2_moe")
def qwen2_moe(config: ConfigFile) -> Fields:
    """Qwen 1.5 and 2 with experts: one shared expert of its own width, behind a gate."""
    fields = qwen2(config) | _sparse_steps(config)
    fields |= _routed(config, config.count("num_experts"), config.count("moe_intermediate_size"))
    shared = config.count("shared_expert_intermediate_size", default=0)
    return fields | {"shared_experts": 1 if shared else 0, "shared_ffn": shared, "shared_gate": shared > 0}


@_register("qwen3")
def qwen3(config: ConfigFile) -> Fields:
    """Qwen 3, dense: normalised queries and keys."""
    window = _qwen_window(config)
    return base(config) | {"attention_bias": _bias(config), "qk_norm": True, "sliding_window": window}


@_register("qwen3_moe", "qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3_omni_moe")
def qwen3_moe(config: ConfigFile) -> Fields:
    """Qwen 3 with experts."""
    fields = qwen3(config) | _sparse_steps(config)
    return fields | _routed(config, config.count("num_experts"), config.count("moe_intermediate_size"))


@_register("glm4_moe")
def glm4_moe(config: ConfigFile) -> Fields:
    """GLM 4.5: DeepSeek's experts with grouped-query attention."""
    fields = base(config) | {
        "attention_bias": _bias(config, which="qkv"),
        "qk_norm": config.flag("use_qk_norm", default=False),
    }
    mtp_layers = config.count("num_nextn_predict_layers", default=0)
    return fields | _deepseek_experts(config) | {"router_bias": True, "mtp_layers": mtp_layers}


@_register("deepseek_v2")
def deepseek_v2(config: ConfigFile) -> Fields:
    """DeepSeek V2: latent attention, first layers dense, routed and shared experts."""
    nope = config.count("qk_nope_head_dim")
    rope = config.count("qk_rope_head_dim")
    mla = MLA(
        q_lora=config.count("q_lora_rank", default=0),
        kv_lora=config.count("kv_lora_rank"),
        rope_dim=rope,
        nope_dim=nope,
        v_dim=config.count("v_head_dim"),
    )
    fields = base(config) | {"head_dim": nope + rope, "mla": mla}
    return fields | (_deepseek_experts(config) if config.has("n_routed_experts") else {})


@_register("deepseek_v3", "kimi_k2")
def deepseek_v3(config: ConfigFile) -> Fields:
    """DeepSeek V3: as V2, with a bias on the router's choice and multi-token prediction."""
    biased = config.word("topk_method", "noaux_tc") == "noaux_tc" and config.has("n_routed_experts")
    return deepseek_v2(config) | {
        "router_bias": biased,
        "mtp_layers": config.count("num_nextn_predict_layers", default=0),
    }


@_register("gpt_oss")
def gpt_oss(config: ConfigFile) -> Fields:
    """GPT-OSS: biases everywhere, attention sinks, every second layer with a window."""
    fields = base(config)
    experts = config.count("num_local_experts")
    routed = _routed(config, experts, fields["ffn"], "num_experts_per_tok", "experts_per_token")
    return (
        fields
        | routed
        | {
            "ffn": 0,
            "router_bias": True,
            "attention_bias": _bias(config, default=True),
            "attention_sinks": True,
            "mlp_bias": True,
            **_window_layers(config, period=2),
        }
    )


@_register("llama4", "llama4_text")
def llama4(config: ConfigFile) -> Fields:
    """Llama 4: one routed and one shared expert a token, in every layer or every second one."""
    fields = base(config)
    width = fields["ffn"]
    step = config.count("interleave_moe_layer_step", default=1)
    return (
        fields
        | _routed(config, config.count("num_local_experts"), width)
        | {
            "ffn": config.count("intermediate_size_mlp", default=width),
            "shared_experts": 1,
            "moe_every": step,
            "moe_layer_start": max(step - 1, 0),
        }
    )


@_register("gemma")
def gemma(config: ConfigFile) -> Fields:
    """Gemma 1: wide heads, embeddings shared."""
    return base(config, tied=True) | {"attention_bias": _bias(config)}


@_register("gemma2")
def gemma2(config: ConfigFile) -> Fields:
    """Gemma 2: four normalisations a layer, every second layer with a window."""
    return gemma(config) | {"norms_per_layer": 4, **_window_layers(config, period=2)}


@_register("gemma3", "gemma3_text")
def gemma3(config: ConfigFile) -> Fields:
    """Gemma 3: as Gemma 2 with normalised queries and keys, and five windows to one full layer."""
    period = config.count("sliding_window_pattern", default=6)
    return gemma(config) | {"norms_per_layer": 4, "qk_norm": True, **_window_layers(config, period=period)}


@_register("phi")
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


@_register("gpt_neox")
def gpt_neox(config: ConfigFile) -> Fields:
    """GPT-NeoX and Pythia: plain MLP, biases, two normalisations."""
    return base(config) | {
        "gated_mlp": False,
        "norm": "layer",
        "attention_bias": _bias(config, default=True),
        "mlp_bias": True,
    }


@_register("gpt2")
def gpt2(config: ConfigFile) -> Fields:
    """GPT-2: its own names, learned positions."""
    hidden, heads = config.count("n_embd"), config.count("n_head")
    positions = config.count("n_positions", "n_ctx")
    return {
        **_native_names(config, hidden, heads, layers="n_layer"),
        "kv_heads": heads,
        "ffn": config.count("n_inner", default=4 * hidden),
        "max_seq": positions,
        "learned_positions": positions,
        "norm": "layer",
        "attention_bias": "all",
        "mlp_bias": True,
    }


@_register("falcon")
def falcon(config: ConfigFile) -> Fields:
    """Falcon: few key-value heads; the newer ones normalise attention and MLP separately."""
    hidden, heads = config.count("hidden_size", "n_embed"), config.count("num_attention_heads", "n_head")
    new = config.flag("new_decoder_architecture", default=False)
    grouped = config.count("num_kv_heads", "n_head_kv", default=heads) if new else 0
    single = 1 if config.flag("multi_query", default=True) else heads
    bias = config.flag("bias", default=False)
    parallel = config.flag("parallel_attn", default=True)
    return {
        **_native_names(config, hidden, heads, layers="num_hidden_layers", other="n_layer"),
        "kv_heads": grouped or single,
        "ffn": config.count("ffn_hidden_size", default=4 * hidden),
        "max_seq": config.count("max_position_embeddings", default=2048),
        "norm": "layer",
        "norms_per_layer": 1 if parallel and not new else 2,
        "attention_bias": "all" if bias else "none",
        "mlp_bias": bias,
    }


@_register("mpt")
def mpt(config: ConfigFile) -> Fields:
    """MPT: no biases, no positions; key-value heads stand in `attn_config`."""
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
        **_native_names(config, hidden, heads, layers="n_layers"),
        "kv_heads": grouped,
        "ffn": ratio * hidden,
        "max_seq": config.count("max_seq_len", default=2048),
        "norm": "layer-no-bias" if free else "layer",
        "attention_bias": "none" if free else "all",
        "mlp_bias": not free,
    }


def _native_names(config: ConfigFile, hidden: int, heads: int, *, layers: str, other: str | None = None) -> Fields:
    return {
        "layers": config.count(layers, *([other] if other else [])),
        "hidden": hidden,
        "heads": heads,
        "head_dim": config.divided("hidden size", hidden, "heads", heads) if heads else 0,
        "gated_mlp": False,
        "vocab": config.count("vocab_size"),
        "tied_embeddings": config.flag("tie_word_embeddings", default=True),
    }


def _routed(config: ConfigFile, experts: int, width: int, *keys: str) -> Fields:
    per_token = config.count(*(keys or ("num_experts_per_tok",)))
    return {"experts": experts, "experts_per_token": per_token, "moe_ffn": width}


def _deepseek_experts(config: ConfigFile) -> Fields:
    routed = _routed(config, config.count("n_routed_experts"), config.count("moe_intermediate_size"))
    return routed | {
        "expert_groups": config.count("n_group", default=1) or 1,
        "groups_per_token": config.count("topk_group", default=1) or 1,
        "shared_experts": config.count("n_shared_experts", default=0),
        "moe_layer_start": config.count("first_k_dense_replace", default=0),
        "moe_every": config.count("moe_layer_freq", default=1),
    }


def _sparse_steps(config: ConfigFile) -> Fields:
    """Qwen: layer i has experts when i + 1 is a multiple of the step and `mlp_only_layers` does not list i."""
    step = config.count("decoder_sparse_step", default=1)
    if config.fields.get("mlp_only_layers"):
        config.refuse("mlp_only_layers", "lists dense layers one by one, which Railyard cannot express", allowed="[]")
    return {"moe_every": max(step, 1), "moe_layer_start": max(step - 1, 0)}


def _qwen_window(config: ConfigFile) -> int | None:
    """Qwen writes a window into every file and switches it off by another key."""
    used = config.flag("use_sliding_window", default=False)
    return config.optional_count("sliding_window") if used else None


def _window_layers(config: ConfigFile, *, period: int) -> Fields:
    """A window on all layers but each `period`-th; `layer_types` says the same layer by layer where it stands."""
    kinds = config.words("layer_types")
    if kinds and "full_attention" in kinds:
        period = kinds.index("full_attention") + 1
    return {"sliding_window": config.optional_count("sliding_window"), "sliding_every": period}
