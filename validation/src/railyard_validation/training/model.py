"""The architecture of a row's model: the table's own dimensions, the rest from the catalogue, else a default."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from railyard.catalog import MLA, Model
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.catalog import Catalog
    from railyard_validation.training.table import Row

# Tables of GPT runs often leave the vocabulary out: GPT-2's, padded for tensor parallelism.
_GPT_VOCAB = 51200
_MLA_PART = {"q_lora": "q_lora", "kv_lora": "kv_lora", "nope": "nope_dim", "rope": "rope_dim", "v": "v_dim"}
# DeepSeek-V2's dimensions, for rows that say `MLA` and no more.
_MLA_DEFAULT = {"q_lora": 1536, "kv_lora": 512, "nope_dim": 128, "rope_dim": 64, "v_dim": 128}


class UnknownShapeError(InputError):
    """A row names a model whose dimensions nobody states."""


def model_of(row: Row, catalog: Catalog, defaults: list[str]) -> Model:
    """The model of a row.

    Args:
        row: With its dimensions, or only a name that the catalogue knows.
        catalog: For names.
        defaults: Receives a line for each fact that had to be assumed.

    Raises:
        UnknownShapeError: The dimensions are unknown.
        InputError: They do not fit together.
    """
    known = _known(row, catalog)
    if "layers" not in row.integers or "hidden" not in row.integers:
        if known is None:
            raise UnknownShapeError(
                f"the dimensions of `{row.get('model')}` are neither in the table nor in the catalogue", key="layers"
            )
        defaults.append(f"model dimensions from the catalogue entry {known.name}")
        return known
    return _from_row(row, known, defaults)


def _known(row: Row, catalog: Catalog) -> Model | None:
    name = re.sub(r"\s*\(cut to .*\)$", "", row.get("model"))
    try:
        return catalog.model(name) if name else None
    except InputError:
        return None


def _from_row(row: Row, known: Model | None, defaults: list[str]) -> Model:
    gated = row.get("gated_mlp", "0") == "1"
    latent = _latent(row, defaults)
    experts = row.integers.get("experts", 0)
    heads, hidden = row.integers.get("heads", 0), row.integers["hidden"]
    if not heads:
        raise UnknownShapeError("the number of attention heads is unknown", key="heads")
    sizes: dict[str, Any] = {
        "layers": row.integers["layers"],
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads if latent else _kv_heads(row, heads, defaults),
        "head_dim": latent.nope_dim + latent.rope_dim if latent else row.integers.get("head_dim", hidden // heads),
        "ffn": row.integers.get("ffn", 0 if experts else 4 * hidden),
        "vocab": row.integers.get("vocab", _GPT_VOCAB),
        "experts": experts,
        "experts_per_token": row.integers.get("topk", 0),
        "moe_ffn": row.integers.get("moe_ffn", 0),
        "shared_experts": row.integers.get("shared_experts", 0),
    }
    _note_assumed(row, defaults)
    if known is not None:
        return _overlaid(known, sizes, latent, row)
    plain: dict[str, Any] = {"gated_mlp": gated, "tied_embeddings": not gated, "norm": "rms" if gated else "layer"}
    # Models without a gate are of the GPT family: learned positions (or ALiBi), no rotary ones.
    plain |= {"learned_positions": 0 if gated else row.integers["seq_len"], "max_seq": row.integers["seq_len"]}
    start = 1 if experts and sizes["ffn"] else 0
    if start:
        defaults.append("first layer dense, the others with experts")
    return Model(
        name=row.get("model", "GPT"), mla=latent, moe_layer_start=min(start, sizes["layers"]), **sizes, **plain
    )


def _overlaid(known: Model, sizes: dict[str, Any], latent: MLA | None, row: Row) -> Model:
    """The catalogue's entry with the table's dimensions; a model cut short keeps at most one dense layer in front."""
    start = known.moe_layer_start
    if sizes["layers"] < known.layers:
        start = min(start, 1)
    prediction = known.mtp_layers if "w/o MTP" not in row.get("model") and sizes["layers"] == known.layers else 0
    changes: dict[str, Any] = {
        **sizes,
        "mla": latent or known.mla,
        "moe_layer_start": start,
        "mtp_layers": prediction,
    }
    if sizes["ffn"] == 0 and known.ffn:
        changes["ffn"] = known.ffn
    return dataclasses.replace(known, **changes)


def _kv_heads(row: Row, heads: int, defaults: list[str]) -> int:
    text = row.get("kv_heads")
    if text.isdigit() and int(text):
        return int(text)
    defaults.append(f"{heads} heads of keys and values, as of queries")
    return heads


def _latent(row: Row, defaults: list[str]) -> MLA | None:
    text = row.get("kv_heads")
    if not text.startswith("MLA"):
        return None
    found = {_MLA_PART[name]: int(value) for name, value in re.findall(r"(q_lora|kv_lora|nope|rope|v)(\d+)", text)}
    assumed = [f"{name} {value}" for name, value in _MLA_DEFAULT.items() if name not in found]
    if assumed:
        defaults.append("latent attention: " + ", ".join(assumed))
    return MLA(**{**_MLA_DEFAULT, **found})


def _note_assumed(row: Row, defaults: list[str]) -> None:
    if "vocab" not in row.integers:
        defaults.append(f"vocabulary {_GPT_VOCAB}")
    if "ffn" not in row.integers and not row.integers.get("experts"):
        defaults.append("feed-forward width 4 x hidden")
