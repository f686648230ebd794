"""Half of a model: attention alone, or the FFNs alone, each on accelerators of its own.

A half is the shape of a whole model that lacks the other half, so that the law of a replica holds for it too. Routers,
embeddings and the output projection stay with attention.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.serving.columns import Deployments
from railyard.work.serving.iteration import IterationLoad, parts
from railyard.work.serving.memory import cache_tokens, rank_table, state_tokens, weight_bytes
from railyard.work.serving.power import math_j
from railyard.work.serving.slopes import slopes
from railyard.work.serving.software import columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.catalog import Model
    from railyard.model.architecture import ModelColumns
    from railyard.model.machine import Machine
    from railyard.work.serving.iteration import IterationTimes
    from railyard.work.serving.layout import ServingLayout
    from railyard.work.serving.slopes import IterationSlopes
    from railyard.work.serving.software import ServingSoftware

# Of the kernels of a layer that no shape explains, of its passes over the residual and of its two all-reduces, either
# half has one half.
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Side:
    """The accelerators of attention, or those of the FFNs.

    Attributes:
        machine: They and their scale-up domain.
        layout: Attention: `tp` of each of `dp_attention` copies. FFN: `tp` of each of `ep` groups of experts, with
            `dp_attention` as many: dense FFNs and shared experts are there once in each group.
        software: Constants of the engine on that device.
    """

    machine: Machine
    layout: ServingLayout
    software: ServingSoftware


def attention_half(model: ModelColumns) -> ModelColumns:
    """Attention, routers, embeddings and the output projection."""
    zero = np.zeros_like(model.layers)
    split = model.layers * model.attention_parameters + model.moe_layers * model.router_parameters
    return replace(
        model,
        moe_layers=zero,
        mlp_parameters=zero,
        expert_parameters=zero,
        shared_parameters=zero,
        experts=zero,
        total_parameters=split + model.head_bytes,
        expert_share=zero,
    )


def ffn_half(model: ModelColumns) -> ModelColumns:
    """Dense FFNs, shared and routed experts."""
    zero = np.zeros_like(model.layers)
    routed = model.moe_layers * model.experts * model.expert_parameters
    dense = (model.layers - model.moe_layers) * model.mlp_parameters + model.moe_layers * model.shared_parameters
    return replace(
        model,
        heads=zero,
        latent=zero,
        kv_elements=zero,
        attention_parameters=zero,
        router_parameters=zero,
        sparse_keys=zero,
        picking=zero,
        indexed=zero,
        vocab=zero,
        total_parameters=routed + dense,
        expert_share=routed / (routed + dense),
    )


class Half:
    """One half of a model on its side."""

    def __init__(self, model: Model, side: Side, half: Callable[[ModelColumns], ModelColumns]) -> None:
        self.model, self.side, self.half = model, side, half
        domain, layout = side.machine.scale_up_domain, side.layout
        if layout.tp <= domain:
            # All-reduces stay inside; what the law does where experts' exchange leaves a domain is not of a half.
            domain = max(domain, layout.ranks)
        rows = Deployments.of((model, layout, replace(side.machine, scale_up_domain=domain)))
        self.rows = replace(rows, model=half(rows.model))
        self._software = columns([side.software])

    @cached_property
    def slopes(self) -> IterationSlopes:
        """What sequences, cached tokens and pairs add to an iteration."""
        return slopes(self.rows, self._software)

    def law(self, tokens: float, sequences: float = 0.0, kv_tokens: float = 0.0, pairs: float = 0.0) -> IterationTimes:
        """Parts of an iteration of this half."""
        return self._of(self.rows.model, tokens, sequences, kv_tokens, pairs)

    def _of(self, half: ModelColumns, *load: float) -> IterationTimes:
        rows = replace(self.rows, model=half)
        return parts(rows, self._software, IterationLoad(*(np.array([value]) for value in load)))

    def layer_s(self, tokens: float) -> float:
        """Seconds of a mean layer without cached tokens and without what crosses to the other side.

        The all-reduce over tensor-parallel ranks is that of a dense model: of as many rows as experts give for each
        token.
        """
        half, layers = self.rows.model, float(self.model.layers)
        bare = replace(half, vocab=np.zeros_like(half.layers))
        one = self._of(bare, tokens, 0.0, 0.0, 0.0)
        rows = max(self.model.experts_per_token, 1) if half.experts[0] else 1
        dense = replace(bare, moe_layers=np.zeros_like(half.layers))
        reduces = self._of(dense, tokens * rows, 0.0, 0.0, 0.0).network
        kernels = one.kernels - _HALF * layers * self.side.software.layer_s
        seconds = one.matrices + one.experts + kernels + _HALF * (one.passes + reduces)
        return float(seconds[0]) / layers

    def head_s(self) -> float:
        """Seconds of the output projection's weights."""
        half = self.rows.model
        bare = self._of(replace(half, vocab=np.zeros_like(half.layers)), 1.0, 0.0, 0.0, 0.0).matrices[0]
        return float(self.law(1.0).matrices[0] - bare)

    def joule_per_token(self) -> float:
        """Energy of the matrix units for one token."""
        half, device = self.rows.model, self.rows.device
        dense = half.total_parameters * (1.0 - half.expert_share)
        active = dense + half.moe_layers * half.topk * half.expert_parameters
        return float(math_j(device.tdp_w, active, device.best_flops_s(self.rows.layout.dense_math))[0])

    @property
    def weight_bytes(self) -> float:
        """Of all ranks."""
        return float(weight_bytes(self.rows)[0]) * self.side.layout.ranks

    @property
    def cache_tokens(self) -> float:
        """Cached tokens that fit; for the FFN half more than zero where its weights fit."""
        return float(cache_tokens(self.rows)[0])

    @property
    def state_tokens(self) -> float:
        """Cached tokens in whose room the states of one sequence lie."""
        return float(state_tokens(self.rows)[0])

    def table(self) -> str:
        """What a rank holds."""
        return rank_table(self.rows)


def halves(model: Model, attention: Side, ffn: Side) -> tuple[Half, Half]:
    """Both halves of a model, each on its side."""
    return Half(model, attention, attention_half), Half(model, ffn, ffn_half)
