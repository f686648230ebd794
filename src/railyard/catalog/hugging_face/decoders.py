"""Decoders that do not follow Llama: their names for the same dimensions, biases, norms and positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.catalog.block import Block
from railyard.catalog.hugging_face.families import (
    Fields,
    base,
    bias,
    blocks,
    deepseek_experts,
    latent,
    native_names,
    norms_of_heads,
    one_shared,
    register,
    routed,
    window_layers,
)

if TYPE_CHECKING:
    from railyard.catalog.hugging_face.config_file import ConfigFile

_PLAIN = {"gated_mlp": False, "norm": "layer", "attention_bias": "all", "mlp_bias": True}


@register("opt")
def opt(config: ConfigFile) -> Fields:
    """OPT: learned positions, two more than there are places; the smallest projects its embeddings."""
    hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
    places, vocab = config.count("max_position_embeddings", default=2048), config.count("vocab_size")
    narrow = config.count("word_embed_proj_dim", default=hidden)
    found = native_names(config, hidden, heads, "num_hidden_layers") | _PLAIN
    if narrow != hidden:
        config.refuse(
            "word_embed_proj_dim", "is not the hidden size: projected embeddings are not read", allowed=hidden
        )
    return found | {
        "vocab": vocab,
        "ffn": config.count("ffn_dim", default=4 * hidden),
        "max_seq": places,
        "learned_positions": places + 2,
    }


@register("bloom")
def bloom(config: ConfigFile) -> Fields:
    """BLOOM: attention with linear biases by distance, a norm behind the embeddings."""
    hidden, heads = config.count("hidden_size", "n_embed"), config.count("n_head", "num_attention_heads")
    found = native_names(config, hidden, heads, "n_layer", "num_hidden_layers") | _PLAIN
    places = config.count("seq_length", default=2048)
    return found | {"ffn": 4 * hidden, "max_seq": places, "side_parameters": 2 * hidden}


@register("gptj", "codegen")
def gptj(config: ConfigFile) -> Fields:
    """GPT-J and CodeGen: attention and MLP side by side behind one norm, rotary positions, a head with a bias."""
    hidden, heads = config.count("n_embd"), config.count("n_head")
    tied = config.flag("tie_word_embeddings", default=False)
    return native_names(config, hidden, heads, "n_layer") | {
        **_PLAIN,
        "attention_bias": "none",
        "norms_per_layer": 1,
        "ffn": config.count("n_inner", default=4 * hidden),
        "max_seq": config.count("n_positions", default=2048),
        "tied_embeddings": tied,
        "head_bias": True,
    }


@register("gpt_neo")
def gpt_neo(config: ConfigFile) -> Fields:
    """GPT-Neo: every second layer with a window, learned positions, no bias on queries, keys and values."""
    hidden, heads = config.count("hidden_size"), config.count("num_heads", "num_attention_heads")
    places = config.count("max_position_embeddings", default=2048)
    found = native_names(config, hidden, heads, "num_layers", "num_hidden_layers") | _PLAIN
    return found | {
        "ffn": config.count("intermediate_size", default=4 * hidden),
        "max_seq": places,
        "learned_positions": places,
        "attention_bias": "none",
        "side_parameters": found["layers"] * hidden,  # the output projection's bias
        "blocks": _local(config, found["layers"]),
    }


def _local(config: ConfigFile, layers: int) -> tuple[Block, ...]:
    window = config.count("window_size", default=256)
    kinds = config.words("attention_layers") or [("global", "local")[layer % 2] for layer in range(layers)]
    config.check_length("attention_layers", len(kinds), layers)
    return blocks([Block(layers=1, window=window if kind == "local" else 0) for kind in kinds])


@register("gpt_bigcode")
def gpt_bigcode(config: ConfigFile) -> Fields:
    """StarCoder and SantaCoder: GPT-2 with one head of keys and values."""
    hidden, heads = config.count("n_embd"), config.count("n_head")
    places = config.count("n_positions")
    return native_names(config, hidden, heads, "n_layer") | {
        **_PLAIN,
        "kv_heads": 1 if config.flag("multi_query", default=True) else heads,
        "ffn": config.count("n_inner", default=4 * hidden),
        "max_seq": places,
        "learned_positions": places,
    }


@register("starcoder2")
def starcoder2(config: ConfigFile) -> Fields:
    """StarCoder 2: grouped heads, plain MLP, biases, perhaps a window."""
    biased = config.flag("use_bias", default=True)
    return base(config, tied=True) | {
        **_PLAIN,
        "attention_bias": "all" if biased else "none",
        "mlp_bias": biased,
        "sliding_window": config.optional_count("sliding_window"),
    }


@register("stablelm", "stablelm_epoch")
def stablelm(config: ConfigFile) -> Fields:
    """StableLM: Llama with norms that have biases; perhaps attention and MLP side by side."""
    parallel = config.flag("use_parallel_residual", default=False)
    biased = config.flag("use_qkv_bias", default=False)
    fields = base(config)
    if config.flag("qk_layernorm", default=False):
        fields["side_parameters"] = norms_of_heads(fields)
    return fields | {
        "norm": "layer",
        "norms_per_layer": 1 if parallel else 2,
        "attention_bias": "qkv" if biased else "none",
    }


@register("persimmon")
def persimmon(config: ConfigFile) -> Fields:
    """Persimmon: plain MLP, biases, normalised queries and keys."""
    return base(config) | _PLAIN | {"qk_norm": config.flag("qk_layernorm", default=True)}


@register("nemotron")
def nemotron(config: ConfigFile) -> Fields:
    """Nemotron 3 and 4, Minitron: squared ReLU in a plain MLP, norms with biases."""
    return base(config) | {
        "gated_mlp": False,
        "norm": "layer",
        "attention_bias": bias(config),
        "mlp_bias": config.flag("mlp_bias", default=False),
    }


@register("arcee", "apertus")
def ungated(config: ConfigFile) -> Fields:
    """Arcee and Apertus: Llama with a plain MLP."""
    return base(config) | {
        "gated_mlp": False,
        "attention_bias": bias(config),
        "qk_norm": config.word("model_type") == "apertus",
    }


@register("olmo", "hf_olmo")
def olmo(config: ConfigFile) -> Fields:
    """OLMo: norms without parameters."""
    return base(config) | {"attention_bias": bias(config), "norms_per_layer": 0}


@register("olmo2", "olmo3", "olmoe", "flex_olmo")
def olmo2(config: ConfigFile) -> Fields:
    """OLMo 2 and 3, OLMoE: queries and keys normalised over all heads together; windows, experts."""
    fields = base(config)
    experts = config.count("num_experts", default=0)
    if experts:
        fields |= routed(config, experts, fields["ffn"]) | {"ffn": 0}
    if config.has("sliding_window"):
        fields |= window_layers(config, period=4)
    return fields | {"attention_bias": bias(config), "side_parameters": norms_of_heads(fields)}


@register("cohere", "cohere2")
def cohere(config: ConfigFile) -> Fields:
    """Command: attention and MLP side by side behind one norm, embeddings shared; windows in three of four layers."""
    fields = base(config, tied=True) | {"norm": "layer-no-bias", "norms_per_layer": 1, "attention_bias": bias(config)}
    if config.flag("use_qk_norm", default=False):
        fields["side_parameters"] = norms_of_heads(fields)
    if config.word("model_type") == "cohere2":
        fields |= window_layers(config, period=config.count("sliding_window_pattern", default=4))
    return fields


@register("dbrx")
def dbrx(config: ConfigFile) -> Fields:
    """DBRX: sixteen experts of which four are visited; its dimensions are in two objects."""
    hidden, heads = config.count("d_model"), config.count("n_heads")
    attention, feed = config.inner("attn_config"), config.inner("ffn_config")
    return native_names(config, hidden, heads, "n_layers") | {
        "tied_embeddings": config.flag("tie_word_embeddings", default=False),
        "kv_heads": attention.count("kv_n_heads", default=1),
        "ffn": 0,
        "gated_mlp": True,
        "norm": "layer-no-bias",
        "max_seq": config.count("max_seq_len", default=2048),
        "experts": feed.count("moe_num_experts", default=4),
        "experts_per_token": feed.count("moe_top_k", default=1),
        "moe_ffn": feed.count("ffn_hidden_size"),
    }


@register("grok-1", "grok_1", "grok-2", "grok_2", "grok")
def grok(config: ConfigFile) -> Fields:
    """Grok: eight experts of which two are visited, four norms; in Grok 2 an MLP next to the experts."""
    fields = base(config, tied=config.word("model_type").startswith("grok-1"))
    beside = config.flag("residual_moe", default=False)
    width = config.count("moe_intermediate_size", default=fields["ffn"])
    experts = config.count("num_experts", "num_local_experts")
    found = fields | routed(config, experts, width, "num_experts_per_tok", "num_selected_experts")
    return found | one_shared(fields["ffn"] if beside else 0) | {"norms_per_layer": 4, "ffn": 0}


@register("arctic")
def arctic(config: ConfigFile) -> Fields:
    """Snowflake Arctic: 128 experts and a dense MLP as wide as the model."""
    fields = base(config)
    every = max(config.count("moe_layer_frequency", default=2), 1)
    beside = config.flag("parallel_attn_mlp_res", default=True)
    experts = routed(config, config.count("num_local_experts", default=8), fields["ffn"])
    rule = {"norms_per_layer": 3 if beside else 2, "moe_every": every, "moe_layer_start": every - 1}
    return fields | experts | one_shared(fields["hidden"] if beside else 0) | rule


@register("hunyuan", "hunyuan_v1_dense", "hunyuan_v1_moe")
def hunyuan(config: ConfigFile) -> Fields:
    """Hunyuan: keys and values that several layers share; routed and shared experts."""
    fields = base(config) | {
        "attention_bias": bias(config),
        "qk_norm": config.flag("use_qk_norm", default=True),
        "tied_embeddings": config.flag("tie_word_embeddings", default=False),
    }
    experts = config.per_layer("num_experts", default=1)
    feed = "experts" if experts > 1 else "dense"
    if experts > 1:
        width = config.per_layer("moe_intermediate_size", default=fields["ffn"])
        fields |= {"experts": experts, "experts_per_token": config.per_layer("moe_topk", default=1), "moe_ffn": width}
        fields |= {"shared_experts": config.per_layer("num_shared_expert", default=1), "ffn": 0}
        fields["shared_ffn"] = width
    if not config.flag("use_cla", default=False):
        return fields
    factor = max(config.count("cla_share_factor", default=1), 1)
    queries = 2 * fields["hidden"] * fields["heads"] * fields["head_dim"] + 2 * fields["head_dim"]

    def block(layer: int) -> Block:
        late = layer % factor != 0
        return Block(layers=1, feed=feed, cached=not late, mixer_parameters=queries if late else 0)

    return fields | {"blocks": blocks([block(layer) for layer in range(fields["layers"])])}


@register("ernie4_5", "ernie4_5_moe", "ernie4_5_moe_vl", "ernie4_5_vl_moe")
def ernie(config: ConfigFile) -> Fields:
    """ERNIE 4.5: Llama, or routed and shared experts from some layer on."""
    biased = config.flag("use_bias", default=False)
    fields = base(config, tied=True) | {"attention_bias": "all" if biased else "none", "mlp_bias": biased}
    if not config.has("moe_num_experts"):
        return fields
    layers, last = fields["layers"], config.count("moe_layer_end_index", default=fields["layers"] - 1)
    start, every = (
        config.count("moe_layer_start_index", default=1),
        max(config.count("moe_layer_interval", default=1), 1),
    )
    fields |= routed(config, config.count("moe_num_experts"), config.count("moe_intermediate_size"), "moe_k")
    fields |= {"shared_experts": config.count("moe_num_shared_experts", default=0), "router_bias": True}
    if last in (layers - 1, -1):
        return fields | {"moe_layer_start": start, "moe_every": every}
    feeds = ["experts" if start <= n <= last and (n - start) % every == 0 else "dense" for n in range(layers)]
    return fields | {"blocks": blocks([Block(layers=1, feed=feed) for feed in feeds])}


@register("qwen")
def qwen(config: ConfigFile) -> Fields:
    """Qwen 1: one width for both halves of the gated MLP, a bias on queries, keys and values."""
    fields = base(config) | {"attention_bias": "qkv"}
    return fields | {"ffn": fields["ffn"] // 2, "max_seq": config.count("seq_length", default=2048)}


@register("chatglm")
def chatglm(config: ConfigFile) -> Fields:
    """ChatGLM 2 and 3, GLM-4-9B: their own names for Llama's dimensions."""
    hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
    grouped = config.flag("multi_query_attention", default=False)
    biased = config.flag("add_qkv_bias", default=False)
    return {
        "layers": config.layers("num_layers", "num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": config.count("multi_query_group_num", default=1) if grouped else heads,
        "head_dim": config.count("kv_channels", default=128),
        "ffn": config.count("ffn_hidden_size"),
        "gated_mlp": True,
        "vocab": config.count("padded_vocab_size", "vocab_size"),
        "tied_embeddings": config.flag("tie_word_embeddings", default=False),
        "max_seq": config.count("seq_length", default=2048),
        "attention_bias": "qkv" if biased else "none",
    }


@register("glm", "glm4")
def glm(config: ConfigFile) -> Fields:
    """GLM 4: a bias on queries, keys and values; the later one has four norms."""
    norms = 4 if config.word("model_type") == "glm4" else 2
    return base(config) | {"attention_bias": bias(config, which="qkv"), "norms_per_layer": norms}


@register("baichuan", "internlm", "orion", "minicpm", "smollm3", "seed_oss", "helium", "exaone4", "solar", "telechat2")
def llama_like(config: ConfigFile) -> Fields:
    """Llama by its names: with biases where the file says so, norms with biases in Orion, windows in EXAONE 4."""
    kind = config.word("model_type")
    biased = config.flag("bias", default=config.flag("attention_bias", default=kind == "seed_oss"))
    which = "qkv" if kind == "seed_oss" else "all"
    fields = base(config, tied=kind in ("minicpm", "smollm3"))
    if kind == "exaone4":
        pattern = config.fields.get("sliding_window_pattern", "LLLG")
        period = len(pattern) if isinstance(pattern, str) else config.count("sliding_window_pattern", default=4)
        fields |= window_layers(config, period=period)
    return fields | {
        "attention_bias": which if biased else "none",
        "mlp_bias": config.flag("mlp_bias", default=False),
        "norm": "layer" if kind == "orion" else "rms",
        "qk_norm": kind == "exaone4",
    }


@register("exaone")
def exaone(config: ConfigFile) -> Fields:
    """EXAONE 3: Llama under GPT's names."""
    config.fields.setdefault("num_hidden_layers", config.fields.get("num_layers"))
    return base(config)


@register("granitemoe", "granitemoeshared")
def granite_moe(config: ConfigFile) -> Fields:
    """Granite 3 with experts."""
    fields = base(config, tied=True) | {"attention_bias": bias(config)}
    shared = one_shared(config.count("shared_intermediate_size", default=0))
    return fields | routed(config, config.count("num_local_experts"), fields["ffn"]) | shared | {"ffn": 0}


@register("minicpm3")
def minicpm3(config: ConfigFile) -> Fields:
    """MiniCPM 3: latent attention, dense; values as wide as the hidden size says."""
    heads = config.count("num_attention_heads")
    value = config.divided("hidden_size", config.count("hidden_size"), "num_attention_heads", heads) if heads else 0
    mla = latent(config, value)
    return base(config, tied=True) | {"head_dim": mla.query_dim, "mla": mla}


@register("deepseek")
def deepseek(config: ConfigFile) -> Fields:
    """DeepSeekMoE: routed and shared experts with plain attention."""
    return base(config) | {"attention_bias": bias(config)} | deepseek_experts(config)


@register("dots1")
def dots(config: ConfigFile) -> Fields:
    """dots.llm1: DeepSeek's experts, normalised queries and keys."""
    return base(config) | {"qk_norm": True, "router_bias": True} | deepseek_experts(config)


@register("bailing_moe", "bailing_moe_v2")
def bailing(config: ConfigFile) -> Fields:
    """Ling and Ring: DeepSeek's experts with grouped attention."""
    fields = base(config) | {"qk_norm": config.flag("use_qk_norm", default=config.word("model_type").endswith("v2"))}
    found = routed(config, config.count("num_experts"), config.count("moe_intermediate_size"))
    return (
        fields
        | found
        | {
            "shared_experts": config.count("num_shared_experts", default=0),
            "shared_ffn": config.count("moe_shared_expert_intermediate_size", default=0),
            "moe_layer_start": config.count("first_k_dense_replace", default=0),
            "expert_groups": config.count("n_group", default=1) or 1,
            "groups_per_token": config.count("topk_group", default=1) or 1,
            "router_bias": config.flag("moe_router_enable_expert_bias", default=False),
            "mtp_layers": config.count("num_nextn_predict_layers", default=0),
        }
    )
