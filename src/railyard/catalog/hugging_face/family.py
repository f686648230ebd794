"""What families of configurations share: the registry, the fields that most name alike, experts, windows.

One function a family, in the files beside this one. To add one: write a function from `ConfigFile` to the fields of a
`Model` and register it under its `model_type`. The defaults are those of the `transformers` configuration classes,
where a file may leave a key out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from railyard.catalog.block import Block
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.catalog.hugging_face.config_file import ConfigFile

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
        "max_seq": config.count("max_position_embeddings", default=4096),
        "norm": "rms",
    }


def bias(config: ConfigFile, *, default: bool = False, which: str = "all") -> str:
    """Which projections of attention have a bias, by the key that most families have."""
    return which if config.flag("attention_bias", default=default) else "none"


def native_names(config: ConfigFile, hidden: int, heads: int, *, layers: str, other: str | None = None) -> Fields:
    """What families with names like GPT's have alike: a plain MLP, shared tables.

    Args:
        config: The file.
        hidden: Width of the residual.
        heads: Heads of attention.
        layers: What the number of layers is called.
        other: What else it may be called.
    """
    return {
        "layers": config.layers(layers, *([other] if other else [])),
        "hidden": hidden,
        "heads": heads,
        "head_dim": config.divided("hidden size", hidden, "heads", heads) if heads else 0,
        "gated_mlp": False,
        "vocab": config.count("vocab_size"),
        "tied_embeddings": config.flag("tie_word_embeddings", default=True),
    }


def routed(config: ConfigFile, experts: int, width: int, *keys: str) -> Fields:
    """Routed experts of that number and width; the keys name how many a token visits."""
    per_token = config.count(*(keys or ("num_experts_per_tok",)))
    return {"experts": experts, "experts_per_token": per_token, "moe_ffn": width}


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


def window_layers(config: ConfigFile, *, period: int, of: str = "sliding_window") -> Fields:
    """A window on all layers but each `period`-th; `layer_types` says the same layer by layer where it stands."""
    kinds, window = config.words("layer_types"), config.optional_count(of)
    plain = {"sliding_window": window, "sliding_every": period}
    if not kinds or not window:
        return plain
    full = "full_attention"
    ruled = [full if index % period == period - 1 else "sliding_attention" for index in range(len(kinds))]
    if kinds == ruled:
        return plain
    config.check_kinds("layer_types", {"sliding_attention", "chunked_attention", full})
    return {"blocks": blocks([Block(layers=1, window=0 if kind == full else window) for kind in kinds])}


def with_experts(made: Sequence[Block], start: int, every: int = 1) -> tuple[Block, ...]:
    """The same blocks, with experts in each `every`-th layer from `start` on."""
    single = [replace(block, layers=1) for block in made for _ in range(block.layers)]
    found = []
    for index, block in enumerate(single):
        has = index >= start and (index - start) % every == 0
        found.append(replace(block, feed="experts" if has else "dense"))
    return blocks(found)
