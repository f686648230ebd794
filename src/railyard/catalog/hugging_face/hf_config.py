"""Reads a Hugging Face `config.json` into a `Model`."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.catalog.checks import check
from railyard.catalog.hugging_face import decoders, hybrids, layered  # noqa: F401 (they register)
from railyard.catalog.hugging_face.by_keys import by_keys
from railyard.catalog.hugging_face.config_file import ConfigFile
from railyard.catalog.hugging_face.families import families
from railyard.catalog.hugging_face.unsaid import NAMES
from railyard.catalog.model import Model
from railyard.kit.errors import did_you_mean
from railyard.kit.files import read_text
from railyard.kit.schema.field import records
from railyard.kit.schema.quantity import Provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from railyard.kit.schema.yaml import Node


SECTIONS = ("vision_config", "audio_config")
_DEPTH = ("depth", "num_hidden_layers", "vt_num_hidden_layers", "encoder_layers", "layers", "num_layers")
_WIDTH = ("hidden_size", "embed_dim", "vt_hidden_size", "d_model", "width")
_INNER = ("intermediate_size", "vt_intermediate_size", "encoder_ffn_dim")
# Sides of a square of patches that are joined in front of the language model.
_MERGE = ("spatial_merge_size", "scale_factor")


def towers(config: ConfigFile, hidden: int) -> int:
    """Parameters of all towers and what joins them to a language model of that width; 0 without.

    Args:
        config: The file.
        hidden: Width of the language model.
    """
    total = 0
    for name in SECTIONS:
        section = config.outside(name)
        if section is not None:
            total += _tower(section, hidden)
    return total


def estimated(config: ConfigFile) -> bool:
    """Whether a tower's projector is a guess, for its family's tensors are not known."""
    sections = (config.outside(name) for name in SECTIONS)
    return any(one is not None and _tower(one, 1) and _kind(one) not in _KNOWN for one in sections)


def _tower(section: ConfigFile, hidden: int) -> int:
    depth, width = section.count(*_DEPTH, default=0), section.count(*_WIDTH, default=0)
    inner = section.count(*_INNER, default=4 * width)
    if not depth or not width:
        return 0
    special = _KNOWN.get(_kind(section))
    layers = depth * (_layer(width, inner) + (width * inner if _kind(section) in _GATED else 0))
    return layers + (special or _joined)(section, width, hidden)


def _kind(section: ConfigFile) -> str:
    """The type of a tower, or by a key that only one has."""
    return section.word("model_type") or ("qwen3_vl" if section.has("deepstack_visual_indexes") else "")


def _layer(width: int, inner: int) -> int:
    """Attention and MLP of two matrices with biases, and two norms with biases."""
    return 4 * width * width + 4 * width + 2 * width * inner + inner + width + 4 * width


def _patches(section: ConfigFile, width: int) -> int:
    side = section.count("patch_size", default=14)
    channels = section.count("in_channels", "num_channels", default=3)
    return channels * section.count("temporal_patch_size", default=1) * side * side * width + width


def _joined(section: ConfigFile, width: int, hidden: int) -> int:
    """Patches, and a projector of two matrices over merged patches: an estimate."""
    merge = max(section.count(*_MERGE, default=1), 1)
    wide = width * min(merge * merge, 16)
    return _patches(section, width) + wide * hidden + hidden * hidden


def _qwen(section: ConfigFile, width: int, hidden: int) -> int:
    """Qwen3-VL and 3.5: learned positions; a merger behind the last layer and one for each deep stack."""
    merge = section.count("spatial_merge_size", default=2)
    wide, out = width * merge * merge, section.count("out_hidden_size", default=hidden)
    deep = len(section.numbers("deepstack_visual_indexes"))
    merger = wide * wide + wide + wide * out + out
    norms = 2 * width + deep * 2 * wide
    return (
        _patches(section, width)
        + section.count("num_position_embeddings", default=0) * width
        + (1 + deep) * merger
        + norms
    )


def _qwen25(section: ConfigFile, width: int, hidden: int) -> int:
    """Qwen2.5-VL: a gated MLP with biases, norms and patches without; one merger."""
    merge = section.count("spatial_merge_size", default=2)
    inner, depth = section.count("intermediate_size"), section.count("depth")
    wide, out = width * merge * merge, section.count("out_hidden_size", default=hidden)
    merger = width + wide * wide + wide + wide * out + out
    return _patches(section, width) - width + depth * (inner - 2 * width) + merger


def _siglip(section: ConfigFile, width: int, hidden: int) -> int:
    """Gemma 3's SigLIP: learned positions, a last norm; its patches are pooled, and one matrix leads on."""
    side = max(section.count("patch_size", default=14), 1)
    places = (section.count("image_size", default=896) // side) ** 2
    return 3 * side * side * width + width + places * width + 2 * width + width * hidden + width


def _llama4(section: ConfigFile, width: int, hidden: int) -> int:
    """Llama 4: pixel shuffle, an MLP of two matrices, a projector; learned positions and a class."""
    side = max(section.count("patch_size", default=14), 1)
    places = (section.count("image_size", default=336) // side) ** 2 + 1
    inner = section.count("intermediate_size", default=4 * width)
    middle = section.count("projector_input_dim", default=4096)
    out = section.count("projector_output_dim", default=middle)
    projector = inner * middle + middle * out + section.count("vision_output_dim", default=out) * hidden
    return 3 * side * side * width + (places + 1) * width + 4 * width + projector


# Towers whose MLP has a gate.
_GATED = ("gemma4_vision", "pixtral", "qwen2_5_vl")
_KNOWN: dict[str, Callable[[ConfigFile, int, int], int]] = {
    "qwen3_vl": _qwen,
    "qwen3_vl_moe": _qwen,
    "qwen3_omni_moe_vision_encoder": _qwen,
    "qwen2_5_vl": _qwen25,
    "qwen3_5": _qwen,
    "qwen3_5_moe": _qwen,
    "llama4_vision_model": _llama4,
    "siglip_vision_model": _siglip,
}


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


def read(path: Path, like: str = "") -> Model:
    """The architecture that a `config.json` describes.

    A file of a `model_type` that Railyard does not know is read by what its keys mean, or as the family that the caller
    says; then the summary and the source of every field say so.

    Args:
        path: The file, or the folder of the model in which it lies.
        like: A known `model_type` by whose names the file is read, whatever it calls itself.

    Raises:
        InputError: The file cannot be read, is of no decoder of text, or lacks a field; says file, key and what is
            allowed, for all that is wrong at once.
    """
    return _architecture(ConfigFile.read(Path(path)), like)


def model_of(node: Node, origin: Provenance) -> Model:
    """The architecture that the `config` of a catalogue entry describes by the keys of the publisher's file.

    Args:
        node: The mapping under `config`.
        origin: Source, year and confidence of its values.

    Raises:
        InputError: As in `read`.
    """
    path = Path(node.mark.file)
    text = read_text(path) if path.is_file() else ""
    model = _architecture(ConfigFile(path, text, node.plain()), "")
    said = {
        name: Provenance(
            known.value_text,
            origin.source,
            origin.year,
            known.confidence if known.confidence == "estimated" else origin.confidence,
        )
        for name, known in model.provenance.items()
    }
    return replace(model, provenance=said)


def _architecture(config: ConfigFile, like: str) -> Model:
    kind = config.word("model_type")
    config.raise_problems()
    family = _asked(config, like) if like else _family(config, kind)
    config.raise_problems()
    values, note = _read(config, family, kind)
    aside = towers(config, values.get("hidden", 0))
    if aside:
        values["side_parameters"] = values.get("side_parameters", 0) + aside
    config.raise_problems()
    guessed = frozenset({"side_parameters"}) if aside and estimated(config) else frozenset()
    if guessed and note:
        config.assumed.append("what joins a tower of images or sound to the language model")
    model = _model(config, values, note, guessed)
    for key, message in check(model):
        config.refuse(next((name for name in NAMES.get(key, ()) if config.has(name)), key), message)
    config.raise_problems()
    return model


def _read(config: ConfigFile, family: str, kind: str) -> tuple[dict[str, Any], str]:
    """The fields of the model, and a note where they were read by another name than the file's own."""
    if family:
        values = families.get(family)(config)
        config.raise_problems()
        plain = family in (kind, WRAPPED.get(kind, kind))
        return values, "" if plain else f"; model_type `{kind}` was read as `{family}`, as asked"
    values, how = by_keys(config)
    if config.problems:
        missing, config.problems = config.problems, []
        _unknown(config, kind)
        config.problems += missing
    config.raise_problems()
    return values, f"; {f'model_type `{kind}`' if kind else 'a file without a model_type'} was read {how}"


def _asked(config: ConfigFile, like: str) -> str:
    if like not in families:
        hint = did_you_mean(like, families)
        config.refuse("model_type", f"`{like}` is not a known type", allowed=", ".join(families), hint=hint)
    return like


def _family(config: ConfigFile, kind: str) -> str:
    """The family that reads the file: its type's, or that of the language model that it wraps; "" for none."""
    if config.outer.get("is_encoder_decoder") is True:
        config.refuse("is_encoder_decoder", "an encoder-decoder model is not read", allowed="decoders of text")
    for what, names in REFUSED.items():
        if kind in names:
            config.refuse("model_type", f"`{kind}` is {what}, which is not read", allowed=", ".join(families))
            return kind
    found = WRAPPED.get(kind, kind)
    return found if found in families else ""


def _unknown(config: ConfigFile, kind: str) -> None:
    """Notes that this type of model is unknown, so that its fields may be incomplete."""
    near = did_you_mean(kind, [*families, *WRAPPED])
    guess = f"to have it read as another family, say which behind the file: `{config.path.name} as llama`"
    what = f"`{kind}` is not known, and its keys do not say it all" if kind else "is missing, and keys are too"
    hint = f"{near}; {guess}" if near else guess
    config.refuse("model_type", what, found=kind or None, allowed=", ".join(families), hint=hint)


def _model(config: ConfigFile, values: Mapping[str, Any], note: str, guessed: frozenset[str]) -> Model:
    name = _name(config)
    source = f"{config.path}{note}"
    given = {name: value for name, value in values.items() if value is not None}
    provenance = {
        field.name: Provenance(_text(given[field.name]), source, 0, "estimated" if field.name in guessed else "user")
        for field in dataclass_fields(Model)
        if field.name in given and field.name in records(Model)
    }
    assumed = ", ".join(config.assumed)
    summary = f"read from {source}" + (f"; assumed: {assumed}" if assumed else "")
    return Model(name=name, summary=summary, assumed=assumed, provenance=provenance, **values)


def _text(value: object) -> str:
    """A value in words; of blocks how many layers of each kind there are."""
    if is_dataclass(value):
        return ", ".join(f"{item.name} {getattr(value, item.name)}" for item in dataclass_fields(value))
    if not isinstance(value, tuple):
        return str(value).lower() if isinstance(value, bool) else str(value)
    counts: Counter[str] = Counter()
    for block in value:
        window = f", window {block.window}" if block.window else ""
        counts[f"{block.mixer} + {block.feed}{window}"] += block.layers
    return "; ".join(f"{count} x {kind}" for kind, count in counts.items())


def _name(config: ConfigFile) -> str:
    """The model's name: what the file says it is, else the folder, else its type, else the file."""
    name = config.outer.get("_name_or_path")
    if isinstance(name, str) and name.strip("./ "):
        return name
    if config.path.name != "config.json":
        return config.path.stem
    return config.path.parent.name or str(config.outer.get("model_type") or config.path.stem)
