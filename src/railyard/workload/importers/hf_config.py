"""Reads a Hugging Face `config.json` into a `Model`."""

from __future__ import annotations

from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.catalog import Model, Provenance
from railyard.catalog.checks import check
from railyard.catalog.fields import records
from railyard.errors import did_you_mean
from railyard.workload.importers.config_file import ConfigFile
from railyard.workload.importers.families import base, families

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
HYBRID_KEYS = ("hybrid_override_pattern", "attn_layer_period", "ssm_state_size", "linear_num_value_heads")


def read(path: Path) -> Model:
    """The architecture that a `config.json` describes.

    A `model_type` that Railyard does not know is read as a Llama when it has Llama's keys; the summary and the source
    of every field say so.

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
    known = kind in families
    values = families.get(kind)(config) if known else _as_llama(config, kind)
    config.raise_problems()
    model = _model(config, values, kind, known=known)
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


def _as_llama(config: ConfigFile, kind: str) -> dict[str, Any]:
    values = base(config)
    if config.problems:
        hint = did_you_mean(kind, families)
        message = f"`{kind}` is not known, and the file lacks keys by which it could be read as a Llama"
        config.refuse("model_type", message, allowed=", ".join(families), hint=hint)
    return values


def _model(config: ConfigFile, values: Mapping[str, Any], kind: str, *, known: bool) -> Model:
    name = _name(config)
    note = "" if known else f"; model_type `{kind}` is not known to Railyard and was read as a Llama"
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
    said = config.outer.get("_name_or_path")
    if isinstance(said, str) and said.strip("./ "):
        return said
    return (
        config.path.parent.name if config.path.name == "config.json" and config.path.parent.name else config.path.stem
    )
