"""Sums of operators: what one layer of each kind costs forward and backward, as columns."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.training import blocks, lora
from railyard.work.training.alpha_beta import Group, wire_bytes_s
from railyard.work.training.columns import Summed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.model.machine import F, MachineColumns
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


def recomputed_share(columns: Columns, operator: Operator) -> F:
    """Whether an operator's forward pass is recomputed for backward: 0 or 1."""
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
    """Share of an operator's launches made by the host because they are not in a graph.

    Args:
        columns: The designs.
        operator: Operator of a layer.
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
    """Host seconds of the checkpoints around the recomputed modules of a block, in addition to their launches."""
    layout, software = columns.layout, columns.software
    found = np.zeros_like(layout.tp)
    for name in _CHECKPOINTS.get(block, ()):
        there = columns.model.latent if name == "again_up" else 1.0
        found = found + getattr(layout, name) * there
    recorded = getattr(software, f"graph_{block}") if block else np.ones_like(found)
    left: F = _CHECKPOINT_S * found * (1.0 - recorded) * (software.launch_s > 0)
    return left


def eager(columns: Columns) -> F:
    """Share of an expert layer's calls made by Python, because they are not in a graph."""
    software = columns.software
    recorded = _ROUTER_CALLS * software.graph_router + _PREPROCESS_CALLS * software.graph_preprocess
    left: F = (1.0 - recorded) * (1.0 - software.graph_experts)
    return left


@dataclass(frozen=True, slots=True)
class Pass(Summed):
    """Seconds of one micro-batch on one rank, without communication.

    Attributes:
        forward, backward_input, backward_weight: On the device.
        core: The attention core's forward part.
        modules: The forward part that selective recomputation repeats: the attention core, or modules by name.
        product: Forward matrix products without attention.
        last: The last of them, before which recomputation may stop.
        host_forward, host_backward, host_modules: Launch time of the host for the same.
        flops: FLOPs of the forward matrix products.
    """

    forward: F
    backward_input: F
    backward_weight: F
    core: F
    modules: F
    product: F
    last: F
    host_forward: F
    host_backward: F
    host_modules: F
    flops: F

    def paced(self, pace: F) -> Pass:
        """The same work, slowed by a factor."""
        return replace(self.times(pace), flops=self.flops)


@dataclass(frozen=True, slots=True)
class LayerPasses:
    """Passes of the parts of a model: attention of any layer, MLP of a dense and of an expert layer, the ends."""

    attention: Pass
    mlp: Pass
    experts: Pass
    embedding: Pass
    head: Pass
    prediction: Pass

    def layers(self, layers: F | float, moe_layers: F | float) -> Pass:
        """Passes of a number of layers, some of them with experts."""
        dense = np.asarray(layers) - moe_layers
        return self.attention.times(layers) + self.mlp.times(dense) + self.experts.times(moe_layers)

    def stage(self, layers: F | float, moe_layers: F | float, embedding: F | float, head: F | float) -> Pass:
        """Passes of a stage; the multi-token-prediction layers belong to the head."""
        ends = self.embedding.times(embedding) + (self.head + self.prediction).times(head)
        return self.layers(layers, moe_layers) + ends


def layer_passes(columns: Columns) -> LayerPasses:
    """Passes of every part of the model, of each design."""
    host = columns.software.layer_host_s
    attention = _total(columns, blocks.attention_block(columns), "attention", host / 2.0)
    mlp = _total(columns, blocks.mlp_block(columns), "mlp", host / 2.0).times(columns.model.dense)
    has_experts = np.where(columns.model.experts > 0, 1.0, 0.0)
    experts = _total(columns, blocks.moe_block(columns), "experts", host / 2.0).times(has_experts)
    zero = np.zeros_like(host)
    head = _total(columns, blocks.head(columns), "", zero)
    joint = _total(columns, blocks.prediction_joint(columns), "", zero)
    last = experts + mlp.times(1.0 - has_experts)
    return LayerPasses(
        attention=attention,
        mlp=mlp,
        experts=experts,
        embedding=_total(columns, blocks.embedding(columns), "", zero),
        head=head,
        prediction=(attention + last + joint + head).times(columns.model.mtp),
    )


def _total(columns: Columns, every: Sequence[Operator], block: str, host: F) -> Pass:
    operators = lora.frozen(columns, every)

    def sum_of(name: str) -> F:
        total: F = np.sum([getattr(operator, name) for operator in operators], axis=0, dtype=np.float64)
        return total

    launch = columns.software.launch_s
    cores = [operator for operator in operators if operator.core]
    products = [
        operator
        for operator, plain in zip(operators, every, strict=True)
        if not operator.core and np.any(plain.backward_weight > 0)
    ]
    zero = np.zeros_like(launch)

    def forward_of(some: Sequence[Operator]) -> F:
        return sum((operator.forward for operator in some), zero)

    shares = [recomputed_share(columns, operator) for operator in operators]
    free = [launched(columns, operator, block) for operator in operators]
    repeated, host_repeated, forward, backward = (zero + 0.0 for _ in range(4))
    for operator, share, left in zip(operators, shares, free, strict=True):
        repeated = repeated + share * operator.forward
        host_repeated = host_repeated + share * left * launch * operator.launches
        forward = forward + left * operator.launches
        backward = backward + left * operator.launches_backward
    if block == "experts":
        host = host + columns.software.expert_host_s * eager(columns)
    split = np.where(columns.layout.overlap_expert > 0, columns.software.overlap_host, 1.0) if block else 1.0
    return Pass(
        forward=sum_of("forward"),
        backward_input=sum_of("backward_input"),
        backward_weight=sum_of("backward_weight"),
        core=forward_of(cores),
        modules=repeated,
        product=forward_of(products),
        last=forward_of([operator for operator in products if operator.last]),
        host_forward=split * (launch * forward + host),
        host_backward=split * (launch * backward + host),
        host_modules=host_repeated + checkpoint_s(columns, block),
        flops=sum_of("flops"),
    ).paced(columns.job.pace)


# Kinds of collectives by what they take, in the order of a graph's columns of losses.
CONTENDERS = ("tp", "cp", "ep", "dp")

# Times that a byte on the wire goes through a rank's memory. A gather and an exchange read what they send and write
# what they receive; a reduction reads its own operand too, so that gathers and reductions together do it 2.5 times.
_EXCHANGE_ACCESSES, _REDUCTION_ACCESSES = 2.0, 2.5
# Streams are handed out in turn, so that neither side is left without memory bandwidth.
_MOST_MEMORY = 0.5


@dataclass(frozen=True, slots=True)
class Loss:
    """Lost shares of the speed of the forward and backward passes, by overlapping collectives; see `CONTENDERS`."""

    forward: dict[str, F]
    backward: dict[str, F]

    def of(self, group: str, phase: str) -> F:
        """Loss of the passes of a phase to the collectives of a group."""
        return (self.backward if phase == "backward" else self.forward)[group]


@dataclass(frozen=True, slots=True)
class ConcurrentPasses:
    """Passes of every part of the model while a collective overlaps them.

    Attributes:
        tensor: Share of the compute units used by tensor- and context-parallel collectives.
        expert: The passes during an expert exchange, None if no design has one.
        data: The passes during reductions and gathers, None if no design has any.
    """

    tensor: F
    expert: LayerPasses | None
    data: LayerPasses | None

    def loss(self, alone: Pass, stage: tuple[F | float, F | float, F | float, F | float]) -> Loss:
        """Losses of a rank's passes.

        Args:
            alone: The passes with the device to themselves.
            stage: Layers, layers with experts, embeddings and heads, as `LayerPasses.stage` takes them.
        """
        forward = {"tp": self.tensor, "cp": self.tensor}
        backward = dict(forward)
        for group, passes in (("ep", self.expert), ("dp", self.data)):
            ahead = back = np.zeros_like(self.tensor)
            if passes is not None:
                slowed = passes.stage(*stage)
                ahead = _lost(alone.forward, slowed.forward)
                back = _lost(
                    alone.backward_input + alone.backward_weight, slowed.backward_input + slowed.backward_weight
                )
            forward[group], backward[group] = ahead, back
        return Loss(forward, backward)


def concurrent_passes(columns: Columns, machine: MachineColumns) -> ConcurrentPasses:
    """Passes of every part of the model while the collectives of each design run."""
    layout, software = columns.layout, columns.software
    units = columns.device.units
    expert, data = None, None
    if np.any((layout.overlap_expert > 0) & (layout.ep > 1)):
        group, seen = Group(layout.ep, layout.expert_tp), machine.seen_by("ep")
        wire = wire_bytes_s(group, seen, software.expert_fraction, exchange=True)
        expert = layer_passes(_smaller(columns, software.expert_ctas / units, _EXCHANGE_ACCESSES * wire))
    if np.any((layout.dp * layout.cp > 1) & ((layout.overlap_gradient > 0) | (layout.overlap_parameter > 0))):
        group = Group(np.where(layout.zero >= 3, layout.shard_ranks, layout.dp * layout.cp), layout.tp)
        wire = wire_bytes_s(group, machine.seen_by("dp"), software.collective_fraction)
        data = layer_passes(_smaller(columns, software.data_ctas / units, _REDUCTION_ACCESSES * wire))
    return ConcurrentPasses(_share(columns, software.tensor_ctas / units), expert, data)


def _share(columns: Columns, stated: F) -> F:
    """The stated share of the compute units, otherwise that of the software's collectives."""
    return np.clip(np.where(np.isnan(stated), columns.software.communication_sms, stated), 0.0, 0.9)


def _smaller(columns: Columns, stated: F, memory_bytes_s: F) -> Columns:
    """The same designs on what a collective leaves of their devices."""
    device = columns.device
    left = np.maximum(np.floor(device.units * (1.0 - _share(columns, stated)) + 1e-9), 1.0)
    part = left / device.units
    memory = 1.0 - np.minimum(memory_bytes_s / device.hbm_bytes_s, _MOST_MEMORY)
    rates = {name: getattr(device, name) * part for name in ("gemm16", "gemm8", "gemm4", "attention")}
    smaller = device.replace(units=left, hbm_bytes_s=device.hbm_bytes_s * memory, **rates)
    return dataclasses.replace(columns, device=smaller)


def _lost(alone: F, slowed: F) -> F:
    return np.clip(1.0 - alone / np.maximum(slowed, 1e-15), 0.0, 0.9) * (alone > 0)
