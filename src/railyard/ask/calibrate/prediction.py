"""What the training model says of an operator on a catalogue entry, without any training software over it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from railyard.work.training.columns import Columns
from railyard.work.training.operators import attention, gemm_rate, gemm_s, stream
from railyard.work.training.spec import Layout, SoftwareProfile, Training

if TYPE_CHECKING:
    from railyard.catalog import Accelerator, Model

_BARE = SoftwareProfile(name="bare", attention="flash2", attention_forward=1.0, attention_backward=1.0)
_BITS = {"bf16": 16.0, "fp16": 16.0, "fp32": 16.0, "fp8": 8.0}


def _columns(device: Accelerator, model: Model, *, sequence: int = 1, batch: int = 1) -> Columns:
    layout = Layout(global_batch=batch, micro_batch=batch, sequence_parallel=False)
    return Columns.of([Training(model=model, layout=layout, seq_len=sequence, software=_BARE)], [device])


def product_s(device: Accelerator, model: Model, m: int, n: int, k: int, *, datatype: str, batch: int = 1) -> float:
    """Seconds of a matrix product, or of a batch in one kernel; a processor's 32-bit ones stand for 16-bit ones.

    Args:
        device: Catalogue entry.
        model: Any model; its dimensions do not count.
        m: Rows of the output.
        n: Columns of the output.
        k: Inner dimension.
        datatype: Of the operands.
        batch: Products.
    """
    columns = _columns(device, model)
    one = np.ones(1)
    bits = one * _BITS[datatype]
    sizes = (one * m, one * n, one * k)
    rate = gemm_rate(columns, bits)
    found = gemm_s(columns, *sizes, bits=bits, out_bytes=2.0 * one, batch=one * batch, rate=rate)
    return float((found + columns.device.gap_s)[0])


def attention_s(device: Accelerator, model: Model, shape: tuple[int, int, int, int]) -> tuple[float, float]:
    """Seconds of causal attention: forward, and forward with backward.

    Args:
        device: Catalogue entry.
        model: Any model; only its heads are replaced.
        shape: Batch, heads, sequence, head dimension.
    """
    batch, heads, sequence, width = shape
    changed = dataclasses.replace(
        model, heads=heads, kv_heads=heads, head_dim=width, mla=None, sliding_window=None, max_seq=sequence
    )
    found = attention(_columns(device, changed, sequence=sequence, batch=batch))
    forward = float(found.forward[0])
    return forward, forward + float(found.backward_input[0])


def stream_s(device: Accelerator, model: Model, moved_bytes: float) -> float:
    """Seconds of a pass over memory."""
    return float(stream(_columns(device, model), "stream", np.array([moved_bytes]), np.zeros(1)).forward[0])


def predicted_s(device: Accelerator, model: Model, kind: str, dims: tuple[int, ...], datatype: str) -> float | None:
    """Seconds of an operator by its kind; None for kinds of which the training model says nothing here.

    Args:
        device: Catalogue entry.
        model: Any model; its dimensions do not count.
        kind: `product`, `grouped`, `attention`, `attention-both`, `copy` or `norm`.
        dims: (m, n, k); (experts, m, n, k); (batch, heads, sequence, head dimension); or (bytes moved,).
        datatype: Of the operands.
    """
    if kind == "product":
        m, n, k = dims
        return product_s(device, model, m, n, k, datatype=datatype)
    if kind == "grouped":
        experts, m, n, k = dims
        return product_s(device, model, m, n, k, datatype=datatype, batch=experts)
    if kind.startswith("attention"):
        batch, heads, sequence, width = dims
        return attention_s(device, model, (batch, heads, sequence, width))[kind != "attention"]
    return stream_s(device, model, float(dims[0])) if kind in ("copy", "norm") else None
