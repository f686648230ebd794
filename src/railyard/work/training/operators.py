"""Time of one operator on one accelerator, from its shape: matrix products, attention, and passes over memory.

Three laws, each over columns (see `columns`):

- a matrix product takes whole waves of output tiles over the compute units, each tile as long as its inner dimension
  says at the best rate that is measured on the device; or the time of its operands through memory, if that is longer;
- attention takes its (causal, windowed) FLOPs at the measured rate of the kernel family, less where its blocks leave
  compute units idle;
- everything else takes its bytes through memory, and does not hide under matrix products.

Each kernel adds the device's gap between two kernels. Times are seconds, for one micro-batch on one rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.model.machine import F
    from railyard.work.training.columns import Columns

# Output tiles of common GEMM libraries (rows, columns) and the share of the best rate that each reaches: a small tile
# reuses its operands less. These and the four numbers below meet 183 shapes measured on an A100 with 2.8 % mean error
# (tests/work/training_model).
_TILES = np.array([(256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 64)], dtype=np.float64)
_TILE_RATE = np.array([1.0, 1.0, 0.9, 0.8, 0.8, 0.77, 0.6])
# Inner-dimension splits that fill idle units, and the fp32 partial sums that they cost.
_SPLITS = np.array([1.0, 2.0, 4.0])
# Filling and draining a tile's pipeline costs as much as this many bytes of its inner dimension.
_FILL_BYTES = 256.0
# Of the time that a partial last wave of tiles would take if it were whole, so much is lost; units without a tile leave
# the others their power, their share of the L2 cache and of memory.
_PARTIAL_WAVE = 0.6
# Adding to what is in memory (weight gradients) takes so much longer for each byte of an element beyond the 2 written:
# 5 % with sums in 32 bits, on the A100 and the B200 alike.
_ACCUMULATE_PER_BYTE = 0.05 / 6.0
# Of the bytes of a cast with its transpose (2 read, 1 and 1 written), those of the transpose.
_SECOND_COPY = 0.25
# Rows of a query block of a fused attention kernel.
_ATTENTION_ROWS = 128.0
# Unfused softmax forward and backward, bytes per score: (scale, mask and softmax in one kernel of 16 bits, one
# operation at a time: cast to 32 bits, scale, mask, softmax, cast back), and how many kernels the latter has more. Then
# dropout: read 2, write 2, mask 1.
_SOFTMAX_BYTES = ((4.0, 37.0), (6.0, 40.0))
_SOFTMAX_APART = 4.0
_DROPOUT_BYTES = 5.0
# Backward of a fused attention kernel does five products where forward does two.
_ATTENTION_BACKWARD_FLOPS = 2.5
# An element that attention wants in 8 bits: 2 bytes read, 1 written.
_ATTENTION_CAST_BYTES = 3.0


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a layer: seconds on the device, FLOPs and kernels, for one micro-batch on one rank.

    Attributes:
        forward, backward_input, backward_weight: Device time of each pass.
        flops: FLOPs of the forward matrix products (multiply and add are two).
        launches, launches_backward: Kernels launched.
        core: Whether selective recomputation runs it again.
        last: Whether nothing in backward needs its result, so that recomputation may stop in front of it.
        trained: Whether it is trained where the model is frozen: an adapter.
    """

    name: str
    forward: F
    backward_input: F
    backward_weight: F
    flops: F
    launches: F
    launches_backward: F
    core: bool = False
    last: bool = False
    trained: bool = False

    def times(self, share: F) -> Operator:
        """The same in that share of the layers."""
        names = ("forward", "backward_input", "backward_weight", "flops", "launches", "launches_backward")
        return replace(self, **{name: share * getattr(self, name) for name in names})


def gemm_rate(columns: Columns, bits: F) -> F:
    """FLOP/s of the best large matrix product at that operand width: the software's share, as far as power lasts.

    A benchmark's product ends before the device is warm; a step runs for hours at the power limit, where a joule pays
    for so many FLOP. GPUs of one process node pay alike: 16-bit products of H100, B200, GB200 and GB300 all take 1 W
    for about 1 TFLOP/s, so the share of peak falls from one generation to the next. 4-bit products do not: Blackwell
    Ultra's tensor cores do half as many again for each cycle, and sustain the same share of their peak as Blackwell's.
    """
    device, software = columns.device, columns.software
    narrow = np.where(bits == 8, device.gemm8 * software.fp8_fraction, device.gemm4 * software.fp4_fraction)
    share = np.where(bits == 16, device.gemm16 * software.gemm_fraction, narrow)
    joule = np.where(bits == 16, software.joule16, np.where(bits == 8, software.joule8, 0.0))
    return np.minimum(share, np.where(joule > 0, joule * device.tdp_w, np.inf))


def gemm_s(columns: Columns, m: F, n: F, k: F, *, bits: F, out_bytes: F, batch: F, rate: F) -> F:
    """Seconds of `batch` products of (m x k) by (k x n), without the gap between kernels.

    Args:
        columns: The designs.
        m: Rows of the output.
        n: Columns of the output.
        k: Inner dimension.
        bits: Width of the operands.
        out_bytes: Memory traffic per output element (accumulation reads and writes).
        batch: Products in the kernel.
        rate: FLOP/s of the whole device at full occupation.

    Returns:
        The longer of compute and memory time.
    """
    units, memory = columns.device.units, columns.device.hbm_bytes_s
    tile = _TILES[:, None, :, None]
    rows, width = tile[:, :, 0], tile[:, :, 1]
    splits = _SPLITS[None, :, None]
    tiles = np.ceil(m / rows) * np.ceil(n / width) * batch * splits
    inner = k / splits + _FILL_BYTES * 8.0 / bits
    unit_rate = rate / units * _TILE_RATE[:, None, None]
    waves = _PARTIAL_WAVE * np.ceil(tiles / units) + (1.0 - _PARTIAL_WAVE) * np.maximum(tiles / units, 1.0)
    accumulated = 1.0 + _ACCUMULATE_PER_BYTE * np.maximum(out_bytes - 2.0, 0.0)
    compute = waves * (2.0 * rows * width * inner) / unit_rate * accumulated
    partial = np.where(splits > 1, splits * 4.0 * m * n * batch / memory, 0.0)
    best = np.min(compute + partial, axis=(0, 1))
    traffic = batch * ((m * k + k * n) * bits / 8.0 + m * n * out_bytes)
    return np.where(m * n * k > 0, np.maximum(best, traffic / memory), 0.0)


def linear(
    columns: Columns,
    name: str,
    m: F,
    k: F,
    n: F,
    *,
    bits: F | None = None,
) -> Operator:
    """A projection of m tokens from k to n features: forward, gradient of its input, gradient of its weight.

    Args:
        columns: The designs.
        name: What it is.
        m: Tokens.
        k: Input features.
        n: Output features.
        bits: Operand width; the job's when None. Narrow operands are cast first, forward and backward; with adapters
            there is no second copy for the weight gradient (Transformer Engine's `Linear`: columnwise usage only if the
            weight requires a gradient).
    """
    one = np.ones_like(columns.job.bits)
    width = columns.job.bits if bits is None else bits
    rate = gemm_rate(columns, width)
    two, grad = 2.0 * one, 2.0 * columns.software.gradient_bytes
    memory = columns.device.hbm_bytes_s * columns.software.memory_fraction
    copied = columns.software.cast_bytes * (1.0 - _SECOND_COPY * columns.job.frozen)
    cast = np.where(width < 16, copied, 0.0) * m / memory
    used = np.where(m * k * n > 0, 1.0, 0.0)
    casts = np.where(cast > 0, used, 0.0)
    gap = columns.device.gap_s * used
    return Operator(
        name,
        forward=gemm_s(columns, m, n, k, bits=width, out_bytes=two, batch=one, rate=rate) + cast * k * used + gap,
        backward_input=gemm_s(columns, m, k, n, bits=width, out_bytes=two, batch=one, rate=rate)
        + cast * n * used
        + gap,
        backward_weight=gemm_s(columns, n, k, m, bits=width, out_bytes=grad, batch=one, rate=rate) + gap,
        flops=2.0 * m * k * n,
        launches=used + casts,
        launches_backward=2.0 * used + casts,
    )


def stream(columns: Columns, name: str, forward_bytes: F, backward_bytes: F, kernels: F | float = 1.0) -> Operator:
    """A pass over memory: norms, activations, residuals, rotary, permutations, casts.

    Args:
        columns: The designs.
        name: What it is.
        forward_bytes: Read and written forward.
        backward_bytes: Read and written backward.
        kernels: Launched forward, and as many backward.
    """
    memory = columns.device.hbm_bytes_s * columns.software.memory_fraction
    used = np.where(forward_bytes > 0, 1.0, 0.0) * kernels
    gap = columns.device.gap_s * used
    zero = np.zeros_like(memory)
    return Operator(name, forward_bytes / memory + gap, backward_bytes / memory + gap, zero, zero, used, used)


def attended(columns: Columns) -> F:
    """Keys that a query attends to on average over the layers: causal, windowed, or all."""
    seq, window = columns.job.seq_len, columns.model.window
    half = np.where(columns.job.causal > 0, 0.5, 1.0)
    near = np.where(window > 0, np.minimum(window, seq), seq)
    windowed = near - near * near / (2.0 * seq)
    share = np.where(columns.job.causal > 0, columns.model.windowed, 0.0)
    return share * windowed + (1.0 - share) * seq * half


def attention(columns: Columns) -> Operator:
    """The attention core: scores, softmax, weighted values; a fused kernel, or products and passes over the scores."""
    fused, plain = _fused_attention(columns), _plain_attention(columns)
    flash = columns.software.flash > 0
    names = ("forward", "backward_input", "backward_weight", "flops", "launches", "launches_backward")
    chosen = {name: np.where(flash, getattr(fused, name), getattr(plain, name)) for name in names}
    return Operator("attention", **chosen, core=True)


def _fused_attention(columns: Columns) -> Operator:
    device, software, layout = columns.device, columns.software, columns.layout
    heads = columns.model.heads / layout.tp
    queries = columns.job.seq_len / layout.cp
    flops = columns.model.core_flops(columns.tokens * attended(columns) * heads)
    # All of a block on the diagonal is computed: half a block of keys more for each query.
    padded = 1.0 + np.where(
        columns.job.causal > 0, _ATTENTION_ROWS / 2.0 / np.maximum(attended(columns), _ATTENTION_ROWS), 0.0
    )
    blocks = layout.micro_batch * heads * np.ceil(queries / _ATTENTION_ROWS)
    # Causal blocks differ in length, so the last wave is filled better than a count of whole waves would have it.
    filled = blocks / (blocks + device.units / 2.0)
    filled = np.maximum(filled, blocks / (np.ceil(blocks / device.units) * device.units))
    width = columns.model.score_dim
    narrow = np.where(width < 128, 0.8, np.where(width > 128, 0.9, 1.0))
    eight = software.attention_bits == 8
    rate = np.where(eight, device.attention8, device.attention) * filled * narrow / padded
    forward = flops / (rate * software.attention_forward)
    backward = _ATTENTION_BACKWARD_FLOPS * flops / (rate * software.attention_backward)
    one, gap = np.ones_like(flops), device.gap_s
    # Queries, keys and values forward, the gradient of the output backward.
    cast_s = np.where(eight, _ATTENTION_CAST_BYTES, 0.0) / (device.hbm_bytes_s * software.memory_fraction)
    groups = np.maximum(columns.model.kv_heads / layout.tp, 1.0)
    ahead = cast_s * columns.tokens * (heads * width + groups * (width + columns.model.value_dim))
    back = cast_s * columns.tokens * heads * columns.model.value_dim
    return Operator(
        "attention", forward + ahead + gap, backward + back + 3.0 * gap, 0.0 * one, flops, one, 3.0 * one, core=True
    )


def _plain_attention(columns: Columns) -> Operator:
    model = columns.model
    heads = columns.layout.micro_batch * model.heads / columns.layout.tp
    queries, keys = columns.job.seq_len / columns.layout.cp, columns.job.seq_len
    sixteen = np.full_like(keys, 16.0)
    rate = gemm_rate(columns, sixteen)
    two = np.full_like(keys, 2.0)

    def product(m: F, n: F, k: F) -> F:
        return gemm_s(columns, m, n, k, bits=sixteen, out_bytes=two, batch=heads, rate=rate) + columns.device.gap_s

    scores, values = product(queries, keys, model.score_dim), product(queries, model.value_dim, keys)
    memory = columns.device.hbm_bytes_s * columns.software.memory_fraction
    cells, gap = heads * queries * keys, columns.device.gap_s
    ahead, back = (np.where(_softmax_fused(heads, keys), fused, apart) for fused, apart in _SOFTMAX_BYTES)
    more = np.where(_softmax_fused(heads, keys), 0.0, _SOFTMAX_APART)
    passes = cells * (ahead + _DROPOUT_BYTES) / memory + (2.0 + more) * gap
    backward = 2.0 * (scores + values) + cells * (back + _DROPOUT_BYTES) / memory + (2.0 + more) * gap
    flops = model.core_flops(cells)
    return Operator(
        "attention", scores + passes + values, backward, np.zeros_like(flops), flops, 8.0 + more, 10.0 + more, core=True
    )


def _softmax_fused(heads: F, keys: F) -> NDArray[np.bool_]:
    """Whether Megatron's scaled, masked softmax kernel takes the shape.

    It wants four rows of a batch and head in a block of 128 threads, and 2,048 keys at most in its first form
    (Megatron-LM v2.x, fused_softmax.py, `is_kernel_available`); else the operations run one at a time in 32 bits.
    """
    taken: NDArray[np.bool_] = np.logical_and(np.mod(heads, 4.0) == 0.0, keys <= 2048.0)
    return taken
