"""Deployments as columns: one row a replica on one kind of device, one array a quantity.

Every formula of the serving model is written once, over these arrays; one replica is a table of one row.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance

    from railyard.catalog import Accelerator, Model
    from railyard.workload.serving.layout import ServingLayout

F = NDArray[np.float64]
T = TypeVar("T", bound="DataclassInstance")

# Engines keep these parts in 16 bits whatever the weights' precision: the output projection, the router.
_HEAD_BYTES = 2.0


@dataclass(frozen=True, slots=True)
class ShapeColumns:
    """Architecture of the model, by layer; 0 where a part is absent.

    Attributes:
        layers, moe_layers, hidden, heads, kv_heads: As in the catalogue.
        score_dim, value_dim: Dimensions of a head in the scores and in the values, as prefill computes them.
        decode_dim: The sum of both as decode computes it (latent attention absorbs its up projections).
        latent: 1 for latent attention, whose cache tensor parallelism does not split.
        kv_elements: Cached elements of one token in one layer, of all heads.
        attention_parameters, mlp_parameters, expert_parameters, shared_parameters, router_parameters: Of one layer.
        experts, topk: Routed experts, and those of one token.
        groups: Groups of ranks that a token's experts lie in at most.
        window, windowed: Keys that a windowed layer sees, and the share of the layers that have the window.
        sparse_keys: Keys that a learned index picks for each query; 0 for all.
        head_bytes, total_parameters, expert_share: Of the output projection; of the model; routed experts' share of it.
    """

    layers: F
    moe_layers: F
    hidden: F
    heads: F
    kv_heads: F
    score_dim: F
    value_dim: F
    decode_dim: F
    latent: F
    kv_elements: F
    attention_parameters: F
    mlp_parameters: F
    expert_parameters: F
    shared_parameters: F
    router_parameters: F
    experts: F
    topk: F
    groups: F
    window: F
    windowed: F
    sparse_keys: F
    head_bytes: F
    total_parameters: F
    expert_share: F


@dataclass(frozen=True, slots=True)
class PlaceColumns:
    """Layout and widths: parallel degrees, bits of weights stored and multiplied, of a cached element with scales."""

    tp: F
    pp: F
    dp: F
    cp: F
    ep: F
    expert_tp: F
    dense_bits: F
    expert_bits: F
    dense_math: F
    expert_math: F
    kv_bits: F


@dataclass(frozen=True, slots=True)
class ServingDeviceColumns:
    """Rates of the device: bytes/s of memory and of scale-up and scale-out, FLOP/s of its best kernels."""

    memory_bytes_s: F
    memory_bytes: F
    flops16: F
    flops8: F
    flops4: F
    attention: F
    scale_up_bytes_s: F
    scale_out_bytes_s: F
    domain: F
    tdp_w: F


@dataclass(frozen=True, slots=True)
class Deployments:
    """Rows of replicas."""

    shape: ShapeColumns
    place: PlaceColumns
    device: ServingDeviceColumns


def stack(rows: Sequence[T]) -> T:
    """Columns of one row each, as columns of many rows."""
    first = rows[0]
    names = [field.name for field in fields(first)]
    return type(first)(*(_joined([getattr(row, name) for row in rows]) for name in names))


def _joined(parts: list[F]) -> F:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    joined: F = stack(parts)
    return joined


def take(columns: T, index: NDArray[np.int64]) -> T:
    """Rows of columns, by number."""
    parts = [getattr(columns, field.name) for field in fields(columns)]
    return type(columns)(*(part[index] if isinstance(part, np.ndarray) else take(part, index) for part in parts))


def shape(model: Model) -> ShapeColumns:
    """One row for a model of the catalogue."""
    mla = model.mla
    heads = float(model.heads)
    score = float(mla.nope_dim + mla.rope_dim) if mla else float(model.head_dim)
    value = float(mla.v_dim) if mla else float(model.head_dim)
    decode = float(2 * mla.kv_lora + mla.rope_dim) if mla else 2.0 * model.head_dim
    cached = float(mla.kv_lora + mla.rope_dim) if mla else 2.0 * model.kv_heads * model.head_dim
    windows = [model.window(layer) for layer in range(model.layers)]
    windowed = sum(window is not None for window in windows) / model.layers
    routed = model.moe_layers * model.experts * model.expert_parameters()
    total = model.parameters()
    values = {
        "layers": model.layers,
        "moe_layers": model.moe_layers,
        "hidden": model.hidden,
        "heads": heads,
        "kv_heads": model.kv_heads,
        "score_dim": score,
        "value_dim": value,
        "decode_dim": decode,
        "latent": 1.0 if mla else 0.0,
        "kv_elements": cached,
        "attention_parameters": model.attention_parameters(),
        "mlp_parameters": model.mlp_parameters() if model.ffn else 0.0,
        "expert_parameters": model.expert_parameters() if model.experts else 0.0,
        "shared_parameters": model.shared_parameters() if model.experts else 0.0,
        "router_parameters": model.router_parameters() if model.experts else 0.0,
        "experts": model.experts,
        "topk": model.experts_per_token,
        "groups": model.groups_per_token if model.expert_groups > 1 else max(model.experts_per_token, 1),
        "window": model.sliding_window or 0,
        "windowed": windowed,
        "sparse_keys": model.sparse_keys,
        "head_bytes": _HEAD_BYTES * model.vocab * model.hidden,
        "total_parameters": total,
        "expert_share": routed / total,
    }
    return ShapeColumns(**{name: np.array([float(number)]) for name, number in values.items()})


def active_parameters(shape: ShapeColumns) -> F:
    """Parameters that one token uses: all but the experts that it does not visit."""
    visited = np.where(shape.experts > 0, shape.topk / np.maximum(shape.experts, 1.0), 1.0)
    active: F = shape.total_parameters * (1.0 - shape.expert_share * (1.0 - visited))
    return active


def place(model: Model, device: Accelerator, layout: ServingLayout) -> PlaceColumns:
    """One row for a layout: widths as the engines choose them for that precision on that device."""
    dense, expert = layout.weight_bits(model)
    narrow = 4.0 if "fp4" in device.flops else (8.0 if "fp8" in device.flops else 16.0)
    # Four-bit weights without four-bit matrix units are multiplied in 16 bits.
    math = {bits: float(bits) if bits >= narrow else 16.0 for bits in (4, 8, 16)}
    values = (
        layout.tp,
        layout.pp,
        layout.dp_attention,
        layout.cp,
        layout.ep,
        max(layout.tp * layout.dp_attention // layout.ep, 1),
        dense,
        expert,
        math[dense],
        math[expert],
        layout.stored_kv_bits,
    )
    return PlaceColumns(*(np.array([float(number)]) for number in values))


def device_row(device: Accelerator, scale_out_bps: float, domain: int | None = None) -> ServingDeviceColumns:
    """One row for a device.

    Args:
        device: Of the catalogue.
        scale_out_bps: Rate of its NIC.
        domain: Accelerators of a scale-up domain; the device's own when None.
    """
    flops16 = max(device.flops.get("bf16", 0.0), device.flops.get("fp16", 0.0)) * device.gemm_efficiency
    flops8 = max(device.flops.get("fp8", 0.0), device.flops.get("int8", 0.0)) * device.gemm_efficiency_8bit
    flops4 = device.flops.get("fp4", 0.0) * device.gemm_efficiency_8bit
    peak16 = max(device.flops.get("bf16", 0.0), device.flops.get("fp16", 0.0))
    values = (
        device.memory_bps / 8.0 * device.memory_efficiency,
        device.memory_bytes,
        flops16,
        max(flops8, flops16),
        max(flops4, flops8, flops16),
        peak16 * device.attention_efficiency,
        device.scale_up_collective_bps / 8.0,
        scale_out_bps / 8.0,
        domain or device.scale_up_domain,
        device.tdp_w,
    )
    return ServingDeviceColumns(*(np.array([float(number)]) for number in values))
