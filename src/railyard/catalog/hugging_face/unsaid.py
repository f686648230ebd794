"""Facts that a file of an unknown type says by many names or leaves out: found by other keys, assumed, or asked for.

A fact is asked for where no key tells it and a wrong guess would move the parameters by more than `MOST_UNSAID`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.catalog.hugging_face.config_file import ConfigFile
    from railyard.catalog.model import Model

# Names of a model's dimensions in configuration files. The usual name first.
NAMES: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "n_embed", "d_model", "dim", "model_dim"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads"),
    "kv_heads": (
        *("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "kv_n_heads"),
        *("num_attention_groups", "num_query_groups", "multi_query_group_num"),
    ),
    "head_dim": ("head_dim", "kv_channels", "attention_head_dim", "d_head", "head_size"),
    "ffn": (
        *("intermediate_size", "ffn_hidden_size", "ffn_dim", "inter_dim", "hidden_dim", "d_ff", "n_inner"),
        "mlp_hidden_size",
    ),
    "vocab": ("vocab_size", "padded_vocab_size", "n_vocab"),
    "max_seq": (
        *("max_position_embeddings", "max_seq_len", "seq_length", "n_positions", "max_sequence_length"),
        *("model_max_length", "context_length", "n_ctx", "max_context_length"),
    ),
    "experts": (
        *("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "num_routed_experts"),
        *("n_experts", "num_moe_experts"),
    ),
    "experts_per_token": (
        *("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_top_k", "moe_topk", "moe_k"),
        *("n_activated_experts", "top_k_experts", "num_selected_experts", "moe_router_topk", "num_activated_experts"),
    ),
    "moe_ffn": (
        *("moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size"),
        *("moe_inter_dim", "routed_expert_intermediate_size", "expert_hidden_size"),
    ),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "shared_ffn": (
        *("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size"),
        "share_expert_dim",
    ),
    "start": (
        *("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers", "n_dense_layers", "first_k_dense"),
        "num_first_dense_layers",
    ),
    "every": ("moe_layer_freq", "moe_layer_interval", "moe_layer_frequency", "interleave_moe_layer_step"),
    "groups": ("n_group", "n_expert_groups"),
    "groups_per_token": ("topk_group", "n_limited_groups"),
    "mtp": ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "num_mtp_modules"),
    "window": ("sliding_window", "sliding_window_size", "window_size", "attention_window_size"),
    "index_heads": ("index_n_heads", "sparse_num_index_heads"),
    "index_dim": ("index_head_dim", "sparse_index_dim"),
}
# Largest share of the parameters that may rest on an assumption for which the file gives no reason.
MOST_UNSAID = 0.02
_ACTIVATIONS = ("hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act", "activation")
_GATES = ("silu", "swi", "geglu", "reglu", "glu")
_LAYER_NORMS = ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "layernorm_epsilon")
_GPT2 = ("n_embd", "n_embed")
# Keys of layers that no function here reads: recurrences, shared blocks, tables for each layer, encoders.
_UNREAD = re.compile(
    r"^(mamba|ssm|rwkv|lru|xlstm|laurel|altup|hyena|retention|linear_(num|key|value|attn|conv)|conv_kernel|state_size)"
    r"|^(num_mem_blocks|use_cla|layer_group_size|type_vocab_size|num_kv_shared_layers|num_decoder_layers|d_kv)$"
    r"|per_layer_input"
)
_EXPERT_KEY = re.compile(r"expert|moe_|_moe")
# Integers about experts that change no tensor.
_EXPERT_ASIDE = re.compile(r"capacity|coef|group|parallel|device|loss|seed|dispatch")


def refuse_unread(config: ConfigFile) -> None:
    """Refuses keys that give layers a shape that is not read: without them the count would be another model's."""
    known = {name for names in NAMES.values() for name in names}
    for key, value in config.fields.items():
        if not value or key in known or isinstance(value, (str, float)):
            continue
        counted = isinstance(value, int) and not isinstance(value, bool)
        if _UNREAD.search(key):
            config.refuse(key, "describes layers that are not read", found=value)
        elif counted and _EXPERT_KEY.search(key) and not _EXPERT_ASIDE.search(key):
            config.refuse(key, "describes experts, and its meaning is not known", found=value)


def layer_norm(config: ConfigFile) -> bool:
    """Whether the norms are LayerNorms: by the key of their epsilon, unless another key speaks of RMS."""
    named = config.word("norm_type") == "layer_norm"
    return not _rms(config) and (named or any(config.has(key) for key in (*_GPT2, *_LAYER_NORMS)))


def _rms(config: ConfigFile) -> bool:
    return any("rms" in key and value for key, value in config.fields.items())


def gated(config: ConfigFile, *, modern: bool) -> bool:
    """Whether the MLP has a gate, by its own key, the activation or the kind of norm; else it is asked for.

    SiLU comes with a gate. GELU has one behind an RMS norm (Gemma) and none behind a LayerNorm, and ReLU has none
    behind a LayerNorm. Without an activation, models with RMS norms or of a `modern` shape have the gate, and those by
    GPT-2's names do not.

    Args:
        config: The file.
        modern: Whether the model has experts, latent attention, or an MLP that is not four times as wide as the model,
            which all come with a gate.
    """
    if config.has("gated_mlp"):
        return config.flag("gated_mlp", default=True)
    act = next((config.word(key) for key in _ACTIVATIONS if config.has(key)), "")
    found, why = _by_activation(config, act) if act else _by_age(config, modern=modern)
    if not why:
        config.refuse(
            "gated_mlp",
            "is missing: no key says whether the MLP has a gate (three matrices) or not (two)",
            allowed="true, false",
        )
    elif not (act and act.startswith(_GATES)):
        config.assumed.append(f"{'gated' if found else 'plain'} MLP ({why})")
    return found


def _by_activation(config: ConfigFile, act: str) -> tuple[bool, str]:
    if act.startswith(_GATES):
        return True, f"the activation is `{act}`"
    if layer_norm(config):
        return False, f"`{act}` behind a LayerNorm"
    return True, f"`{act}` behind an RMS norm" if act.startswith("gelu") and _rms(config) else ""


def _by_age(config: ConfigFile, *, modern: bool) -> tuple[bool, str]:
    rms, old = _rms(config), any(config.has(key) for key in _GPT2)
    if old and not rms and not modern:
        return False, "by GPT-2's names; no key names the activation"
    return True, "no key names the activation" if not old and not layer_norm(config) and (rms or modern) else ""


def tied(config: ConfigFile, model: Model) -> bool:
    """Whether input and output share a table, where the file does not say.

    `save_pretrained` of transformers leaves the key out where it is true, and it always writes its version.
    """
    saved = config.outer.get("transformers_version") is not None
    found = saved or not config.has("dim")
    if not saved and model.vocab * model.hidden > MOST_UNSAID * model.parameters():
        config.refuse(
            "tie_word_embeddings",
            "is missing: no key says whether input and output share one embedding",
            allowed="true, false",
        )
    config.assumed.append(f"{'tied' if found else 'untied'} embeddings (no `tie_word_embeddings`)")
    return found


def kv_heads(config: ConfigFile, layers: int, heads: int, *, latent: bool) -> list[int]:
    """Heads of keys and values in every layer; as many as of queries where no key says."""
    if config.flag("multi_query", default=False) or config.flag("multi_query_attention", default=False):
        return each(config, "kv_heads", layers, default=1)
    if heads and not latent and not any(config.has(key) for key in NAMES["kv_heads"]):
        config.assumed.append(f"as many heads of keys and values as of queries (no `{NAMES['kv_heads'][0]}`)")
    return each(config, "kv_heads", layers, default=heads)


def widths(config: ConfigFile, layers: int, hidden: int, *, due: bool) -> list[int]:
    """Widths of the dense MLP in every layer; GPT-2's names leave out what is four times the hidden size."""
    native = any(config.has(key) for key in _GPT2) or "n_inner" in config.fields
    if native and due and not any(config.has(key) for key in NAMES["ffn"]):
        config.assumed.append("an MLP four times as wide as the model (no `n_inner`)")
    return each(config, "ffn", layers, default=4 * hidden if native else None if due else 0)


def each(config: ConfigFile, what: str, layers: int, default: int | None = None) -> list[int]:
    """A dimension of every layer: a number for all, or a list."""
    names = NAMES[what]
    key = next((name for name in names if config.has(name)), None)
    if key is not None and isinstance(config.fields[key], list):
        found = config.numbers(key)
        return found if config.check_length(key, len(found), layers) else [0] * layers
    return [config.count(*names, default=default)] * layers
