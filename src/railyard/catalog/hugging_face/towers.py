"""Towers for images and sound beside the language model, counted from their dimensions.

A tower is a stack of attention and MLP with a projector in front of the language model. Families whose tensors are
known are counted to the parameter; of others the layers are counted and what joins them is estimated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.catalog.hugging_face.config_file import ConfigFile

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
