"""Which operators belong to which module: what selective recomputation runs again, and what a CUDA graph records.

The names are Megatron-Core's: `--recompute-modules` and `--cuda-graph-scope`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from railyard.model.columns import F
    from railyard.work.training.columns import Columns
    from railyard.work.training.operators import Operator

# Columns of the layout that say "computed again", by operator. MLA's up projections come with the rotary positions and
# copies that put queries and keys together; `mlp` is that of dense layers, `moe` a whole layer of experts.
_AGAIN: dict[str, tuple[str, ...]] = {
    "attention norm": ("again_norm",),
    "experts norm": ("again_norm",),
    "mlp norm": ("again_norm", "again_mlp"),
    "mlp up": ("again_mlp",),
    "mlp activation": ("again_mlp",),
    "mlp down": ("again_mlp",),
    "query up": ("again_up",),
    "latent up": ("again_up",),
    "latent norms": ("again_up",),
    "latent copies": ("again_up",),
    "router": ("again_moe",),
    "routing": ("again_moe",),
    "permute": ("again_moe",),
    "experts up": ("again_moe",),
    "experts clamp": ("again_moe_act", "again_moe"),
    "experts activation": ("again_moe_act", "again_moe"),
    "experts bias": ("again_moe",),
    "experts down": ("again_moe",),
    "shared up": ("again_shared", "again_moe"),
    "shared activation": ("again_shared", "again_moe"),
    "shared down": ("again_shared", "again_moe"),
}
# Rotary positions are part of the up projections in latent attention only.
_LATENT_AGAIN = ("rotary",)
# Columns of the software that say "recorded as a graph", by operator; the others of a block by their block.
_RECORDED: dict[str, str] = {
    "experts norm": "graph_router",
    "router": "graph_router",
    "routing": "graph_router",
    "shared up": "graph_router",
    "shared activation": "graph_router",
    "shared down": "graph_router",
    "permute": "graph_preprocess",
}
# Launches of the permutation in front of the dispatch (counts, maps): these can be recorded, the exchange cannot.
_PREPROCESSED = 0.5
# Of the eight calls of an expert layer (router, preprocessing, dispatch, up, activation, down, combination, residual)
# the scopes `moe_router` and `moe_preprocess` record one each.
_ROUTER_CALLS = _PREPROCESS_CALLS = 1.0 / 8.0

# Checkpoints of each block: saving and restoring the state of the random generator, and a graph of autograd of its own.
# Megatron-Bridge's matched study of Moonlight on 8 H100 (2026-08-12, bound by the host; no recomputation 457 ms) has
# 0.35 ms a layer for `moe_act`, 0.6 for each norm, 0.65 for `core_attn` and 0.9 for `mla_up_proj`: the middle is taken.
_CHECKPOINTS: dict[str, tuple[str, ...]] = {
    "attention": ("again_norm", "again_up", "again_core"),
    "mlp": ("again_norm", "again_mlp"),
    "experts": ("again_norm", "again_moe", "again_moe_act", "again_shared"),
}
_CHECKPOINT_S = 0.6e-3


def again(columns: Columns, operator: Operator) -> F:
    """Whether an operator's forward pass is run again for backward: 0 or 1."""
    layout = columns.layout
    if operator.core:
        return layout.recompute_core
    found = np.zeros_like(layout.tp)
    for name in _AGAIN.get(operator.name, ()):
        found = np.maximum(found, getattr(layout, name))
    if operator.name in _LATENT_AGAIN:
        found = np.maximum(found, layout.again_up * columns.model.latent)
    return found


def launched(columns: Columns, operator: Operator, block: str) -> F:
    """Share of an operator's launches that the host makes itself, because no graph has recorded them.

    Args:
        columns: The designs.
        operator: Of a layer.
        block: `attention`, `mlp` or `experts`; "" for the ends of the model.
    """
    software = columns.software
    if not block:
        return np.ones_like(columns.layout.tp)
    recorded = getattr(software, _RECORDED.get(operator.name, f"graph_{block}"))
    if operator.name == "permute":
        recorded = np.maximum(recorded * _PREPROCESSED, software.graph_experts)
    free: F = 1.0 - recorded
    return free


def checkpoint_s(columns: Columns, block: str) -> F:
    """Host seconds of the checkpoints around the modules of a block that are computed again, besides their launches."""
    layout, software = columns.layout, columns.software
    found = np.zeros_like(layout.tp)
    for name in _CHECKPOINTS.get(block, ()):
        there = columns.model.latent if name == "again_up" else 1.0
        found = found + getattr(layout, name) * there
    recorded = getattr(software, f"graph_{block}") if block else np.ones_like(found)
    left: F = _CHECKPOINT_S * found * (1.0 - recorded) * (software.launch_s > 0)
    return left


def eager(columns: Columns) -> F:
    """Share of an expert layer's calls that Python makes itself: the others are recorded as graphs."""
    software = columns.software
    recorded = _ROUTER_CALLS * software.graph_router + _PREPROCESS_CALLS * software.graph_preprocess
    left: F = (1.0 - recorded) * (1.0 - software.graph_experts)
    return left
