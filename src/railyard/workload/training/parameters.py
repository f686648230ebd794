"""Parameters that one rank holds, by part of the model.

TP splits matrices, EP splits experts; norms, router and low-rank down projections stay whole.
Works on one (model, layout) or on columns of them: only arithmetic on their fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.catalog import Model
    from railyard.workload.training.spec import Layout


def _latent_down(model: Model) -> float:
    """Down projections of latent attention, which every TP rank holds whole."""
    if model.mla is None:
        return 0.0
    return float(
        model.hidden * (model.mla.q_lora + model.mla.kv_lora + model.mla.rope_dim)
        + model.mla.q_lora
        + model.mla.kv_lora
    )


def _attention(model: Model, layout: Layout) -> float:
    replicated = _latent_down(model)
    return (
        replicated
        + (model.attention_parameters() - replicated) / layout.tp
        + model.norms_per_layer * model.norm_parameters()
    )


def layer_dense(model: Model, layout: Layout) -> float:
    """One layer with a dense MLP."""
    return _attention(model, layout) + model.mlp_parameters() / layout.tp


def layer_moe_dense(model: Model, layout: Layout) -> float:
    """One layer with experts, without its routed experts."""
    return _attention(model, layout) + model.shared_parameters() / layout.tp + model.router_parameters()


def layer_expert(model: Model, layout: Layout) -> float:
    """Routed experts of one layer."""
    return model.experts * model.expert_parameters() / (layout.ep * layout.expert_tp)


def embedding(model: Model, layout: Layout) -> float:
    """Input embedding."""
    return model.embedding_parameters() / layout.tp


def head(model: Model, layout: Layout) -> float:
    """Last norm, output projection (a tied one again where pipeline stages part it), prediction layers' dense part."""
    tied_copy = model.vocab * model.hidden if model.tied_embeddings and layout.pp > 1 else 0
    ahead = 2 * model.hidden * model.hidden + 3 * model.norm_parameters()
    layer = layer_moe_dense(model, layout) if model.experts else layer_dense(model, layout)
    return (
        model.norm_parameters() + (model.head_parameters() + tied_copy) / layout.tp + model.mtp_layers * (ahead + layer)
    )


def prediction_expert(model: Model, layout: Layout) -> float:
    """Routed experts of the multi-token-prediction layers, which stand with the head."""
    return model.mtp_layers * layer_expert(model, layout)
