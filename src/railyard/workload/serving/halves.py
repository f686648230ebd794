"""Half of a model: attention alone, or the FFNs alone, each on accelerators of its own.

A half is the shape of a whole model that lacks the other half, so that the law of a replica holds for it too. Routers,
embeddings and the output projection stay with attention.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.workload.serving.columns import Deployments, device_row, place, shape
from railyard.workload.serving.iteration import IterationLoad, math_rate, parts
from railyard.workload.serving.memory import MEMORY_SHARE, cache_tokens, weight_bytes, workspace_bytes
from railyard.workload.serving.power import MATH
from railyard.workload.serving.software import columns

if TYPE_CHECKING:
    from railyard.catalog import Accelerator, Model
    from railyard.model.machine import Machine
    from railyard.workload.serving.columns import ShapeColumns
    from railyard.workload.serving.iteration import IterationTimes
    from railyard.workload.serving.layout import ServingLayout
    from railyard.workload.serving.software import ServingSoftware

# Of the kernels of a layer that no shape explains, of its passes over the residual and of its two all-reduces, either
# half has one half.
_HALF = 0.5
# Cached tokens, and query and key pairs, at which attention has left its fixed parts behind.
_MANY = 1e7
_USUAL_MATH = 0.15
_GIB = float(1 << 30)


@dataclass(frozen=True, slots=True)
class Side:
    """The accelerators of attention, or those of the FFNs.

    Attributes:
        device: Their kind.
        machine: Their scale-up domain.
        layout: Attention: `tp` of each of `dp_attention` copies. FFN: `tp` of each of `ep` groups of experts, with
            `dp_attention` as many: dense FFNs and shared experts are there once in each group.
        software: Constants of the engine on that device.
    """

    device: Accelerator
    machine: Machine
    layout: ServingLayout
    software: ServingSoftware


def attention_half(whole: ShapeColumns) -> ShapeColumns:
    """Attention, routers, embeddings and the output projection."""
    zero = np.zeros_like(whole.layers)
    split = whole.layers * whole.attention_parameters + whole.moe_layers * whole.router_parameters
    return replace(
        whole,
        moe_layers=zero,
        mlp_parameters=zero,
        expert_parameters=zero,
        shared_parameters=zero,
        experts=zero,
        total_parameters=split + whole.head_bytes,
        expert_share=zero,
    )


def ffn_half(whole: ShapeColumns) -> ShapeColumns:
    """Dense FFNs, shared and routed experts."""
    zero = np.zeros_like(whole.layers)
    routed = whole.moe_layers * whole.experts * whole.expert_parameters
    dense = (whole.layers - whole.moe_layers) * whole.mlp_parameters + whole.moe_layers * whole.shared_parameters
    return replace(
        whole,
        heads=zero,
        latent=zero,
        kv_elements=zero,
        attention_parameters=zero,
        router_parameters=zero,
        sparse_keys=zero,
        head_bytes=zero,
        total_parameters=routed + dense,
        expert_share=routed / (routed + dense),
    )


class Half:
    """One half of a model on its side."""

    def __init__(self, model: Model, side: Side, half: ShapeColumns) -> None:
        self.model, self.side = model, side
        domain = side.machine.scale_up_domain
        if side.layout.tp <= domain:
            # All-reduces stay inside; what the law does where experts' own exchange leaves a domain is not of a half.
            domain = max(domain, side.layout.ranks)
        device = device_row(side.device, side.machine.scale_out_bps, domain)
        self.rows = Deployments(half, place(model, side.device, side.layout), device)
        self._software = columns([side.software])

    def law(self, tokens: float, sequences: float = 0.0, kv_tokens: float = 0.0, pairs: float = 0.0) -> IterationTimes:
        """Parts of an iteration of this half."""
        return self._of(self.rows.shape, tokens, sequences, kv_tokens, pairs)

    def _of(self, half: ShapeColumns, *load: float) -> IterationTimes:
        rows = replace(self.rows, shape=half)
        return parts(rows, self._software, IterationLoad(*(np.array([value]) for value in load)))

    def layer_s(self, tokens: float) -> float:
        """Seconds of a mean layer without cached tokens and without what crosses to the other side.

        The all-reduce over tensor-parallel ranks is that of a dense model: of as many rows as experts give for each
        token.
        """
        half, layers = self.rows.shape, float(self.model.layers)
        bare = replace(half, head_bytes=np.zeros_like(half.layers))
        one = self._of(bare, tokens, 0.0, 0.0, 0.0)
        rows = max(self.model.experts_per_token, 1) if half.experts[0] else 1
        dense = replace(bare, moe_layers=np.zeros_like(half.layers))
        reduces = self._of(dense, tokens * rows, 0.0, 0.0, 0.0).network
        kernels = one.kernels - _HALF * layers * self.side.software.layer_s
        whole = one.matrices + one.experts + kernels + _HALF * (one.passes + reduces)
        return float(whole[0]) / layers

    def cached_s(self) -> tuple[float, float]:
        """Seconds of all layers that each cached token adds, and each sequence that decodes."""
        many, more = (self.law(1.0, 1.0, count).cache[0] for count in (_MANY, 2.0 * _MANY))
        each = (more - many) / _MANY
        return float(each), float(max(many - each * _MANY, 0.0))

    def pair_s(self) -> float:
        """Seconds of all layers of a query and key pair of a prompt."""
        return float(self.law(1.0, pairs=_MANY).prompt[0] / _MANY)

    def head_s(self) -> tuple[float, float]:
        """Seconds of the output projection: its weights, and each sequence."""
        half = self.rows.shape
        bare = self._of(replace(half, head_bytes=np.zeros_like(half.layers)), 1.0, 0.0, 0.0, 0.0).matrices[0]
        once, many = self.law(1.0).matrices[0], self.law(1.0, 512.0).matrices[0]
        return float(once - bare), float(many - once) / 512.0

    def joule_per_token(self) -> float:
        """Energy of the matrix units, by the law of power at the math share of a usual replica."""
        half = self.rows.shape
        dense = half.total_parameters * (1.0 - half.expert_share)
        active = dense + half.moe_layers * half.topk * half.expert_parameters
        watt = _USUAL_MATH**0.5 / _USUAL_MATH * MATH * self.side.device.tdp_w
        return float((watt * 2.0 * active / math_rate(self.rows, self.rows.place.dense_math))[0])

    @property
    def weight_bytes(self) -> float:
        """Of all ranks."""
        return float(weight_bytes(self.rows)[0]) * self.side.layout.ranks

    @property
    def cache_tokens(self) -> float:
        """Cached tokens that fit; for the FFN half more than zero where its weights fit."""
        return float(cache_tokens(self.rows)[0])

    def table(self) -> str:
        """What a rank holds."""
        usable = self.side.device.memory_bytes * MEMORY_SHARE
        return (
            f"of one rank: weights {weight_bytes(self.rows)[0] / _GIB:.1f} GiB, workspace"
            f" {workspace_bytes(self.rows)[0] / _GIB:.1f} GiB; {usable / _GIB:.1f} GiB may be used"
        )


def halves(model: Model, attention: Side, ffn: Side) -> tuple[Half, Half]:
    """Both halves of a model, each on its side."""
    whole = shape(model)
    return Half(model, attention, attention_half(whole)), Half(model, ffn, ffn_half(whole))
