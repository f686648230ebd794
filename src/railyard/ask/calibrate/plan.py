"""Operators to measure: shapes of training steps, as large as the device allows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
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
    """Seconds of a matrix product, or of a batch in one kernel; a processor's 32-bit ones stand for 16-bit ones."""
    columns = _columns(device, model)
    one = np.ones(1)
    bits = one * _BITS[datatype]
    sizes = (one * m, one * n, one * k)
    rate = gemm_rate(columns, bits)
    found = gemm_s(columns, *sizes, bits=bits, out_bytes=2.0 * one, batch=one * batch, rate=rate)
    return float((found + columns.device.gap_s)[0])


def attention_s(device: Accelerator, model: Model, shape: tuple[int, int, int, int]) -> tuple[float, float]:
    """Seconds of causal attention: forward, and forward with backward."""
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


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """Operators to measure.

    Attributes:
        products: (m, n, k) of matrix products; tokens first.
        least_s: Seconds that each operator is measured at least.
    """

    products: tuple[tuple[int, int, int], ...]
    grouped: tuple[tuple[int, int, int, int], ...]
    attention: tuple[tuple[int, int, int, int], ...]
    copies: tuple[int, ...]
    norms: tuple[tuple[int, int], ...]
    collectives: tuple[int, ...]
    least_s: float


# Projections of Llama 3 8B, 70B and 405B (TP 8), of GPT-3 (TP 4), short and long; squares for the best rate.
_LARGE_PRODUCTS = (
    (8192, 8192, 8192),
    (16384, 8192, 8192),
    (8192, 28672, 4096),
    (8192, 4096, 14336),
    (4096, 6144, 4096),
    (4096, 4096, 4096),
    (4096, 1280, 8192),
    (4096, 7168, 8192),
    (4096, 8192, 3584),
    (8192, 13312, 16384),
    (8192, 16384, 6656),
    (2048, 9216, 12288),
    (2048, 12288, 12288),
    (2048, 2048, 2048),
    (1024, 8192, 8192),
    (512, 4096, 4096),
    (4096, 128256, 4096),
)
LARGE = MeasurementPlan(
    products=_LARGE_PRODUCTS,
    grouped=((8, 2048, 14336, 4096), (8, 2048, 4096, 14336), (32, 512, 2816, 2048), (64, 128, 2048, 7168)),
    attention=((2, 32, 4096, 128), (1, 32, 8192, 128), (1, 16, 32768, 128), (4, 32, 2048, 64)),
    copies=(2**26, 2**28, 2**30),
    norms=((8192, 4096), (8192, 8192), (4096, 16384)),
    collectives=(2**20, 2**24, 2**28),
    least_s=0.3,
)
LARGE_QUICK = MeasurementPlan(
    products=_LARGE_PRODUCTS[:6],
    grouped=LARGE.grouped[:1],
    attention=LARGE.attention[:2],
    copies=(2**28,),
    norms=LARGE.norms[:1],
    collectives=(2**28,),
    least_s=0.05,
)
# For a processor: the same kinds of shape, a few GFLOP each.
SMALL = MeasurementPlan(
    products=(
        (1024, 1024, 1024),
        (2048, 2048, 2048),
        (1024, 4096, 1024),
        (1024, 1024, 4096),
        (512, 2048, 512),
        (256, 1024, 256),
        (2048, 512, 2048),
        (128, 4096, 1024),
    ),
    grouped=((8, 128, 1024, 512), (16, 64, 512, 512)),
    attention=((1, 4, 512, 64), (1, 4, 1024, 64)),
    copies=(2**24, 2**26, 2**27),
    norms=((2048, 1024), (1024, 4096)),
    collectives=(),
    least_s=0.2,
)
SMALL_QUICK = MeasurementPlan(
    products=((1024, 1024, 1024), (1024, 2048, 512), (512, 1024, 1024)),
    grouped=((4, 128, 512, 512),),
    attention=((1, 4, 256, 64),),
    copies=(2**25,),
    norms=((1024, 1024),),
    collectives=(),
    least_s=0.02,
)
