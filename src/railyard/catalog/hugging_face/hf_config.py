"""Reads a Hugging Face `config.json` into a `Model`."""

from __future__ import annotations

from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.catalog import Model, Provenance
from railyard.catalog.checks import check
from railyard.catalog.hugging_face import decoders, hybrids, layered  # noqa: F401 (they register)
from railyard.catalog.hugging_face.config_file import ConfigFile
from railyard.catalog.hugging_face.family import families
from railyard.catalog.hugging_face.towers import estimated, towers
from railyard.errors import did_you_mean
from railyard.schema.field import records

if TYPE_CHECKING:
    from collections.abc import Mapping

# Configurations with the familiar keys that are nevertheless no decoders of text, or whose layers are not read.
REFUSED = {
    "an encoder": (
        "bert",
        "roberta",
        "deberta",
        "deberta-v2",
        "distilbert",
        "electra",
        "albert",
        "xlm-roberta",
        "modernbert",
        "vit",
        "clip",
    ),
    "an encoder-decoder": ("t5", "mt5", "umt5", "bart", "mbart", "pegasus", "whisper", "marian", "t5gemma"),
    "a hybrid whose layers share or join attention and state space": (
        "zamba",
        "zamba2",
        "falcon_h1",
        "hymba",
        "xlstm",
        "rwkv5",
        "rwkv6",
        "rwkv6qwen2",
        "rwkv7",
        "gemma3n",
        "gemma3n_text",
    ),
}
# Families whose language model stands in the same file under a type of its own, or under another family's names.
WRAPPED = {
    "qwen3_vl": "qwen3",
    "qwen3_omni_moe": "qwen3_moe",
    "kimi_k25": "kimi_k2",
    "kimi_k3": "kimi_linear",
    "step3_vl": "step3_text",
    "step3p7": "step3p5",
}
# A key by which a family may be guessed, tried in this order: a hint, never done in silence.
LIKENESS = {
    "kv_lora_rank": "deepseek_v3",
    "n_routed_experts": "glm4_moe",
    "num_local_experts": "mixtral",
    "shared_expert_intermediate_size": "qwen2_moe",
    "moe_intermediate_size": "qwen3_moe",
    "num_key_value_heads": "llama",
}
# What the fields of a model are called in configurations, to name the key in which a value is wrong.
_KEYS = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_dim": ("head_dim", "hidden_size"),
    "vocab": ("vocab_size",),
    "ffn": ("intermediate_size", "ffn_dim", "ffn_hidden_size"),
    "experts": ("num_experts", "num_local_experts", "n_routed_experts"),
    "experts_per_token": ("num_experts_per_tok", "experts_per_token"),
    "moe_ffn": ("moe_intermediate_size", "intermediate_size"),
    "max_seq": ("max_position_embeddings",),
}


def read(path: Path, like: str = "") -> Model:
    """The architecture that a `config.json` describes.

    A `model_type` that Railyard does not know is refused, unless the caller says as which family it is to be read; then
    the summary and the source of every field say so.

    Args:
        path: The file, or the folder of the model in which it lies.
        like: A known `model_type` by whose names the file is read, whatever it calls itself.

    Raises:
        InputError: The file cannot be read, is of no decoder of text, of an unknown type, or lacks a field; says file,
            key and what is allowed, for all that is wrong at once.
    """
    config = ConfigFile(Path(path))
    kind = config.word("model_type")
    config.raise_problems()
    family = _asked(config, like) if like else _family(config, kind)
    config.raise_problems()
    values = families.get(family)(config)
    config.raise_problems()
    aside = towers(config, values.get("hidden", 0))
    if aside:
        values["side_parameters"] = values.get("side_parameters", 0) + aside
    config.raise_problems()
    guessed = frozenset({"side_parameters"}) if aside and estimated(config) else frozenset()
    model = _model(config, values, kind, family if like else kind, guessed)
    for key, message in check(model):
        config.refuse(next((name for name in _KEYS.get(key, ()) if config.has(name)), key), message)
    config.raise_problems()
    return model


def _asked(config: ConfigFile, like: str) -> str:
    if like not in families:
        hint = did_you_mean(like, families)
        config.refuse("model_type", f"`{like}` is no known type", allowed=", ".join(families), hint=hint)
    return like


def _family(config: ConfigFile, kind: str) -> str:
    """The family that reads the file: its type's, or that of the language model that it wraps."""
    if config.outer.get("is_encoder_decoder") is True:
        config.refuse("is_encoder_decoder", "an encoder-decoder model is not read", allowed="decoders of text")
    for what, names in REFUSED.items():
        if kind in names:
            config.refuse("model_type", f"`{kind}` is {what}, which is not read", allowed=", ".join(families))
            return kind
    found = WRAPPED.get(kind, kind)
    if found not in families:
        _unknown(config, kind)
    return found


def _unknown(config: ConfigFile, kind: str) -> None:
    near = did_you_mean(kind, [*families, *WRAPPED])
    alike = next((family for key, family in LIKENESS.items() if config.has(key)), "llama")
    guess = f"to have it read as another family, say which behind the file: `{config.path.name} as {alike}`"
    what = f"`{kind}` is not known" if kind else "is missing, and by it the layers are known"
    hint = f"{near}; {guess}" if near else guess
    config.refuse("model_type", what, found=kind or None, allowed=", ".join(families), hint=hint)


def _model(config: ConfigFile, values: Mapping[str, Any], kind: str, family: str, guessed: frozenset[str]) -> Model:
    name = _name(config)
    note = "" if family == kind else f"; model_type `{kind}` was read as `{family}`, as asked"
    source = f"{config.path}{note}"
    given = {name: value for name, value in values.items() if value is not None}
    provenance = {
        field.name: Provenance(str(given[field.name]), source, 0, "estimated" if field.name in guessed else "user")
        for field in dataclass_fields(Model)
        if field.name in given and field.name in records(Model)
    }
    return Model(name=name, summary=f"read from {source}", provenance=provenance, **values)


def _name(config: ConfigFile) -> str:
    """The model's name: what the file says it is, else the folder, else the file."""
    name = config.outer.get("_name_or_path")
    if isinstance(name, str) and name.strip("./ "):
        return name
    return (
        config.path.parent.name if config.path.name == "config.json" and config.path.parent.name else config.path.stem
    )
