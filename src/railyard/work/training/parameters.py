"""Parameters of one rank, by part of the model.

TP splits matrices, EP splits experts; norms, router and low-rank down projections stay whole.
Works on one (model, layout) or on columns of them: only arithmetic on their fields.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from railyard.kit.errors import InputError
from railyard.model.architecture import mean
from railyard.work.training.spec import Precision

if TYPE_CHECKING:
    from railyard.catalog import Accelerator, Model
    from railyard.catalog.block import LayerKind
    from railyard.work.training.spec import Layout


# bf16 and fp16 are one width: every device has units for one of them, and a job written for either runs on it.
_SIXTEEN_BITS = ("bf16", "fp16")


def supports(precision: Precision, accelerator: Accelerator) -> bool:
    """Whether the catalog has a rate of matrix products in that precision, or in the other 16-bit one."""
    same = _SIXTEEN_BITS if precision in _SIXTEEN_BITS else (precision,)
    return any(name in accelerator.flops for name in same)


def check_precision(precision: Precision, accelerator: Accelerator) -> None:
    """Rejects a precision that the device does not support.

    Raises:
        InputError: The catalog has no rate for it.
    """
    if not supports(precision, accelerator):
        raise InputError(
            f"{accelerator.name} has no units for {precision}",
            key="precision",
            found=precision,
            allowed=[name for name in get_args(Precision) if name in accelerator.flops],
        )


def _latent_down(model: Model) -> float:
    """Down projections of latent attention, which every TP rank has in full."""
    if model.mla is None:
        return 0.0
    return float(
        model.hidden * (model.mla.q_lora + model.mla.kv_lora + model.mla.rope_dim)
        + model.mla.q_lora
        + model.mla.kv_lora
    )


def _mixer(model: Model, kind: LayerKind, layout: Layout) -> float:
    replicated = _latent_down(model) if kind.plain else 0.0
    return replicated + (kind.mixer_parameters - replicated) / layout.tp + kind.norms * model.norm_parameters()


def layer_dense(model: Model, layout: Layout) -> float:
    """The mean layer without experts."""

    def parameters(kind: LayerKind) -> float:
        return _mixer(model, kind, layout) + model.feed_parameters(kind.feed, kind.ffn) / layout.tp

    return mean([kind for kind in model.kinds if kind.feed != "experts"] or _plain(model), parameters)


def layer_moe_dense(model: Model, layout: Layout) -> float:
    """The mean layer with experts, without its routed experts."""
    beside = model.shared_parameters() / layout.tp + model.router_parameters()
    with_experts = [kind for kind in model.kinds if kind.feed == "experts"] or _plain(model)
    return mean(with_experts, lambda kind: _mixer(model, kind, layout) + beside)


def _plain(model: Model) -> list[LayerKind]:
    """A layer with the model's heads and width, as a prediction layer is if no other is like it."""
    return [replace(kind, ffn=model.ffn, feed="dense") for kind in model.kinds[:1]]


def layer_expert(model: Model, layout: Layout) -> float:
    """Routed experts of one layer."""
    return model.experts * model.expert_parameters() / (layout.ep * layout.expert_tp)


def embedding(model: Model, layout: Layout) -> float:
    """Input embedding."""
    return model.embedding_parameters() / layout.tp


def head(model: Model, layout: Layout) -> float:
    """Last norm, output projection (a tied one again if pipeline stages separate it), prediction layers' dense part."""
    tied_copy = model.vocab * model.hidden if model.tied_embeddings and layout.pp > 1 else 0
    ahead = 2 * model.hidden * model.hidden + 3 * model.norm_parameters()
    layer = layer_moe_dense(model, layout) if model.experts else layer_dense(model, layout)
    return (
        model.norm_parameters() + (model.head_parameters() + tied_copy) / layout.tp + model.mtp_layers * (ahead + layer)
    )


def prediction_expert(model: Model, layout: Layout) -> float:
    """Routed experts of the multi-token-prediction layers, which are part of the head's stage."""
    return model.mtp_layers * layer_expert(model, layout)
