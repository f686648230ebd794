"""What a rank holds besides what the model needs at all times: state by ZeRO stage, activations in flight, buffers.

The peak is that of the fullest moment of a step: backward of a layer, or of the output layer with its logits, with all
activations in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.work.training.activations import kept_bytes, layer_activations, offloaded
from railyard.work.training.offload import MASTER_BYTES

if TYPE_CHECKING:
    from railyard.model.columns import F
    from railyard.work.training.activations import LayerActivations
    from railyard.work.training.columns import Columns
    from railyard.work.training.pipeline_ranks import RankColumns

# A number in NVFP4 with its share of an 8-bit scale for 16, once for each order of the operands.
_FROZEN_FOUR_BITS = 2.0 * (0.5 + 1.0 / 16.0)


def optimizer_bytes(columns: Columns) -> F:
    """Bytes a parameter on the accelerator: the master copy and two moments, or buffers for parts of them.

    Under zero 3 the master copy is the parameter, and stays; so is the only copy of training in 16 bits.
    """
    resident, sharded = columns.job.resident, columns.layout.zero >= 3
    master = np.where(sharded, 1.0, resident) * MASTER_BYTES
    master = np.where(columns.software.master_copy > 0, master, 2.0 * sharded)
    return master + 2.0 * columns.software.moment_bytes * resident


def shards(columns: Columns) -> tuple[F, F]:
    """Ranks that share the state of a dense parameter, and of an expert's."""
    layout = columns.layout
    replicas = np.maximum(layout.tp * layout.cp * layout.dp / (layout.ep * layout.expert_tp), 1.0)
    return layout.shard, np.minimum(replicas, layout.shard)


def root(columns: Columns, rank: RankColumns) -> F:
    """Parameters outside the layers: embedding and head."""
    return columns.model.embedding_parameters / columns.layout.tp * (rank.embedding + rank.head)


def state(columns: Columns, rank: RankColumns) -> tuple[F, F, F]:
    """Bytes of parameters, gradients and optimizer state that stay for the whole step."""
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
    """Micro-batches whose activations a rank holds at its peak, counted over all its layers.

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
    """Bytes that one micro-batch keeps on a rank, and the same by part of one layer without recomputation."""
    layer = layer_activations(columns)
    here = 1.0 - offloaded(columns)
    return here * kept_bytes(columns, layer, rank.layers, rank.moe_layers), layer


def working(columns: Columns, rank: RankColumns, layer: LayerActivations) -> F:
    """Bytes that come and go, at the fullest moment.

    Args:
        columns: The designs.
        rank: What the rank holds.
        layer: What one layer keeps without recomputation.
    """
    model, layout, software = columns.model, columns.layout, columns.software
    complete = _widest(layer_activations(columns, complete=True), rank)
    widest = _widest(layer, rank)
    # What is computed again is there while the layer's backward pass runs.
    again = np.where(layout.recompute_full > 0, widest, 0.0) + complete - widest
    # A layer on its way to the host or back has its place until it is there.
    again = again + np.where(offloaded(columns) > 0, widest, 0.0)
    table = model.embedding_parameters / layout.tp
    scores = columns.tokens * model.vocab / layout.tp * rank.head
    # A fused loss writes its gradient over the 16-bit logits; else there are two 32-bit copies and the gradient.
    head = np.where(software.fused_loss > 0, 2.0, 12.0) * scores + 2.0 * table * rank.head
    moment = np.maximum(again + _layer_gradients(columns, rank), head)
    sharded = widest + again + np.where(software.fused_loss > 0, 4.0, 12.0) * scores + _gathered(columns, rank)
    return np.where(layout.zero >= 3, sharded, _weight_gradients(columns, rank) + moment)


def _widest(layer: LayerActivations, rank: RankColumns) -> F:
    """Bytes of the layer that keeps most."""
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

    Autograd wants a tensor for each. Transformer Engine keeps one in 16 bits for every shape of weight, all experts of
    a rank sharing one; before it did, there was one for the weight at hand, at most of the up (and gate) projection.
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
    """What zero 3 gathers: two layers' 16-bit parameters and one's gradient.

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
