"""Products of experts: as many matrix products of one shape as a rank holds experts, one after another.

Each group reads its own weights cold, and its first tiles wait for them, so the time of its operands through memory
comes on top of the time of its tiles instead of hiding under it; and each group is a kernel of its own. On 108
measured shapes of a B200 (MooreThreads/SimuMax, bf16, 20 to 256 groups of 128 to 9,832 tokens) this law is off by 10 %
with one share of the rate; the longer of the two times, as for one large product, by 19 %
(tests/training_model/test_grouped.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from railyard.work.training.operators import Operator, gemm_rate, gemm_s

if TYPE_CHECKING:
    from railyard.model.columns import F
    from railyard.work.training.columns import Columns

# From the end of one group's kernel to the next one's start on the same streams, seconds: fitted on those shapes.
_GROUP_S = 1e-6
# Calls beside each group's product in 8 or 4 bits: largest value, scale, casts by row and column, layout of the scales.
_NARROW_KERNELS = 6.0


def grouped(
    columns: Columns, name: str, m: F, k: F, n: F, *, groups: F, joined: Literal["input", "output"]
) -> Operator:
    """Products of `groups` times m tokens from k to n features: forward, gradient of the input, of the weight.

    Args:
        columns: The designs.
        name: What it is.
        m: Tokens of each group.
        k: Input features.
        n: Output features.
        groups: Experts of the rank.
        joined: The side where the activation is; under fused experts the kernel before casts it.
    """
    software, width = columns.software, columns.job.bits
    share = np.where(width < 16, software.grouped_narrow, software.grouped_fraction)
    rate = gemm_rate(columns, width) * share
    used = np.where(m * k * n > 0, 1.0, 0.0)
    memory = columns.device.hbm_bytes_s * software.memory_fraction
    # One cast of all groups' operands together, forward and backward.
    cast = np.where(width < 16, software.cast_bytes, 0.0) * groups * m / memory * used
    kernels = np.where(software.grouped_kernel > 0, 1.0, groups) * used
    casts = np.where((width < 16) & (software.grouped_kernel == 0), _NARROW_KERNELS, 0.0) * kernels
    between = np.where(width < 16, software.narrow_group_s, _GROUP_S)
    two, grad = np.full_like(m, 2.0), 2.0 * software.gradient_bytes
    separate = np.where(software.fused_experts > 0, 0.0, 1.0)

    def product(rows: F, columns_: F, inner: F, out: F) -> F:
        tiles = gemm_s(columns, rows, columns_, inner, bits=width, out_bytes=0.0 * out, batch=groups, rate=rate)
        operands = groups * ((rows * inner + inner * columns_) * width / 8.0 + rows * columns_ * out)
        seconds: F = used * (tiles + operands / memory + kernels * between)
        return seconds

    return Operator(
        name,
        forward=product(m, n, k, two) + cast * k * (separate if joined == "input" else 1.0),
        backward_input=product(m, k, n, two) + cast * n * (separate if joined == "output" else 1.0),
        backward_weight=product(n, k, m, grad),
        flops=2.0 * m * k * n * groups,
        launches=kernels + casts,
        launches_backward=2.0 * kernels + casts,
    )
