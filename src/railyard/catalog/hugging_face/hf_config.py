"""Reads a Hugging Face `config.json` into a `Model`."""

from __future__ import annotations

from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.catalog import Model, Provenance
from railyard.catalog.checks import check
from railyard.catalog.hugging_face.config_file import ConfigFile
from railyard.catalog.hugging_face.families import families
from railyard.errors import did_you_mean
from railyard.schema.field import records

if TYPE_CHECKING:
    from collections.abc import Mapping

# Configurations with the familiar keys that are nevertheless no decoder-only transformers.
REFUSED = {
    "encoder": (
        "bert",
        "roberta",
        "deberta",
        "deberta-v2",
        "distilbert",
        "electra",
        "albert",
        "xlm-roberta",
        "vit",
        "clip",
    ),
    "encoder-decoder": ("t5", "mt5", "bart", "mbart", "pegasus", "whisper", "marian"),
    "state-space or hybrid": (
        "mamba",
        "mamba2",
        "jamba",
        "nemotron_h",
        "bamba",
        "zamba",
        "zamba2",
        "falcon_h1",
        "rwkv",
    ),
}
# A key by which a family is known, tried in this order; whoever has none of them and no experts is read as a Llama.
LIKENESS = {
    "kv_lora_rank": "deepseek_v3",
    "n_routed_experts": "glm4_moe",
    "num_local_experts": "mixtral",
    "shared_expert_intermediate_size": "qwen2_moe",
    "moe_intermediate_size": "qwen3_moe",
}
HYBRID_KEYS = ("hybrid_override_pattern", "attn_layer_period", "ssm_state_size", "linear_num_value_heads")


def read(path: Path) -> Model:
    """The architecture that a `config.json` describes.

    A `model_type` that Railyard does not know is read as the family whose keys it uses, Llama's at last; the summary
    and the source of every field say so.

    Args:
        path: The file, or the folder of the model in which it lies.

    Raises:
        InputError: The file cannot be read, is of no decoder-only transformer, or lacks a field; says file, key and
            what is allowed, for all that is wrong at once.
    """
    config = ConfigFile(Path(path))
    kind = config.word("model_type")
    _refuse_others(config, kind)
    config.raise_problems()
    family = kind if kind in families else _likeness(config, kind)
    values = _read_like(config, kind, family)
    config.raise_problems()
    model = _model(config, values, kind, family)
    for key, message in check(model):
        config.refuse(key, message)
    config.raise_problems()
    return model


def _refuse_others(config: ConfigFile, kind: str) -> None:
    for family, names in REFUSED.items():
        if kind in names:
            config.refuse("model_type", f"`{kind}` is of the {family} family", allowed="decoder-only transformers")
    if config.outer.get("is_encoder_decoder") is True:
        config.refuse("is_encoder_decoder", "an encoder-decoder model is not read", allowed="decoder-only transformers")
    for key in HYBRID_KEYS:
        if config.has(key) and not config.problems:
            config.refuse(key, "belongs to a hybrid of attention and state-space layers, which is not read")


def _likeness(config: ConfigFile, kind: str) -> str:
    """The known family whose keys an unknown `model_type` uses."""
    for key, family in LIKENESS.items():
        if config.has(key):
            return family
    for key in config.fields:
        if "expert" in key or key.startswith("moe"):
            message = f"`{kind}` is not known, and this key says that it has experts of an unknown kind"
            config.refuse(key, message, allowed=", ".join(families))
    return "llama"


def _read_like(config: ConfigFile, kind: str, family: str) -> dict[str, Any]:
    values = families.get(family)(config)
    if config.problems and family != kind:
        message = f"`{kind}` is not known, and the file lacks keys by which it could be read as `{family}`"
        config.refuse("model_type", message, allowed=", ".join(families), hint=did_you_mean(kind, families))
    return values


def _model(config: ConfigFile, values: Mapping[str, Any], kind: str, family: str) -> Model:
    name = _name(config)
    note = "" if family == kind else f"; model_type `{kind}` is not known to Railyard and was read as `{family}`"
    source = f"{config.path}{note}"
    given = {name: value for name, value in values.items() if value is not None}
    provenance = {
        field.name: Provenance(str(given[field.name]), source, 0, "user")
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
