"""Low-rank adapters next to a frozen model (LoRA, arXiv 2106.09685): their products and number of trained weights.

A frozen product has no weight gradient; its input still gets one. Each adapted matrix W of k inputs and n outputs has A
(k x rank) and B (rank x n) next to it: x A, (x A) B and its sum with x W forward; the gradients of both, of x A and of
x,
and the sum of the latter, backward. Each runs separately in 16 bits, as in PyTorch, without dropout.
Megatron's products of queries, keys and values, and of gate and up, are one matrix with one adapter (`fused_adapters`).

Split by columns, W has A whole on every tensor-parallel rank and B split; split by rows the other way round. Routed
experts, router, embedding and logits are frozen without adapters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError
from railyard.model.architecture import mean
from railyard.work.training import operators as op

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from railyard.catalog import Model
    from railyard.catalog.block import LayerKind
    from railyard.model.machine import F
    from railyard.work.training.columns import Columns
    from railyard.work.training.operators import Operator
    from railyard.work.training.spec import Layout, Lora, Training

# Bytes per element of the sum of a product and its adapter's: both read, the sum written, 16 bits each.
_SUM = 6.0
# Kernels of an adapter: two products and a sum forward; four products and a sum backward.
_FORWARD_KERNELS, _BACKWARD_KERNELS = 3.0, 5.0


def check_lora(training: Training) -> None:
    """Rejects impossible adapters: their rank, and combinations that are not modeled.

    Raises:
        InputError: The adapters are impossible.
    """
    lora = training.lora
    if lora is None:
        return
    if lora.rank < 1:
        raise InputError("an adapter has a rank of at least 1", key="lora.rank", found=lora.rank)
    for key in ("communication", "offload"):
        if getattr(training, key) is not None:
            raise InputError(f"adapters of a frozen model are not modelled together with `{key}`", key=key)


@dataclass(frozen=True, slots=True)
class _Matrix:
    """An adapted matrix of a rank: inputs and outputs as that rank has them, and which of them TP splits."""

    inputs: float
    outputs: float
    by_columns: bool


def adapters_of_layer(model: Model, layout: Layout, lora: Lora, *, experts: bool, fused: bool = False) -> float:
    """Trained weights of the mean layer on one rank.

    Args:
        model: Architecture.
        layout: How it is split.
        lora: Adapters.
        experts: Whether to count layers with experts, rather than those without.
        fused: Whether fused products share one adapter.
    """

    def trained(kind: LayerKind) -> float:
        matrices = [*_mixer(model, kind, fused), *(_feed(model, kind, fused) if lora.targets == "all" else ())]
        return sum(lora.rank * _held(matrix, layout.tp) for matrix in matrices)

    of = [kind for kind in model.kinds if (kind.feed == "experts") == experts] or list(model.kinds[:1])
    return mean(of, trained)


def _held(matrix: _Matrix, tp: int) -> float:
    if matrix.by_columns:
        return matrix.inputs + matrix.outputs / tp
    return matrix.inputs / tp + matrix.outputs


def _mixer(model: Model, kind: LayerKind, fused: bool) -> Iterable[_Matrix]:
    hidden, latent = float(model.hidden), model.mla
    if not kind.plain:
        features = kind.mixer_parameters / hidden
        return (_Matrix(hidden, features, by_columns=True),) if features else ()
    queries = float(kind.heads * kind.score_dim)
    out = _Matrix(float(kind.heads * kind.value_dim), hidden, by_columns=False)
    if latent is None:
        keys, values = float(kind.kv_heads * kind.score_dim), float(kind.kv_heads * kind.value_dim)
        widths = (queries + keys + values,) if fused else (queries, keys, values)
        return *(_Matrix(hidden, width, by_columns=True) for width in widths), out
    low = float(latent.kv_lora + latent.rope_dim)
    up = float(model.heads * (latent.nope_dim + latent.v_dim))
    query = [_Matrix(hidden, queries, by_columns=True)]
    if latent.q_lora:
        low_q = float(latent.q_lora)
        query = [_Matrix(hidden, low_q, by_columns=True), _Matrix(low_q, queries, by_columns=True)]
    return *query, _Matrix(hidden, low, by_columns=True), _Matrix(float(latent.kv_lora), up, by_columns=True), out


def _feed(model: Model, kind: LayerKind, fused: bool) -> Iterable[_Matrix]:
    shared = model.shared_experts * (model.shared_ffn or model.moe_ffn)
    width = float(shared if kind.feed == "experts" else kind.ffn)
    if not width:
        return ()
    ups = [width, width] if model.gated_mlp else [width]
    ups = [sum(ups)] if fused else ups
    return *(_Matrix(float(model.hidden), up, by_columns=True) for up in ups), _Matrix(
        width, float(model.hidden), by_columns=False
    )


def attention_adapters(columns: Columns) -> list[Operator]:
    """Adapters of a layer's mixer; none if no design has any."""
    rank = columns.job.adapter_rank
    if not np.any(rank > 0):
        return []
    model, layout, tokens = columns.model, columns.layout, columns.tokens
    heads, groups = model.heads / layout.tp, np.maximum(model.kv_heads / layout.tp, 1.0)
    grouped = model.plain * (1.0 - model.latent)
    low = model.kv_lora + model.rope_dim
    mixed = model.mixed_parameters / model.hidden / layout.tp
    single, both = groups * model.head_dim * grouped, 2.0 * groups * model.head_dim * grouped
    separate = 1.0 - columns.software.fused_adapters
    queries = heads * model.score_dim * model.plain + (1.0 - separate) * both
    return [
        _adapter(columns, "query adapter", (tokens, model.hidden, queries), rank),
        _adapter(columns, "key adapter", (tokens, model.hidden, separate * single), rank),
        _adapter(columns, "value adapter", (tokens, model.hidden, separate * single), rank),
        _adapter(columns, "latent adapter", (tokens, model.hidden, low * model.latent * model.plain), rank),
        _adapter(columns, "projection adapter", (tokens, heads * model.value_dim * model.plain, model.hidden), rank),
        _adapter(columns, "mixer adapter", (tokens, model.hidden, mixed), rank),
    ]


def mlp_adapters(columns: Columns, name: str, width: F) -> list[Operator]:
    """Adapters of an MLP of that width on a rank; none if no design has any."""
    rank = columns.job.adapter_rank * columns.job.adapter_mlp
    if not np.any(rank > 0):
        return []
    model, tokens = columns.model, columns.tokens
    separate, gate = 1.0 - columns.software.fused_adapters, width * model.gated
    return [
        _adapter(columns, f"{name} up adapter", (tokens, model.hidden, width + (1.0 - separate) * gate), rank),
        _adapter(columns, f"{name} gate adapter", (tokens, model.hidden, separate * gate), rank),
        _adapter(columns, f"{name} down adapter", (tokens, width, model.hidden), rank),
    ]


def _adapter(columns: Columns, name: str, sizes: tuple[F, F, F], rank: F) -> Operator:
    m, k, n = sizes
    sixteen = np.full_like(rank, 16.0)
    one = np.ones_like(rank)
    rate, gap = op.gemm_rate(columns, sixteen), columns.device.gap_s
    memory = columns.device.hbm_bytes_s * columns.software.memory_fraction
    used = np.where(m * k * n * rank > 0, 1.0, 0.0)

    def product(rows: F, width: F, inner: F) -> F:
        return op.gemm_s(columns, rows, width, inner, bits=sixteen, out_bytes=2.0 * one, batch=one, rate=rate)

    return op.Operator(
        name,
        forward=used * (product(m, rank, k) + product(m, n, rank) + m * n * _SUM / memory + _FORWARD_KERNELS * gap),
        backward_input=used * (product(m, rank, n) + product(m, k, rank) + m * k * _SUM / memory + 3.0 * gap),
        backward_weight=used * (product(rank, n, m) + product(k, rank, m) + 2.0 * gap),
        flops=used * 2.0 * m * rank * (k + n),
        launches=_FORWARD_KERNELS * used,
        launches_backward=_BACKWARD_KERNELS * used,
        trained=True,
    )


def frozen(columns: Columns, operators: Sequence[Operator]) -> Sequence[Operator]:
    """The same operators without weight gradients if the model is frozen."""
    share = columns.job.frozen
    if not np.any(share > 0):
        return operators
    return [operator if operator.trained else _frozen(operator, share) for operator in operators]


def _frozen(operator: Operator, share: F) -> Operator:
    if operator.name == "embedding":
        return replace(operator, backward_input=(1.0 - share) * operator.backward_input)
    product = np.where(operator.backward_weight > 0, 1.0, 0.0)
    return replace(
        operator,
        backward_weight=(1.0 - share) * operator.backward_weight,
        launches_backward=operator.launches_backward - share * product * operator.launches_backward / 2.0,
    )
