"""Bytes of activations that one layer keeps for its backward pass, for one micro-batch on one rank.

Written out tensor by tensor; for a GPT layer in 16 bits the sum is Korthikanti et al. 2022 (arXiv 2205.05198, section
4): s b h (10 + 24/t + 5 a s / (h t)) without and s b h / t (34 + 5 a s / h) with sequence parallelism.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.training.offload import MASTER_BYTES

if TYPE_CHECKING:
    from railyard.model.machine import F
    from railyard.work.training.columns import Columns
    from railyard.work.training.stages import RankColumns


NVFP4_BYTES = 0.5 + 1.0 / 16.0
"""Bytes per element of NVFP4, whose blocks of 16 share a scale of 8 bits."""


@dataclass(frozen=True, slots=True)
class LayerActivations:
    """Bytes kept by the parts of a layer: attention with its residual, dense MLP, experts; and a layer's input."""

    attention: F
    mlp: F
    experts: F
    input: F


def layer_activations(columns: Columns, *, complete: bool = False) -> LayerActivations:
    """Bytes kept when nothing, the attention core (`selective`), or some modules are recomputed.

    Args:
        columns: The designs.
        complete: As if nothing were recomputed: the state during a layer's backward pass.
    """
    layout, software = columns.layout, columns.software
    residual = columns.split_tokens * columns.model.hidden
    core = np.where((software.flash > 0) | (layout.recompute_core > 0), 0.0, _scores(columns))
    stays = _Stays.all(columns) if complete else _Stays.of(columns)
    return LayerActivations(
        attention=_attention(columns, residual, stays) + core,
        mlp=_mlp(columns, residual, stays),
        experts=_experts(columns, residual, stays),
        input=2.0 * residual,
    )


def kept_bytes(columns: Columns, layer: LayerActivations, layers: F | float, moe_layers: F | float) -> F:
    """Bytes that one micro-batch keeps for these layers, on the device or elsewhere."""
    full = layers * layer.attention + (layers - moe_layers) * layer.mlp + moe_layers * layer.experts
    again = columns.layout.recompute_full
    return again * layers * layer.input + (1.0 - again) * full


def offloaded(columns: Columns) -> F:
    """Share of the layers whose activations are offloaded to host memory."""
    return np.minimum(columns.layout.offload_layers / columns.model.layers, 1.0)


@dataclass(frozen=True, slots=True)
class _Stays:
    """1 if a module's tensors are kept, 0 if it is recomputed (Megatron-Core's `--recompute-modules`).

    `norm`: what norms give; `up`: queries, keys and values from latents; `mlp`, `shared`: what is inside an MLP;
    `moe`: all of an expert layer but its input; `activation`: what goes into the experts' down projection.
    """

    norm: F
    up: F
    mlp: F
    moe: F
    activation: F
    shared: F

    @classmethod
    def of(cls, columns: Columns) -> _Stays:
        layout = columns.layout
        up = layout.again_up * columns.model.latent
        again = (layout.again_norm, up, layout.again_mlp, layout.again_moe, layout.again_moe_act, layout.again_shared)
        return cls(*(1.0 - module for module in again))

    @classmethod
    def all(cls, columns: Columns) -> _Stays:
        return cls(*[np.ones_like(columns.layout.tp)] * 6)


def _saved(columns: Columns, adapted: F | float = 1.0) -> F:
    """Bytes per element of an operand kept for its weight gradient, as wide as the products.

    Args:
        columns: The designs.
        adapted: Whether a frozen product has an adapter, whose gradient needs the operand in 16 bits; otherwise it is
            freed.
    """
    trained = np.select([columns.job.bits < 8, columns.job.bits < 16], [NVFP4_BYTES, 1.0], 2.0)
    return np.where(columns.job.frozen > 0, 2.0 * adapted, trained)


def _masks(columns: Columns, residual: F) -> F:
    """Dropout masks, one byte per element, of models with dropout (GPT with its learned positions)."""
    return np.where(columns.model.rotary > 0, 0.0, residual)


def _scores(columns: Columns) -> F:
    """Softmax output (2), dropout output (2) and its mask (1) of the whole score matrix."""
    heads = columns.model.heads / columns.layout.tp
    return 5.0 * columns.tokens * heads * columns.job.seq_len * columns.model.cored


def _attention(columns: Columns, residual: F, stays: _Stays) -> F:
    model, layout = columns.model, columns.layout
    score_dim, value_dim = model.score_dim, model.value_dim
    heads = model.heads / layout.tp
    groups = np.where(model.latent > 0, heads, np.maximum(model.kv_heads / layout.tp, 1.0))
    up = heads * score_dim + groups * (score_dim + value_dim)
    kept = columns.tokens * 2.0 * (up * stays.up + heads * value_dim)
    latent = columns.tokens * 2.0 * 2.0 * (model.q_lora + model.kv_lora + model.rope_dim) * model.latent
    statistics = np.where(columns.software.flash > 0, 4.0 * columns.tokens * heads, 0.0)
    # Exchanged by heads, attention keeps its output as it left the kernel, and the projection as it came back.
    twice = np.where((layout.cp > 1) & (layout.context_heads > 0), 2.0 * columns.tokens * heads * value_dim, 0.0)
    norm = residual * (2.0 + _saved(columns) * stays.norm)
    # What the products of other mixers make is kept in front of the convolution and behind it: estimated.
    mixed = columns.tokens * 2.0 * 2.0 * model.mixed_parameters / model.hidden / layout.tp
    found = model.mixers * norm + model.cored * kept + model.cored * twice + model.plain * latent
    return found + model.cored * statistics + model.mixers * _masks(columns, residual) + mixed


def _mlp(columns: Columns, residual: F, stays: _Stays) -> F:
    width = columns.model.ffn / columns.layout.tp
    norm = residual * (2.0 + _saved(columns, columns.job.adapter_mlp) * stays.norm)
    return columns.model.dense * (norm + _inner(columns, columns.tokens, width) * stays.mlp + _masks(columns, residual))


def _inner(columns: Columns, tokens: F, width: F, activation: F | float = 1.0) -> F:
    """Output of the up projection, and of the activation, which is the input of the down projection."""
    software = columns.software
    factors = software.gate_bytes * (1.0 + columns.model.gated)
    return tokens * width * (factors + software.keeps_products * _saved(columns, columns.job.adapter_mlp) * activation)


def _experts(columns: Columns, residual: F, stays: _Stays) -> F:
    model, layout = columns.model, columns.layout
    received = columns.split_tokens * model.topk * layout.expert_tp * columns.job.imbalance
    # Each routed token is kept as it enters its expert, and as it comes back where its probability weights it then.
    routed = received * model.expert_dim * (_saved(columns) + 2.0 * columns.software.keeps_outputs)
    inner = _inner(columns, received, model.moe_ffn / layout.expert_tp, stays.activation)
    shared = _inner(columns, columns.tokens, model.shared_ffn / layout.tp) * stays.shared
    router = columns.split_tokens * model.experts * 8.0
    return residual * (2.0 + 2.0 * stays.norm) + (routed + inner + shared + router) * stays.moe


# A number in NVFP4 with its share of an 8-bit scale for 16, once for each order of the operands.
_FROZEN_FOUR_BITS = 2.0 * (0.5 + 1.0 / 16.0)


def optimizer_bytes(columns: Columns) -> F:
    """Bytes per parameter on the accelerator: the master copy and two moments, or buffers for parts of them.

    Under zero 3 the master copy is the parameter and stays; so does the only copy in 16-bit training.
    """
    resident, sharded = columns.job.resident, columns.layout.zero >= 3
    master = np.where(sharded, 1.0, resident) * MASTER_BYTES
    master = np.where(columns.software.master_copy > 0, master, 2.0 * sharded)
    return master + 2.0 * columns.software.moment_bytes * resident


def shards(columns: Columns) -> tuple[F, F]:
    """Ranks that share the state of a dense parameter, and of an expert's."""
    layout = columns.layout
    replicas = np.maximum(layout.tp * layout.cp * layout.dp / (layout.ep * layout.expert_tp), 1.0)
    return layout.shard_ranks, np.minimum(replicas, layout.shard_ranks)


def root(columns: Columns, rank: RankColumns) -> F:
    """Parameters outside the layers: embedding and head."""
    return columns.model.embedding_parameters / columns.layout.tp * (rank.embedding + rank.head)


def state(columns: Columns, rank: RankColumns) -> tuple[F, F, F]:
    """Bytes of parameters, gradients and optimizer state that are kept for the whole step."""
    layout, software = columns.layout, columns.software
    dense_shard, expert_shard = shards(columns)

    def spread(from_stage: int, bytes_each: F | float, dense: F, expert: F) -> F:
        on = layout.zero >= from_stage
        return bytes_each * (dense / np.where(on, dense_shard, 1.0) + expert / np.where(on, expert_shard, 1.0))

    # Embedding and head are not 8 bits wide. Under zero 3 the 32-bit shard is the parameter; a 16-bit copy exists only
    # while it is gathered; a frozen model has no 32-bit copy, and its 16 bits are the shard.
    count, ends = rank.dense + rank.expert, root(columns, rank)
    each = np.where(columns.job.bits == 8, software.narrow_parameter_bytes, 2.0)
    each = np.where((columns.job.bits == 4) & (columns.job.frozen > 0), _FROZEN_FOUR_BITS, each)
    shard = columns.job.frozen * spread(3, 2.0, rank.dense, rank.expert)
    parameters = np.where(layout.zero >= 3, shard, each * np.maximum(count - ends, 0.0) + 2.0 * np.minimum(count, ends))
    trained = rank.trained_dense, rank.trained_expert
    return parameters, spread(2, software.gradient_bytes, *trained), spread(1, optimizer_bytes(columns), *trained)


def in_flight(columns: Columns, rank: RankColumns, place: F) -> F:
    """Micro-batches whose activations a rank keeps at its peak, counted over all its layers.

    1F1B holds one for each stage from here to the end. Interleaved schedules hold 2 (p - r - 1) + (v - 1) p + 1 chunks:
    p of each but the last, whose p may be less, then more of the first. Where forward and backward passes are pairs, a
    micro-batch takes twice as long to the end and back. Rank r of ZB-H1 puts off r weight gradients. DualPipe holds
    p + 1 micro-batches, each in one of the two stages of a rank.
    """
    layout = columns.layout
    pairs = layout.overlap_expert * (layout.ep > 1)
    behind, put_off = layout.pp - place, layout.zero_bubble * place
    plain = np.minimum(layout.micro_batches, (1.0 + pairs) * behind + put_off)
    further = 2.0 * behind - 1.0 + pairs + put_off
    layers = np.maximum(rank.layers, 1.0)
    last, first = np.minimum(further, layout.pp), np.maximum(further - layout.pp, 0.0)
    chunks = layout.pp * (rank.layers - rank.last_chunk) + last * rank.last_chunk + first * rank.first_chunk
    single = np.where(layout.vp > 1, np.minimum(layout.micro_batches, chunks / layers), plain)
    return np.where(layout.dual > 0, (layout.pp + 1.0) / 2.0, single)


def kept(columns: Columns, rank: RankColumns) -> tuple[F, LayerActivations]:
    """Bytes that one micro-batch keeps on a rank, and by part of one layer without recomputation."""
    layer = layer_activations(columns)
    here = 1.0 - offloaded(columns)
    return here * kept_bytes(columns, layer, rank.layers, rank.moe_layers), layer


def working(columns: Columns, rank: RankColumns, layer: LayerActivations) -> F:
    """Temporary bytes at the fullest moment.

    Args:
        columns: The designs.
        rank: Layers and parameters of the rank.
        layer: What one layer keeps without recomputation.
    """
    model, layout, software = columns.model, columns.layout, columns.software
    complete = _widest(layer_activations(columns, complete=True), rank)
    widest = _widest(layer, rank)
    # Recomputed tensors exist during the layer's backward pass.
    again = np.where(layout.recompute_full > 0, widest, 0.0) + complete - widest
    # A layer in transfer to or from the host occupies its memory until the transfer ends.
    again = again + np.where(offloaded(columns) > 0, widest, 0.0)
    table = model.embedding_parameters / layout.tp
    scores = columns.tokens * model.vocab / layout.tp * rank.head
    # A fused loss writes its gradient over the 16-bit logits; else there are two 32-bit copies and the gradient.
    head = np.where(software.fused_loss > 0, 2.0, 12.0) * scores + 2.0 * table * rank.head
    moment = np.maximum(again + _layer_gradients(columns, rank), head)
    sharded = widest + again + np.where(software.fused_loss > 0, 4.0, 12.0) * scores + _gathered(columns, rank)
    return np.where(layout.zero >= 3, sharded, _weight_gradients(columns, rank) + moment)


def _widest(layer: LayerActivations, rank: RankColumns) -> F:
    """Bytes of the largest layer."""
    return layer.attention + np.where(rank.moe_layers > 0, np.maximum(layer.experts, layer.mlp), layer.mlp)


def _layer_gradients(columns: Columns, rank: RankColumns) -> F:
    """Gradients inside a layer at the widest place of its backward pass: about the activation of the MLP.

    The gradient of the down projection's input, and of what the up (and gate) projection gave, in 16 bits.
    """
    model, layout = columns.model, columns.layout
    parts = 2.0 + model.gated
    plain = columns.tokens * model.ffn / layout.tp * parts * 2.0
    received = columns.split_tokens * model.topk * layout.expert_tp * columns.job.imbalance
    experts = received * 2.0 * (model.moe_ffn / layout.expert_tp * parts + model.hidden)
    has_plain, has_experts = rank.layers > rank.moe_layers, rank.moe_layers > 0
    return np.maximum(np.where(has_plain, plain, 0.0), np.where(has_experts, experts, 0.0))


def _weight_gradients(columns: Columns, rank: RankColumns) -> F:
    """Placeholders of weight gradients that were added to the gradient buffer inside the product.

    Autograd needs a tensor for each. Transformer Engine keeps one in 16 bits for every shape of weight, shared by all
    experts
    of a rank; earlier versions had one for the current weight, at most that of the up (and gate) projection.
    """
    model, layout = columns.model, columns.layout
    plain = np.where(rank.layers > rank.moe_layers, model.mlp_parameters / layout.tp, 0.0)
    expert = model.expert_parameters / layout.expert_tp + model.shared_parameters / layout.tp
    experts = np.where(rank.moe_layers > 0, expert, 0.0)
    matrix = model.hidden * (1.0 + model.gated) * np.maximum(model.ffn / layout.tp, model.moe_ffn / layout.expert_tp)
    kept_all = model.attention_parameters / layout.tp + plain + experts
    placed = np.where(columns.software.keeps_placeholders > 0, kept_all, matrix)
    return 2.0 * (1.0 - columns.job.frozen) * placed


def _gathered(columns: Columns, rank: RankColumns) -> F:
    """Buffers of zero 3's gathers: two layers' 16-bit parameters and one layer's gradient.

    Parameters that stay gathered are all there, in a pipeline with all gradients. The embedding counts as a layer.
    """
    layout, software = columns.layout, columns.software
    count = rank.dense + rank.expert
    table = columns.model.embedding_parameters / layout.tp * np.maximum(rank.embedding, rank.head)
    largest = np.maximum(count / np.maximum(rank.layers, 1.0), table)
    gradient = software.gradient_bytes * (1.0 - columns.job.frozen)
    passing = 2.0 * 2.0 * largest + gradient * largest
    staying = 2.0 * count + gradient * np.where(layout.pp > 1, count, largest)
    return np.where(layout.reshard > 0, passing, staying)
